"""An empty figure that belongs to no window and yet shows itself in a notebook."""

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """A matplotlib figure without pyplot, which a notebook would otherwise need to show it.

    Args:
        width, height: inches.

    Raises:
        ImportError: matplotlib is not installed; the message says how to get it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "a figure needs the extra plot: pip install 'cdp-views[plot]'", name="matplotlib"
        ) from None

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return Shown(figsize=(width, height), layout="constrained")

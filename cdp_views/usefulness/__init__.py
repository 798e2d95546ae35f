"""What a release is still good for: errors of cells and of sums, and how large they are."""

from cdp_views.usefulness.error import utility as utility
from cdp_views.usefulness.size import SIZE_CLASSES as SIZE_CLASSES
from cdp_views.usefulness.size import relative_by_size as relative_by_size

__all__ = ["SIZE_CLASSES", "relative_by_size", "utility"]

"""What a ledger says before it spends."""

from cdp_views.releases.budget.accounts import Left, Price
from cdp_views.releases.budget.earlier import Compared


def of_spending(
    number: int,
    price: Price,
    rest: Left,
    delta: float,
    *,
    added: int,
    counted: str | None,
    compared: Compared,
    unknown: bool,
) -> str:
    """What a release costs, what it adds, what became of earlier totals, and what is left.

    Args:
        number: of the release.
        price: of it.
        rest: afterwards.
        delta: of the ledger.
        added: exact totals that no earlier release published.
        counted: what was counted, in words.
        compared: its totals with earlier ones.
        unknown: whether totals of some release are not known.
    """
    text = f"Release {number} of this table costs epsilon {price.epsilon:g}, delta {price.delta:g}"
    if number == 1:
        return f"{text}. Afterwards {amount(rest, delta)} is left."
    text += ": a new release with its own cost, also where it corrects a figure of an earlier one."
    if added:
        text += f" It adds {added} exact total{_s(added)} to those published before."
    if compared.corrected:
        verb = "differs" if compared.corrected == 1 else "differ"
        text += (
            f" It supersedes release {compared.supersedes}: {compared.corrected} of the exact "
            f"totals published before {verb} by these counts; by how much is public, and no noise "
            "covers it."
        )
    elif unknown:
        text += " An exact total that was corrected shows by how much: no noise covers it."
    if compared.beside:
        others = ", ".join(f'"{words}"' for words in compared.beside)
        text += (
            f' Nothing was counted as "{counted}" before: its totals are compared with none of '
            f"{others}."
        )
    return f"{text} Afterwards {amount(rest, delta)} is left."


def amount(rest: Left, delta: float) -> str:
    """What is left, also for Normal noise where that is more."""
    text = f"epsilon {rest.epsilon:.6g}"
    if rest.epsilon_normal > rest.epsilon * (1 + 1e-9):
        text += f", or {rest.epsilon_normal:.6g} if it is normal noise (at delta {delta:g}),"
    return text


def _s(count: int) -> str:
    return "" if count == 1 else "s"

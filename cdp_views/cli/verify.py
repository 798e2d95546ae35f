"""`cdp-views verify`: a short report on a release."""

from pathlib import Path


def run(path: Path) -> bool:
    """Print each check; whether all passed."""
    from cdp_views.releases import read_release

    made = read_release(path)
    checks = made.checks()
    told = made.metadata
    delta = f", delta {told['delta']:g}" if told["delta"] else ""
    print(
        f"{path}: {told['view']} view of {told['noise']} noise, epsilon {told['epsilon']:g}{delta}"
    )
    for check in checks:
        print("  ok    " if check.ok else "  FAILED", check.text)
    passed = all(check.ok for check in checks)
    print("The release verifies." if passed else "The release does not verify.")
    return passed

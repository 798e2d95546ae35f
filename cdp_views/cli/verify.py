"""`cdp-views verify`: a short report on a release."""

from pathlib import Path


def run(path: Path) -> bool:
    """Print each check; whether all passed."""
    from cdp_views.releases import read_parts, read_release

    made = read_parts(path) if path.is_dir() else read_release(path)
    told = made.metadata
    delta = f", delta {told['delta']:g}" if told["delta"] else ""
    what = f"counts of {told['counted']}, " if "counted" in told else ""
    law = f"{told['view']} view of {told['noise']} noise"
    print(f"{path}: {what}{law}, epsilon {told['epsilon']:g}{delta}")
    passed = True
    for check in made.checks():  # of parts: one after the other, as they are read
        word = "skipped" if check.skipped else "ok" if check.ok else "FAILED"
        print(f"  {word:7} {check.text}")
        passed &= check.ok
    print("The release verifies." if passed else "The release does not verify.")
    return passed

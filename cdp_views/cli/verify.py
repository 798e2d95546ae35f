"""`cdp-views verify`: a short report on a release."""

from pathlib import Path


def run(path: Path) -> bool:
    """Print each check; whether all passed."""
    from cdp_views.releases import read_parts, read_release

    if path.is_dir() and not (path / "_release.json").is_file():
        there = [f for f in sorted(path.glob("*.json")) if f.with_suffix("").is_file()]
        name = f" Name a released table, such as `{there[0].with_suffix('')}`." if there else ""
        raise ValueError(f"`{path}` is a folder, and no release in parts lies in it.{name}")
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

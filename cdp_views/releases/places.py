"""Putting complete files in their places: whole or not at all, and nothing overwritten."""

import os
from pathlib import Path


def place_new(made: Path, place: Path) -> None:
    """Move a complete file to a name that nothing has yet."""
    sync_file(made)
    try:
        os.link(made, place)  # fails where the name is taken, in one step
    except FileExistsError:
        raise FileExistsError(f"`{place}` is there already. Name another file.") from None
    except OSError:  # a file system without hard links: look, then move
        if place.exists():
            raise FileExistsError(f"`{place}` is there already. Name another file.") from None
        os.rename(made, place)


def sync_file(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until names in the folder are on the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def literal(name: str) -> str:
    """The name as a pattern that matches itself alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)

"""One release that is paid for: its secret lies in a file of its own until the output is whole."""

import json
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from cdp_views.releases.budget.accounts import Spent
from cdp_views.releases.noise.secret import Secret
from cdp_views.releases.places import literal, sync_folder

_VERSION = 1


@final
@dataclass(frozen=True, eq=False)
class Reservation:
    """A line of a ledger, and the place of its secret.

    Args:
        ledger: path of the ledger.
        number: of the release in it, from 1.
        name: 128 random bits in hex, which the metadata of the release repeat.
        scale: of the noise that is paid for.
        added_totals: exact totals that no earlier release had published.
        spent: of all releases up to this one together.
        corrected: exact totals of earlier releases that are others by now.
        supersedes: number and day of the release that had them.
    """

    ledger: Path
    number: int
    name: str
    scale: np.ndarray
    added_totals: int
    spent: Spent
    corrected: int = 0
    supersedes: tuple[int, str] | None = None

    @classmethod
    def fresh(
        cls, ledger: Path, number: int, scale: np.ndarray, added_totals: int, spent: Spent
    ) -> Self:
        """A new one, with a name that no other has."""
        return cls(ledger, number, secrets.token_hex(16), scale, added_totals, spent)

    @classmethod
    def named(cls, ledger: Path, name: str) -> Self:
        """The place of one, by its name alone."""
        return cls(ledger, 0, name, np.zeros(()), 0, Spent(np.nan, np.nan))

    @classmethod
    def all_of(cls, ledger: Path) -> list[Self]:
        """Those whose secrets lie beside the ledger."""
        found = ledger.parent.glob(f"{literal(ledger.name)}.*.secret")
        names = [path.name.removesuffix(".secret").rpartition(".")[2] for path in found]
        return [cls.named(ledger, name) for name in names]

    def known(
        self, spent: Spent, added_totals: int, corrected: int, supersedes: tuple[int, str] | None
    ) -> Self:
        """The same, with what all releases cost together, and what is new or was corrected."""
        return replace(
            self,
            spent=spent,
            added_totals=added_totals,
            corrected=corrected,
            supersedes=supersedes,
        )

    @property
    def correction(self) -> dict[str, Any]:
        """For the metadata: how many totals of an earlier release changed, and of which."""
        stated: dict[str, Any] = {"corrected_totals": self.corrected} if self.corrected else {}
        if self.supersedes is not None:
            number, day = self.supersedes
            stated["supersedes"] = {"release": number, "reserved": day}
        return stated

    @property
    def path(self) -> Path:
        """Of the secret."""
        return self.ledger.with_name(f"{self.ledger.name}.{self.name}.secret")

    @property
    def has_secret(self) -> bool:
        """Whether it can be resumed."""
        return self.path.is_file()

    def keep(self, secret: Secret, input_digest: str) -> None:
        """Write the secret to its own file, for its owner alone (mode 0600)."""
        told = {"version": _VERSION, "secret": secret.root.hex(), "input": input_digest}
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)

    def read(self) -> tuple[Secret, str]:
        """The secret and the digest of the input that it is bound to."""
        try:
            told = json.loads(self.path.read_text())
            return Secret(bytes.fromhex(told["secret"])), str(told["input"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"`{self.path}` is not the secret of a release. Delete it; its cost stays spent."
            ) from None

    def destroy(self) -> None:
        """Overwrite and remove the secret. (A disk or a backup may still hold what was there.)"""
        try:
            with self.path.open("r+b") as file:
                file.write(b"\0" * os.fstat(file.fileno()).st_size)
                file.flush()
                os.fsync(file.fileno())
            self.path.unlink()
        except FileNotFoundError:
            return
        sync_folder(self.path.parent)

"""What somebody presents, judged against an account; or against nobody's, at the same cost.

There always is an account to judge against: where the name has none, one that
nobody has.  Its outcome is thrown away, and the time that it took is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, field, frozen

from svc.authority.accounts.codes import (
    code_sha256,
    is_totp,
    matching,
    recovery_code,
    totp_secret,
    totp_step,
)
from svc.authority.accounts.passwords import PasswordHashes
from svc.authority.accounts.secrets import SealedSecrets
from svc.authority.accounts.security_keys import (
    KeyAnswer,
    KeyRefused,
    KeySite,
    RegisteredKey,
    asserted,
)
from svc.model.cluster.account import RECOVERY_CODES, PersonSecret, SecretKind
from svc.model.cluster.person import Person


@frozen
class Presented:
    """What somebody presents besides the password; a passkey's answer comes without one.

    Attributes:
        answer: A key's, to *challenge*; instead of *code*.
    """

    code: str = field(repr=False)
    challenge: bytes = b""
    answer: KeyAnswer | None = None


@frozen
class SecondFactor:
    """A second factor, judged.

    Attributes:
        row: That it is of; None where it is of none.
        counter: To be kept with the row.
        why: It is refused; empty where it is good.
    """

    kind: SecretKind
    row: PersonSecret | None = None
    counter: int | None = None
    why: str = ""


@frozen
class FoundAccount:
    """Whom a name is of.

    Attributes:
        rows: What the person signs in by; none where there is no account.
        why: There is none that can be used.
    """

    known: Person | None
    rows: Sequence[PersonSecret] = field(default=(), repr=False)
    why: str = ""


@define
class AccountJudge:
    """Judges what is presented.

    Attributes:
        decoys: The account that nobody has.
    """

    secrets: SealedSecrets
    site: KeySite
    decoys: Sequence[PersonSecret]
    now: Callable[[], float]

    def password(self, rows: Iterable[PersonSecret]) -> str:
        """The hash of the account's password.  Raises SealBroken; so does what follows."""
        (row,) = self._of(rows, SecretKind.PASSWORD, 1)
        return self.secrets.open(row).value.decode()

    def second_factor(self, rows: Iterable[PersonSecret], presented: Presented) -> SecondFactor:
        """What is presented besides the password."""
        if presented.answer is not None:
            kept = self._of(rows, SecretKind.KEY, 1)
            return self._key(self.site, kept, presented.challenge, presented.answer)
        if is_totp(presented.code):
            return self._totp(rows, presented.code)
        return self._recovery(rows, presented.code)

    def _totp(self, rows: Iterable[PersonSecret], code: str) -> SecondFactor:
        (row,) = self._of(rows, SecretKind.TOTP, 1)
        step = totp_step(self.secrets.open(row).value, code, self.now())
        if row in self.decoys:
            return SecondFactor(SecretKind.TOTP, why="no_totp")
        if step is None:
            return SecondFactor(SecretKind.TOTP, why="code_wrong")
        if row.counter is not None and step <= row.counter:
            return SecondFactor(SecretKind.TOTP, why="code_replayed")
        return SecondFactor(SecretKind.TOTP, row, step)

    def _recovery(self, rows: Iterable[PersonSecret], code: str) -> SecondFactor:
        kept = self._of(rows, SecretKind.RECOVERY, RECOVERY_CODES)
        found = matching(((row.id, self.secrets.open(row).value) for row in kept), code)
        row = next((one for one in kept if one.id == found and one not in self.decoys), None)
        return SecondFactor(SecretKind.RECOVERY, row, why="" if row else "recovery_wrong")

    def passkey(
        self, site: KeySite, rows: Iterable[PersonSecret], challenge: bytes, answer: KeyAnswer
    ) -> SecondFactor:
        """What a passkey answered; it verified its holder, so it needs no password beside it."""
        return self._key(site, self._of(rows, SecretKind.PASSKEY, 1), challenge, answer)

    def _key(
        self, site: KeySite, kept: Sequence[PersonSecret], challenge: bytes, answer: KeyAnswer
    ) -> SecondFactor:
        kind = kept[0].kind
        keys = [(row, RegisteredKey.read(self.secrets.open(row).value)) for row in kept]
        # Another's key is judged by the first: the refusal is the same, and so is its time.
        row, key = next(
            (one for one in keys if one[1].credential_id == answer.credential_id), keys[0]
        )
        try:
            counter = asserted(site, challenge, key, row.counter, answer)
        except KeyRefused as refused:
            return SecondFactor(kind, why=refused.reason)
        return SecondFactor(kind, row, counter)

    def _of(
        self, rows: Iterable[PersonSecret], kind: SecretKind, least: int
    ) -> Sequence[PersonSecret]:
        """The account's rows of a kind, made up to *least* by the decoys'."""
        found = [row for row in rows if row.kind is kind]
        decoys = [row for row in self.decoys if row.kind is kind]
        return found + decoys[: max(0, least - len(found))]


def decoy_account(
    secrets: SealedSecrets, hashes: PasswordHashes, new_public: Callable[[], bytes]
) -> tuple[PersonSecret, ...]:
    """An account that nobody has.

    Args:
        new_public: Makes the public key of a security key that is nowhere.
    """
    entropy = secrets.entropy
    key = RegisteredKey(entropy(32), new_public())
    values: list[tuple[SecretKind, Any]] = [
        (SecretKind.PASSWORD, hashes.decoy(entropy).encode()),
        (SecretKind.TOTP, totp_secret(entropy)),
        (SecretKind.KEY, key.kept),
        (SecretKind.PASSKEY, RegisteredKey(entropy(32), new_public()).kept),
    ]
    for _ in range(RECOVERY_CODES):
        values.append((SecretKind.RECOVERY, code_sha256(recovery_code(entropy))))
    return tuple(secrets.new("", kind, value) for kind, value in values)

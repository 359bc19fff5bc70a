"""Passwords: what is taken for one, and their hashes, made in threads of their own.

Argon2id with what OWASP recommends as a minimum (19 MiB, two passes, one lane).
Together the threads never use more memory than their number times that, and the
hashing holds no lock of the interpreter: the reactor goes on meanwhile.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from unicodedata import category, normalize

from argon2 import PasswordHasher, Type
from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import ARGON2_VERSION
from attrs import define, field, frozen

from svc.errors import Fault, SvcError
from svc.model.cluster.account import PASSWORD_DIFFERENT
from svc.model.ids import Entropy
from svc.runtime.threads import InThread

MAX_PASSWORD_BYTES = 1024
MAX_WAITING = 64
"""Hashes asked for and not yet made; past them people are asked to come again."""

_T = TypeVar("_T")


class PasswordRefused(SvcError):
    """A new password that is not taken."""

    fault = Fault.INVALID
    reason = "password_refused"


@frozen
class PasswordCost:
    """What one hash costs.

    Attributes:
        memory_kib, passes, lanes: As in RFC 9106; the first recommendation of the OWASP
            cheat sheet on storing passwords that fits many people at once.
    """

    memory_kib: int = 19_456
    passes: int = 2
    lanes: int = 1


@define
class PasswordHashes:
    """Makes and checks hashes.

    Attributes:
        threads: Each runs one call at a time.
    """

    threads: Sequence[InThread]
    cost: PasswordCost = field(factory=PasswordCost)
    _waiting: list[int] = field(init=False)
    _hasher: PasswordHasher = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._waiting = [0] * len(self.threads)
        self._hasher = PasswordHasher(
            time_cost=self.cost.passes,
            memory_cost=self.cost.memory_kib,
            parallelism=self.cost.lanes,
            type=Type.ID,
        )

    def hash_now(self, password: str) -> str:
        """The hash, made at once on this thread."""
        return self._hasher.hash(encoded(password))

    def decoy(self, entropy: Entropy) -> str:
        """A hash of no password that anybody knows; checking against it costs what any check costs.

        It is random and not computed: a start need not pay for a hash.
        """
        cost, hasher = self.cost, self._hasher
        costs = f"m={cost.memory_kib},t={cost.passes},p={cost.lanes}"
        sizes = (hasher.salt_len, hasher.hash_len)
        salt, digest = (b64encode(entropy(size)).decode().rstrip("=") for size in sizes)
        return f"$argon2id$v={ARGON2_VERSION}${costs}${salt}${digest}"

    async def hash(self, password: str) -> str:
        """The hash of a new password.

        Raises:
            SvcError: ``sign_in_busy``.
        """
        return await self._run(partial(self.hash_now, password))

    async def verify(self, hashed: str, password: str) -> bool:
        """Whether it is the password of that hash.

        Raises:
            SvcError: ``sign_in_busy``.
        """
        return await self._run(partial(self._verify, hashed, password))

    def _verify(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, encoded(password))
        except (Argon2Error, InvalidHashError):
            return False

    async def _run(self, call: Callable[[], _T]) -> _T:
        if sum(self._waiting) >= MAX_WAITING:
            raise SvcError(
                "too many people are signing in; try again in a moment",
                reason="sign_in_busy",
                fault=Fault.EXHAUSTED,
            )
        place = self._waiting.index(min(self._waiting))
        self._waiting[place] += 1
        try:
            return await self.threads[place](call)
        finally:
            self._waiting[place] -= 1


def encoded(password: str) -> bytes:
    """What is hashed: the same however a keyboard composes its characters."""
    return normalize("NFKC", password).encode("utf-8")


def check_password(password: str, name: str, least: int) -> None:
    """Refuse what is no good as a new password.

    Raises:
        PasswordRefused: ``password_long``, ``password_short``, ``password_characters``,
            ``password_name``, ``password_simple``.
    """
    if len(password) > MAX_PASSWORD_BYTES or len(encoded(password)) > MAX_PASSWORD_BYTES:
        raise PasswordRefused(
            f"the password has more than {MAX_PASSWORD_BYTES} bytes", reason="password_long"
        )
    if len(normalize("NFKC", password)) < least:
        raise PasswordRefused(
            f"the password must have at least {least} characters", reason="password_short"
        )
    if any(category(one) in ("Cc", "Cs", "Cn") for one in password):
        raise PasswordRefused(
            "the password has a character that cannot be typed everywhere",
            reason="password_characters",
        )
    if name.casefold() in password.casefold():
        raise PasswordRefused("the password contains your name", reason="password_name")
    if len(set(password.casefold())) < PASSWORD_DIFFERENT:
        raise PasswordRefused(
            f"the password must have at least {PASSWORD_DIFFERENT} different characters",
            reason="password_simple",
        )

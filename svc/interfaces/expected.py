"""The facet of keys that may join without a token."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.cluster.node import ExpectedKey


class IExpectedKeys(Interface):
    """Keys that an operator expects; each joins once."""

    def add(expected: ExpectedKey, at: float) -> None:
        """Expect a key. Raises AlreadyExists: the id is in use, or the key was already expected."""

    def get(key_id: str) -> ExpectedKey | None:
        """One by its id, also when used or expired."""

    def of_key(key_sha256: bytes) -> ExpectedKey | None:
        """The one of this key, also when used or expired."""

    def use(key_id: str, at: float) -> bool:
        """Use it up; of any number of attempts one succeeds."""

    def unexpired(at: float) -> tuple[ExpectedKey, ...]:
        """Every one that has not expired at *at*, used ones included, by id."""

"""The facet of what people without a provider sign in by."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.cluster.account import PersonSecret


class ISecrets(Interface):
    """Passwords, second factors, recovery and enrollment codes."""

    def add(secret: PersonSecret) -> None:
        """Add one.  Raises AlreadyExists: the id is taken."""

    def get(secret_id: str) -> PersonSecret | None:
        """One of them."""

    def of(person_id: str) -> tuple[PersonSecret, ...]:
        """Those of a person, by id."""

    def all() -> tuple[PersonSecret, ...]:
        """Every one, by id."""

    def count(secret_id: str, counter: int) -> None:
        """Keep the counter of the last code that was taken."""

    def remove(secret_id: str) -> bool:
        """Remove one with its counter; False if it was not there."""

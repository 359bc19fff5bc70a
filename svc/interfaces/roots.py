"""The facet of the distribution root; every row of it is signed for elsewhere (rule R8)."""

from __future__ import annotations

from zope.interface import Interface

from svc.model.distribution import DistributionRoot, KeySet, RootOwner, RootShare


class IRoots(Interface):
    """Epochs of the root, its owners, what they were given, and the key sets.

    Each ``put`` adds a row, or replaces the one of the same id.
    """

    def roots() -> tuple[DistributionRoot, ...]:
        """Every epoch, the oldest first."""

    def put_root(root: DistributionRoot) -> None:
        """Keep an epoch.

        Raises:
            AlreadyExists: two would be in force.
        """

    def owners() -> tuple[RootOwner, ...]:
        """Every owner, withdrawn ones as well, by name."""

    def put_owner(owner: RootOwner) -> None:
        """Keep an owner.

        Raises:
            AlreadyExists: another owner has the same receiver key.
        """

    def shares() -> tuple[RootShare, ...]:
        """What every owner was given of every epoch."""

    def put_share(share: RootShare) -> None:
        """Keep what an owner was given, or its word on it."""

    def key_sets() -> tuple[KeySet, ...]:
        """Every revision, the oldest first."""

    def put_key_set(key_set: KeySet) -> None:
        """Keep a revision."""

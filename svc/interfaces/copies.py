"""Copies of a whole store: an optional power of a store's factory, for backups.

A copy is a stream of lines that names no database: what was read from one may be
filled into another.  All calls block; none is made in a running role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from attrs import frozen
from zope.interface import Attribute, Interface

from svc.interfaces.store import ChainHash, ITransaction
from svc.model.canonical import Json
from svc.model.store.migration import AppliedMigration


@frozen
class CopyHead:
    """What a copy says of itself first.

    Attributes:
        stamp: Whatever the maker of the copy wanted inside.
        dialect: The scheme of the store it was read from.
        ledger: That store's applied migrations.
    """

    stamp: Json
    dialect: str
    ledger: tuple[AppliedMigration, ...]


class IStoreCopy(Interface):
    """A store that is being copied: one snapshot, taken at the first read."""

    tx: ITransaction = Attribute("The snapshot's facets.")
    dialect: str = Attribute("The scheme of the store's URL.")
    rows: Mapping[str, int] = Attribute("How many each table had; whole after the last line.")

    def lines(stamp: Json) -> Iterator[bytes]:
        """The copy; in constant memory.

        Raises:
            StoreUnavailable: the store cannot be read to its end.
        """


class IStoreFilling(Interface):
    """A new store being filled; nothing of it is there before :meth:`commit`."""

    tx: ITransaction = Attribute("What has been filled in, to be checked.")

    def fill(lines: Iterable[bytes]) -> CopyHead:
        """Make the copy's schema and put its rows there; in constant memory.

        Raises:
            Malformed: the copy is malformed, or not whole.
            UnknownApplied, MigrationsBroken: it is of another build.
        """

    def commit() -> None:
        """Let the store be there, durably."""


class IStoreCopies(Interface):
    """What a factory offers whose stores can be backed up."""

    def files(url: str) -> Sequence[str]:
        """Every file in which the store may lie, working files included; none for a server."""

    def is_there(url: str) -> bool:
        """Whether anything exists at the place of the store.

        Raises:
            StoreUnavailable: the database does not answer.
        """

    def copied(
        url: str, chain_hash: ChainHash, now: Callable[[], float], alone: bool
    ) -> AbstractContextManager[IStoreCopy]:
        """Read the store.

        Args:
            alone: Keep every writer out meanwhile; else the snapshot is all there is.

        Raises:
            StoreUnavailable: ``store_in_use`` where *alone* and somebody writes, or
                there is no such store.
        """

    def filled(
        url: str, chain_hash: ChainHash, now: Callable[[], float]
    ) -> AbstractContextManager[IStoreFilling]:
        """Make the store again; keeps every writer out meanwhile.

        Raises:
            AlreadyExists: there is something at its place.
            StoreUnavailable: somebody holds it, or it cannot be written.
        """

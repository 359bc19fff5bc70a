"""The seams of the audit log: where its rows are read, where its heads are kept.

Appending is ``tx.audit.append`` on the page ``svc.interfaces.facets``, because
a record belongs to the transaction of what it records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zope.interface import Interface

from svc.model.audit import SignedHead
from svc.model.ledger import ChainHead, ChainRow
from svc.model.signing import Signed

HeadVerifier = Callable[[Signed, float], object]
"""``verify(signed, at)``: raises SvcError unless *signed* was made for the purpose of
heads by a key whose certificates were valid at *at* (Unix seconds) and end in a trusted root."""


class IChain(Interface):
    """The durable rows of the log, as whoever signs heads reads them."""

    async def head() -> ChainHead:
        """The last link; only what is committed."""

    async def rows(from_seq: int, limit: int) -> tuple[ChainRow, ...]:
        """At most *limit* links from *from_seq* on, in order."""


class IHeadKeeper(Interface):
    """Keeps signed heads outside the store.  Every method may block on a disk."""

    def newest() -> SignedHead | None:
        """The greatest head kept, or None where none ever was.

        Raises:
            AuditBroken: what is kept cannot be read, or contradicts itself.
        """

    def keep(head: SignedHead) -> None:
        """Keep *head*; returns once it is durable.  Called in the order of tree sizes."""

    def heads() -> Iterator[SignedHead]:
        """All heads kept until this call, oldest first; later ones are not shown.

        Raises:
            AuditBroken: while iterating, at what cannot be read.
        """

"""Finds the tunnels that a killed leader left open, and records their ends.

A fact of the store says of each registered tunnel where its record is in the log.  It is set with
that record and dropped with the record of the end, so what a killed leader leaves are facts.  They
are signed by nobody: whoever reaches the tables can add any number of them.  So a fact only says
where to look.  What is recorded follows from the log alone, read from there to the last record,
those of this leader included: every link must hold, and the registration must be the newest of its
Connector and Proxy, without an end after it.  So no tunnel gets two ends, however many facts there
are, nor one while it goes on with this leader; and no more are recorded than there are pairs of
such nodes in the registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from svc.audit.log.verify import ChainFault, follow
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import StateUnsigned
from svc.errors import AuditBroken, Malformed
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import TUNNEL_ENDED, TUNNEL_REGISTERED
from svc.model.audit.ledger import ChainHead, ChainRow
from svc.model.canonical import decode
from svc.model.principal import Role

MAX_FACTS = 20_000
"""Looked at as one leader begins: far more than tunnels that one Authority serves."""

MAX_RECORDS = 1_000_000
"""How far back from its end the log is read; a registration before that gets no end."""

_NEAR = 50_000
"""Records that are followed before this leader serves anybody; more are while it serves."""

BATCH = 500
"""Records read, or facts dropped, in one transaction."""

OPEN_TUNNEL = "open_tunnel"
"""What the facts of open tunnels are called, before the dot."""

LEADER_GONE = "leader_gone"
"""Why a tunnel ended whose end the leader that registered it did not record."""

_MOST_DIGITS = 18
_SHOWN = 64

_DOUBT_SECS = 60.0
"""An end that, by how long its tunnel lasted, began as much before a registration as this is that
of an earlier one.  Clocks may be corrected by less."""

_MARKS = tuple(f'"{one.name}"'.encode("ascii") for one in (TUNNEL_REGISTERED, TUNNEL_ENDED))

_log = Logger(namespace="svc_authority")


def open_fact(seq: int) -> str:
    """The one name of the fact that the tunnel registered by record *seq* has no end yet."""
    return f"{OPEN_TUNNEL}.{seq}"


@frozen
class TunnelMark:
    """A registration or an end, as a record that was verified says it.

    Attributes:
        tunnel: The Connector and the Proxy.
        is_end: Else it is a registration.
        began_at: When it was registered; of an end, when its tunnel was, None where it does not
            say so.
    """

    seq: int
    tunnel: tuple[str, str]
    is_end: bool
    began_at: float | None

    def may_end(self, registered: TunnelMark) -> bool:
        """Whether this, which came later, may be the end of that registration."""
        if self.began_at is None or registered.began_at is None:
            return True
        return self.began_at > registered.began_at - _DOUBT_SECS


@frozen
class OpenFacts:
    """The facts that were there as this leader began.

    Attributes:
        names: Of all of them, whatever they are called.
        head: How far the log went.
        seqs: The records that facts name by the one name that they have.
    """

    names: Sequence[str]
    head: ChainHead
    seqs: frozenset[int] = field(init=False)

    @seqs.default
    def _named(self) -> frozenset[int]:
        last = self.head.seq
        seqs = filter(None, map(registered_at, self.names))
        return frozenset(seq for seq in seqs if last - MAX_RECORDS < seq <= last)

    @property
    def is_near(self) -> bool:
        """Whether the log is read so quickly that a leader may wait for that."""
        return not self.seqs or self.head.seq - min(self.seqs) < _NEAR


@frozen
class FollowedPart:
    """A part of the log that was followed link by link.

    Attributes:
        seq: The last record of it.
        hash: Its hash; None where it is not known, before the first part.
        marks: What the records say that follow from one another up to the last.
        is_broken: Not all of them do, so that nothing before can be shown.
        is_last: The log ended with it.
    """

    seq: int
    hash: bytes | None
    marks: tuple[TunnelMark, ...] = ()
    is_broken: bool = False
    is_last: bool = False


@define
class _OpenTunnels:
    """Which of the registrations looked for are open, as far as the log was read."""

    wanted: frozenset[int]
    newest: dict[tuple[str, str], TunnelMark] = field(factory=dict, init=False)
    followed_by_another: set[int] = field(factory=set, init=False)

    def take(self, part: FollowedPart) -> None:
        """Go on by the next part of the log."""
        if part.is_broken:
            self.newest.clear()
            self.followed_by_another.clear()
        for one in part.marks:
            known = self.newest.get(one.tunnel)
            if one.is_end:
                if known is not None and one.may_end(known):
                    del self.newest[one.tunnel]
                continue
            if known is not None:
                # It was registered again, or replaced: the tunnel of the newer one may go on.
                self.followed_by_another.add(known.seq)
                del self.newest[one.tunnel]
            if one.seq in self.wanted:
                self.newest[one.tunnel] = one


@frozen
class TunnelsLeftOpen:
    """Judges the facts that were there as this leader began."""

    store: IStore
    recorder: Recorder

    async def look(self) -> OpenFacts:
        """The facts, before this leader registers any tunnel.

        More than MAX_FACTS wait for the next start.  Raises SvcError.
        """

        def read(tx: ITransaction) -> OpenFacts:
            return OpenFacts(tx.schema.facts(OPEN_TUNNEL, MAX_FACTS), tx.audit.head())

        return await self.store.read("tunnels left open", read)

    async def record_ends(self, facts: OpenFacts) -> int:
        """Record the ends that are due, and drop the facts; how many ends.  Raises SvcError."""
        tunnels, end = await self._open(facts)
        due = {open_fact(one.seq): one.tunnel for one in tunnels.newest.values()}
        recorded = list[str]()
        for start in range(0, len(facts.names), BATCH):
            some = facts.names[start : start + BATCH]
            recorded += await self.store.run(
                "end tunnels", partial(self._end, some=some, due=due, end=end)
            )
        if recorded:
            _log.info("ends of tunnels recorded that another leader left", tunnels=len(recorded))
        known = {*recorded, *map(open_fact, tunnels.followed_by_another)}
        others = [name for name in facts.names if name not in known]
        if others:
            _log.warn(
                "facts of open tunnels dropped, and no end recorded: the log does not show that "
                "they were left open",
                facts=len(others),
                first=others[0][:_SHOWN],
            )
        return len(recorded)

    async def _open(self, facts: OpenFacts) -> tuple[_OpenTunnels, FollowedPart]:
        """What is open, as far as the log went when this returns, and how far that was."""
        tunnels = _OpenTunnels(facts.seqs)
        part = FollowedPart(min(facts.seqs, default=facts.head.seq + 1) - 1, None)
        while facts.seqs and not part.is_last:
            part = await self.store.read("tunnels left open", partial(_follow, before=part))
            tunnels.take(part)
        return tunnels, part

    def _end(
        self,
        tx: ITransaction,
        some: Sequence[str],
        due: dict[str, tuple[str, str]],
        end: FollowedPart,
    ) -> list[str]:
        again = _registered_since(tx, end) if due else None
        still = {} if again is None else {at: one for at, one in due.items() if one not in again}
        ended = list[str]()
        for name in some:
            tunnel = still.get(name)
            if tx.schema.drop(name) and tunnel is not None and self._are_known(tx, *tunnel):
                self._record(tx, *tunnel)
                ended.append(name)
        return ended

    def _are_known(self, tx: ITransaction, connector_id: str, proxy_id: str) -> bool:
        """Whether signed rows of the registry have both, with these roles; also when revoked."""
        try:
            rows = self.recorder.rows(tx)
            connector, proxy = rows.node(connector_id), rows.node(proxy_id)
        except StateUnsigned:
            return False
        return (
            connector is not None
            and proxy is not None
            and (connector.role, proxy.role) == (Role.CONNECTOR.value, Role.PROXY.value)
        )

    def _record(self, tx: ITransaction, connector_id: str, proxy_id: str) -> None:
        self.recorder.append(
            tx,
            TUNNEL_ENDED,
            node(connector_id),
            node_id=connector_id,
            reason=LEADER_GONE,
            details={"proxy_id": proxy_id, "connector_id": connector_id},
        )


def registered_at(name: str) -> int | None:
    """The record that a fact names by the one name that it has; None for any other name."""
    word = name.rpartition(".")[2]
    if not (word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS):
        return None
    return int(word) if name == open_fact(int(word)) else None


def _follow(tx: ITransaction, before: FollowedPart) -> FollowedPart:
    """The next part of the log."""
    head = tx.audit.head()
    try:
        rows = tx.audit.rows(before.seq + 1, BATCH)
    except AuditBroken:
        rows = ()  # what is wrong with the log is found where it is verified
    if not rows:
        is_broken = (before.seq, before.hash) != (head.seq, head.hash)
        return FollowedPart(head.seq, head.hash, is_broken=is_broken, is_last=True)
    seq, last, marks, is_broken = before.seq, before.hash, list[TunnelMark](), False
    for row in rows:
        try:
            follow(row, seq + 1, row.prev_hash if last is None else last)
        except ChainFault:
            is_broken = True
            marks.clear()
        else:
            marks += _marks(row)
        seq, last = row.seq, row.hash
    is_last = seq >= head.seq
    if is_last and (seq, last) != (head.seq, head.hash):
        return FollowedPart(head.seq, head.hash, is_broken=True, is_last=True)
    return FollowedPart(seq, last, tuple(marks), is_broken=is_broken, is_last=is_last)


def _registered_since(tx: ITransaction, end: FollowedPart) -> frozenset[tuple[str, str]] | None:
    """The tunnels that were registered after what was followed; None: the log does not tell."""
    tunnels, part = set[tuple[str, str]](), evolve(end, is_last=False)
    while not part.is_last:
        part = _follow(tx, part)
        if part.is_broken:
            return None
        tunnels.update(one.tunnel for one in part.marks if not one.is_end)
    return frozenset(tunnels)


def _marks(row: ChainRow) -> list[TunnelMark]:
    """What a record says of a tunnel, if it does."""
    if not any(mark in row.canonical for mark in _MARKS):
        return []
    try:
        record: Any = decode(row.canonical)
        event, details = record["event"], record["details"]
        if event not in (TUNNEL_REGISTERED.name, TUNNEL_ENDED.name):
            return []
        tunnel = (details["connector_id"], details["proxy_id"])
        at: float | None = datetime.fromisoformat(record["time"]).timestamp()
        if event == TUNNEL_ENDED.name:
            lasted_ms = details.get("duration_ms")
            at = None if lasted_ms is None else at - lasted_ms / 1000
    except (Malformed, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return []
    if not all(isinstance(one, str) for one in tunnel):
        return []
    is_end = event == TUNNEL_ENDED.name
    return [TunnelMark(seq=row.seq, tunnel=tunnel, is_end=is_end, began_at=at)]

"""Where ``svc authority audit show`` looks at records: in the store, or at the Authority.

On the Authority's host the store is read directly, so it works with every role
stopped.  From another machine the Authority is asked, a part of the log at a time.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, evolve, frozen

from svc.cli.calls import asked, run
from svc.cli.lane import AdminLane, Connect
from svc.errors import Fault, SvcError

if TYPE_CHECKING:
    from svc.audit.log.selection import Selection
    from svc.interfaces.rpc import IRpcChannel
    from svc.interfaces.store import ITransaction
    from svc.ops.show import Shown, ShownRecords
    from svc.ops.store import StorePlace
    from svc.proto.gate.v1 import admin_pb2 as pb

LAST = 10
FOLLOW_SECS = 1.0
"""Between two looks at the log."""

MOST = 1000
LARGEST = 2**63 - 1

First = Callable[["ShownRecords"], object]
Say = Callable[[Iterable["Shown"]], object]
AskRecords = Callable[["pb.ShowRecordsRequest"], Awaitable["pb.ShowRecordsResponse"]]


@frozen
class RecordQuery:
    """Which records are asked for: one, those of a decision, or the newest that match.

    Attributes:
        most: At most so many of the newest.
    """

    decision_id: str | None = None
    seq: int | None = None
    most: int = LAST
    person: str | None = None
    resource: str | None = None
    event: str | None = None
    decision: str | None = None
    session: str | None = None
    since: float | None = None
    until: float | None = None

    def selection(self, tx: ITransaction) -> Selection:
        """By ids, once it is known who a person is."""
        from svc.audit.log.selection import Selection
        from svc.ops.show import persons_called

        return Selection(
            persons=None if self.person is None else persons_called(tx, self.person),
            resource=self.resource,
            event=self.event,
            decision=self.decision,
            session=self.session,
            since=self.since,
            until=self.until,
        )

    def message(self, before: int = 0, after: int | None = None) -> pb.ShowRecordsRequest:
        """As it is asked of an Authority."""
        from svc.proto.gate.v1 import admin_pb2

        return admin_pb2.ShowRecordsRequest(
            decision_id=self.decision_id or "",
            seq=self.seq or 0,
            most=self.most,
            person=self.person or "",
            resource=self.resource or "",
            event=self.event or "",
            decision=self.decision or "",
            session=self.session or "",
            since=self.since,
            until=self.until,
            before=before,
            after=after,
        )


class RecordSource(Protocol):
    """Where records are looked at."""

    def show(self, query: RecordQuery, first: First, later: Say | None) -> None:
        """Show what is there now, and then what comes, until interrupted.

        Args:
            first: Told what is asked for.
            later: Told what comes after it; None: nothing is waited for.
        """


@frozen
class StoreRecords:
    """The store of this host."""

    place: StorePlace

    def show(self, query: RecordQuery, first: First, later: Say | None) -> None:
        """See :class:`RecordSource`."""
        from svc.ops.show import LogReader

        def look(tx: ITransaction) -> ShownRecords:
            reading = LogReader(tx)
            if query.decision_id is not None:
                return reading.decided(query.decision_id)
            if query.seq is not None:
                return reading.numbered(query.seq)
            return reading.newest(query.selection(tx), query.most)

        found = self.place.look("audit show", look)
        first(found)
        if later is not None:
            self._follow(query, found.end, later)

    def _follow(self, query: RecordQuery, end: int, say: Say) -> None:
        from svc.ops.show import LogReader

        async def follow(reactor: Any) -> None:
            from twisted.internet.task import deferLater

            seen = end

            def later(tx: ITransaction) -> ShownRecords:
                return LogReader(tx).after(query.selection(tx), seen)

            while True:
                found = self.place.look("audit show", later)
                say(found.shown)
                if found.end == seen:
                    await deferLater(reactor, FOLLOW_SECS, lambda: None)
                seen = found.end

        run(follow)


@frozen
class AuthorityRecords:
    """The Authority, asked from another machine."""

    lane: AdminLane

    def show(self, query: RecordQuery, first: First, later: Say | None) -> None:
        """See :class:`RecordSource`; a connection that ends while it follows is made again."""
        run(_Showing(self.lane.connecting(), query=query, first=first, later=later).main)


@define
class _Showing:
    """Asks for records, over one connection at a time."""

    _connect: Connect
    query: RecordQuery
    first: First
    later: Say | None
    _end: int | None = None

    async def main(self, reactor: Any) -> None:
        """Until all is told, or until interrupted.

        Raises:
            SvcError: refused, or no Proxy is reached.
        """
        is_over = False
        while not is_over:
            opened = await self._connect(reactor)
            before = self._end
            try:
                is_over = await self._told(_asking(opened.channel), reactor)
            except SvcError as ended:
                # A lane has an end, and a Proxy may be replaced: what was told is not told again.
                if ended.fault is not Fault.UNAVAILABLE or self._end == before:
                    raise
            finally:
                await opened.close()

    async def _told(self, ask: AskRecords, reactor: Any) -> bool:
        """Whether that was all."""
        from twisted.internet.task import deferLater

        if self._end is None:
            found = await first_records(ask, self.query)
            self.first(found)
            self._end = found.end
        if self.later is None:
            return True
        while True:
            found = read_records(await ask(self.query.message(after=self._end)))
            self.later(found.shown)
            if found.end == self._end:
                await deferLater(reactor, FOLLOW_SECS, lambda: None)
            self._end = found.end


async def first_records(ask: AskRecords, query: RecordQuery) -> ShownRecords:
    """What is asked for, part after part, until there is enough of it."""
    found: list[Shown] = []
    wanted, before, end = query, 0, 0
    while True:
        part = read_records(await ask(wanted.message(before)))
        found, end, before = [*part.shown, *found], max(end, part.end), part.before
        if not before or len(found) >= query.most:
            return evolve(part, shown=found, end=end, more=part.more or bool(before))
        wanted = evolve(query, most=query.most - len(found))


def read_records(told: pb.ShowRecordsResponse) -> ShownRecords:
    """What an Authority told."""
    from svc.ops.show import ShownRecords

    shown = [json.loads(one) for one in told.records]
    return ShownRecords(shown, told.end, more=told.more, before=told.before)


def _asking(channel: IRpcChannel) -> AskRecords:
    from svc.proto.gate.v1 import admin_pb2

    async def ask(request: pb.ShowRecordsRequest) -> pb.ShowRecordsResponse:
        return await asked(channel, "ShowRecords", request, admin_pb2.ShowRecordsResponse)

    return ask

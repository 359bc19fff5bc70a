"""Records of refusals, bounded: nobody fills the log by being refused (rule R12).

Each source (a Proxy, the join listener) has its share of records a minute.
What is refused past it is counted, and the count becomes one record when the
minute is over.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.records import ANONYMOUS, Recorder, node
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit import rfc3339
from svc.model.canonical import Json
from svc.model.events import REFUSALS_SUMMARY

_log = Logger(namespace="svc_authority")

WINDOW_SECS = 60.0
JOINERS = ""
"""The source that stands for everybody without a certificate."""


@define
class Window:
    """One source's minute: how many records it got, and how many refusals got none."""

    began: float
    since: float
    recorded: int = 0
    left_out: int = 0


@define
class RefusalRecords:
    """Writes a refusal's record while its source's share lasts.

    Attributes:
        per_minute: How many records one source gets.
    """

    store: IStore
    recorder: Recorder
    clock: IReactorTime
    now: Callable[[], float]
    per_minute: int = 60
    _windows: dict[str, Window] = field(factory=dict)

    async def write(self, source: str, desc: str, record: Callable[[ITransaction], object]) -> bool:
        """Record one refusal, or count it; whether it got its own record.

        Args:
            source: The node that brought it, or ``JOINERS``.
            record: Appends the record; run inside a transaction.

        Raises:
            StoreUnavailable: the store did not take it.
        """
        if self._is_over(source):
            await self._flush([source])
        window = self._windows.get(source)
        if window is None:
            window = self._windows[source] = Window(self.clock.seconds(), self.now())
        if window.recorded >= self.per_minute:
            window.left_out += 1
            return False
        window.recorded += 1
        await self.store.run(desc, record)
        return True

    async def summarise(self) -> None:
        """Record what was left out in the minutes that are over; called once a minute."""
        await self._flush([source for source in self._windows if self._is_over(source)])

    def _is_over(self, source: str) -> bool:
        window = self._windows.get(source)
        return window is not None and self.clock.seconds() - window.began >= WINDOW_SECS

    async def _flush(self, sources: list[str]) -> None:
        over = [(source, self._windows.pop(source)) for source in sources]
        owed = [(source, window) for source, window in over if window.left_out]
        if not owed:
            return
        try:
            await self.store.run("summarise refusals", lambda tx: self._summaries(tx, owed))
        except BaseException:
            self._owe_again(owed)
            raise
        for source, window in owed:
            _log.warn("refusals without a record each", source=source, count=window.left_out)

    def _owe_again(self, owed: list[tuple[str, Window]]) -> None:
        for source, window in owed:
            newer = self._windows.setdefault(source, window)
            if newer is not window:
                newer.left_out += window.left_out
                newer.since = window.since

    def _summaries(self, tx: ITransaction, owed: list[tuple[str, Window]]) -> None:
        for source, window in owed:
            details: dict[str, Json] = {
                "count": window.left_out,
                "since": rfc3339(window.since),
                "until": rfc3339(self.now()),
                "proxy_id": source or None,
            }
            actor = node(source) if source else ANONYMOUS
            self.recorder.append(
                tx, REFUSALS_SUMMARY, actor, node_id=source or None, details=details
            )

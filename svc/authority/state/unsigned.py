"""Reports rows that no signature covers: once each, until they change or disappear."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field
from twisted.logger import Logger

from svc.authority.state.recorder import Recorder, node
from svc.authority.state.verify import Unsigned
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import STATE_UNSIGNED

MAX_RECORDS = 100
"""So many deviations get a record each in one pass; the rest wait for the next pass."""

_log = Logger(namespace="svc_authority")


@define
class UnsignedRows:
    """Holds what deviates now and writes one ``state.unsigned`` for each deviation.

    Attributes:
        on_count: Given how many rows deviate; sets the gauge.
    """

    store: IStore
    recorder: Recorder
    on_count: Callable[[int], object]
    now: tuple[Unsigned, ...] = ()
    _named: dict[str, Unsigned] = field(factory=dict)

    async def name(self, found: Iterable[Unsigned]) -> None:
        """Take what one pass found.

        Raises:
            StoreUnavailable: the records were not written; the next pass tries again.
        """
        self.now = tuple(found)
        self.on_count(len(self.now))
        here = {one.subject: one for one in self.now}
        for subject in [one for one in self._named if one not in here]:
            del self._named[subject]
            _log.info("a stored row matches its signed record again", subject=subject)
        fresh = [one for one in self.now if self._named.get(one.subject) != one][:MAX_RECORDS]
        if fresh:
            await self.store.run("name unsigned rows", lambda tx: self._record(tx, fresh))
        for one in fresh:
            self._named[one.subject] = one
            _log.error(
                "the store contains a row that does not match its signed record; the row is "
                "not applied",
                subject=one.subject,
                stored=one.stored,
                signed=one.signed,
                text=one.why,
            )

    def _record(self, tx: ITransaction, found: Iterable[Unsigned]) -> None:
        for one in found:
            self.recorder.append(
                tx,
                STATE_UNSIGNED,
                node(self.recorder.origin),
                details={
                    "subject": one.subject,
                    "row_digest": one.stored,
                    "signed_digest": one.signed,
                },
                reason="state_broken" if one.why else None,
            )

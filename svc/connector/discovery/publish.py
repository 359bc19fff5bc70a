"""Publishes what the sources find, and renews the leases of what was published."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import inf

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.connector.discovery.sources import WatchedSource
from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.rpc import IRpcChannel
from svc.messages.discovery import (
    PUBLISH_METHOD,
    PublishAnswer,
    PublishAsk,
    publish_request,
    read_publish_response,
)
from svc.model.cluster.scope import PublishedResource
from svc.proto.gate.v1 import discovery_pb2 as pb
from svc.runtime.backoff import Backoff

_log = Logger(namespace="svc_connector")

CALL_SECS = 20.0
_TOLD = 20


@define
class SourcePublication:
    """What the Authority was told of one source.

    Attributes:
        waits: After refusals of this source alone.
        due: When its lease is to be renewed, by the monotonic clock.
        not_before: When a change may be told, after a refusal; likewise.
        renew_secs: How often the lease is to be renewed, as the Authority last said.
    """

    source: WatchedSource
    waits: Backoff
    due: float = 0.0
    not_before: float = 0.0
    renew_secs: float = field(default=inf, init=False)
    told: tuple[PublishedResource, ...] | None = field(default=None, init=False)
    digest: bytes = field(default=b"", init=False)
    refused: dict[str, str] = field(factory=dict, init=False)

    @property
    def is_changed(self) -> bool:
        """Whether the source finds something else than the Authority was told."""
        return self.source.is_known and self.told != self.source.published

    def tells_change(self, now: float) -> bool:
        """Whether the Authority is to be told now what the source finds."""
        return self.is_changed and now >= self.not_before

    def is_due(self, now: float) -> bool:
        """Whether the Authority is to be told that, or that what it was told stays.

        While a change waits after a refusal, what was told before is renewed: else all of it would
        depart meanwhile.
        """
        was_told = bool(self.digest) or now >= self.not_before
        is_renewed = self.source.is_known and was_told and now >= self.due
        return is_renewed or self.tells_change(now)


@define
class Publisher:
    """Tells the Authority what every source finds.

    Attributes:
        dial: Opens a connection to the Authority's renewal listener.
        waits: After failures to reach the Authority.
        published: Called when something else than before was published.
    """

    publications: Sequence[SourcePublication]
    dial: Callable[[], Awaitable[IRpcChannel]]
    clock: IReactorTime
    waits: Backoff
    published: Callable[[], object]
    _not_before: float = field(default=0.0, init=False)

    async def look(self) -> None:
        """Publish what is due; called again and again."""
        now = self.clock.seconds()
        due = [one for one in self.publications if one.is_due(now)]
        # First what only has to be renewed: nothing keeps a lease from that.
        due.sort(key=lambda one: one.tells_change(now))
        if not due or now < self._not_before:
            return
        try:
            await self._publish_all(due)
        except SvcError as failed:
            # Whoever waited for longer would lose the leases that last.
            longest = min(one.renew_secs for one in self.publications)
            self._not_before = self._again(self.waits, failed, longest)
        else:
            self.waits.reset()

    async def _publish_all(self, due: Sequence[SourcePublication]) -> None:
        """Publish each; what the Authority refuses of one keeps no other back, now or later.

        Raises:
            SvcError: no answer came.
        """
        channel = await self.dial()
        try:
            for one in due:
                is_renewal = not one.tells_change(self.clock.seconds())
                try:
                    await self._publish(channel, one, is_renewal=is_renewal)
                except SvcError as refusal:
                    if isinstance(refusal, Unavailable) or refusal.fault is Fault.DEADLINE:
                        raise
                    again = self._again(one.waits, refusal, one.renew_secs, one.source.name)
                    if is_renewal:
                        one.due = again
                    else:
                        one.not_before = again
                else:
                    if not one.is_changed:
                        one.waits.reset()
        finally:
            await channel.close()

    def _again(
        self, waits: Backoff, failed: SvcError, longest: float, source: str | None = None
    ) -> float:
        """Log a failure; when to try again."""
        _log.warn(
            "what was discovered is not published; it is tried again",
            reason=failed.reason,
            text=failed.text,
            **({} if source is None else {"source": source}),
        )
        return self.clock.seconds() + max(waits.next(longest), failed.retry_after or 0.0)

    async def _publish(
        self, channel: IRpcChannel, one: SourcePublication, *, is_renewal: bool
    ) -> None:
        rows, is_changed = one.source.published, one.is_changed
        answer: PublishAnswer | None = None
        if is_renewal and one.digest:
            answer = await self._ask(channel, PublishAsk(one.source.name, unchanged=one.digest))
            if not answer.again:
                rows, is_changed = one.told or (), False
        if answer is None or answer.again:
            answer = await self._ask(channel, PublishAsk(one.source.name, rows))
        one.told, one.digest = rows, answer.digest
        one.renew_secs = answer.lease_secs / 3
        one.due = self.clock.seconds() + one.renew_secs
        self._tell(one, answer)
        if is_changed:
            _log.info("published what was discovered", source=one.source.name, resources=len(rows))
            self.published()

    async def _ask(self, channel: IRpcChannel, ask: PublishAsk) -> PublishAnswer:
        message = await channel.unary(
            PUBLISH_METHOD, publish_request(ask), pb.PublishResponse, timeout=CALL_SECS
        )
        return read_publish_response(message)

    def _tell(self, one: SourcePublication, answer: PublishAnswer) -> None:
        """Log what is not served, once for each reason."""
        refused = {each.id: each.reason for each in answer.refused}
        new = [(id, word) for id, word in refused.items() if one.refused.get(id) != word]
        for id, word in new[:_TOLD]:
            _log.warn(
                "a discovered resource is not served; see `svc authority resources list`",
                source=one.source.name,
                resource=id,
                reason=word,
            )
        one.refused = refused

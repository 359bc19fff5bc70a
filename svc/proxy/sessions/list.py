"""``Session/List``: the resources a person may view, and every change of the list.

Decided by the snapshot like everything else; a large catalog is gone through
in slices, so that one list holds nobody up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svc.errors import Fault, SvcError, Unavailable
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcCall
from svc.messages.session import Listed, Listing, decode_list_request, encode_listing
from svc.model.certificate import CertificateFacts
from svc.model.policy.access import Entity, EntityUid
from svc.policy.engine import CompiledPolicy
from svc.policy.entities import MAX_ENTITIES
from svc.proxy.sessions.viewable import Viewable
from svc.runtime.services import bounded

_log = Logger(namespace="svc_proxy")

_DECISIONS, _LOOKED_AT = 100, 1000
"""After so many, others have their turn."""

_FIRST_WORD_SECS = 10.0
MAX_PER_PERSON = 16
"""Lists that one person may follow at once."""

HEADS_SECS = 30.0
"""How long whoever follows a list that does not change waits for a newer signed head."""

_SETTLE_SECS = 0.2
"""Changes come in bursts; a list is made again this long after the first."""


@define
class Listings:
    """Follows lists for the persons that asked.

    Attributes:
        engine: Gives the engine in force, or raises while there is none fresh.
        is_served: Whether a tunnel here serves a resource now.
        person: Checks the caller's certificate; raises to refuse.
        heads: The audit log's signed heads, for clients to keep; told with a list that is sent,
            and by themselves where none is for a while.
        receive_head: Takes the greatest head that a client keeps.
        lacking: Why no session opens here now, in the words of ``svc_proxy_lacking``.
    """

    engine: Callable[[], CompiledPolicy]
    kinds: Mapping[str, ServedKind]
    is_served: Callable[[str], bool]
    person: Callable[[IRpcCall], CertificateFacts]
    clock: IReactorTime
    now: Callable[[], float]
    heads: Callable[[], tuple[bytes, ...]]
    receive_head: Callable[[bytes], Awaitable[object]]
    lacking: Callable[[], tuple[str, ...]]
    _waiting: list[Deferred[bool]] = field(factory=list)
    _per_person: Counter[str] = field(factory=Counter)
    _shown: dict[EntityUid, tuple[Entity, Listed]] = field(factory=dict)
    _is_draining: bool = False

    def changed(self) -> None:
        """What lists show has changed: policy, entities, revocations, routes, what is lacking."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.called:
                each.callback(True)

    def drain(self) -> None:
        """End every list, and begin no more."""
        self._is_draining = True
        self.changed()

    async def follow(self, call: IRpcCall) -> None:
        """Serve one call until its caller disconnects or may not see the list any longer."""
        person_id = self.person(call).principal.id
        if self._per_person[person_id] >= MAX_PER_PERSON:
            raise SvcError(
                f"you have {MAX_PER_PERSON} resource lists open on this Proxy, which is the limit",
                reason="too_many_lists",
                fault=Fault.EXHAUSTED,
            )
        self._per_person[person_id] += 1
        try:
            data = await bounded(self.clock, _FIRST_WORD_SECS, call.receive(), "list")
            await self.receive_head(decode_list_request(data or b""))
            await self._follow(call, person_id)
        finally:
            self._per_person[person_id] -= 1
            if not self._per_person[person_id]:
                del self._per_person[person_id]

    async def _follow(self, call: IRpcCall, person_id: str) -> None:
        known: dict[str, Listed] | None = None
        sent: tuple[bytes, ...] = ()
        lacked: tuple[str, ...] = ()
        viewable, is_changed, heads_at = Viewable(person_id, call.peer.host), True, 0.0
        while True:
            self._check_open()
            coming: Deferred[bool] = Deferred(self._forget)
            self._waiting.append(coming)
            late: IDelayedCall | None = None
            try:
                seen = known or {}
                if is_changed:
                    seen = {one.id: one async for one in self._visible(viewable)}
                listing = _difference(known, seen)
                lacking = self.lacking()
                heads = tuple(line for line in self.heads() if line not in sent)
                is_other = known is None or listing.upsert or listing.removed or lacking != lacked
                is_late = self.clock.seconds() >= heads_at
                if is_other or (heads and is_late):
                    sent = self.heads()
                    listing = evolve(listing, heads=heads, lacking=lacking)
                    await call.send(encode_listing(listing))
                known, lacked = seen, lacking
                if is_other or is_late:
                    heads_at = self.clock.seconds() + HEADS_SECS
                left = max(heads_at - self.clock.seconds(), 0.0)
                late = self.clock.callLater(left, self._late, coming)
                is_changed = await coming
            finally:
                self._forget(coming)
                if late is not None and late.active():
                    late.cancel()
            self._check_open()
            await deferLater(self.clock, _SETTLE_SECS)
            # Each time: certificates end and persons are revoked while they look.
            self.person(call)

    def _check_open(self) -> None:
        if self._is_draining:
            raise Unavailable("this Proxy is stopping; try another", reason="draining")

    def _late(self, coming: Deferred[bool]) -> None:
        self._forget(coming)
        if not coming.called:
            coming.callback(False)

    def _forget(self, coming: Deferred[bool]) -> None:
        if coming in self._waiting:
            self._waiting.remove(coming)

    async def _visible(self, viewable: Viewable) -> AsyncIterator[Listed]:
        engine = self.engine()
        viewable.follow(engine, self.now())
        decisions = viewable.decisions
        for count, entity in enumerate(engine.entities, 1):
            kind = self._kind(entity)
            if kind is not None and viewable.allows(engine, entity.uid):
                yield self._listed(entity, kind)
            if viewable.decisions - decisions >= _DECISIONS or count % _LOOKED_AT == 0:
                decisions = viewable.decisions
                await deferLater(self.clock, 0)

    def _listed(self, entity: Entity, kind: str) -> Listed:
        """As all lists show it now: there is one for all of them."""
        served = self.is_served(entity.uid.id)
        shown = self._shown.get(entity.uid)
        if shown is not None and shown[0] is entity and shown[1].served == served:
            return shown[1]
        listed = Listed(id=entity.uid.id, kind=kind, labels=dict(entity.tags), served=served)
        if len(self._shown) > MAX_ENTITIES:
            self._shown.clear()  # most of it left the catalog long ago
        self._shown[entity.uid] = entity, listed
        return listed

    def _kind(self, entity: Entity) -> str | None:
        word = entity.attrs.get("kind")
        return word if isinstance(word, str) and word in self.kinds else None


def _difference(known: dict[str, Listed] | None, seen: dict[str, Listed]) -> Listing:
    if known is None:
        return Listing(True, tuple(seen.values()))
    upsert = tuple(
        one for one in seen.values() if (old := known.get(one.id)) is not one and old != one
    )
    return Listing(False, upsert, tuple(sorted(known.keys() - seen.keys())))

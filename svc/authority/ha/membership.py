"""Which Authorities share the store, and whether each can reach the others.

Every one counts signs of life in a row of its own, and looks at the others'.
The check is this: whoever lives has a private address in our configuration,
and nobody else lives under our name.  What the rows say proves nothing: a
member is what its certificate says, on every connection.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.ha.lease import BEATS, TERM_SECS
from svc.errors import Fault, StoreUnavailable, SvcError
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.messages.forward import LeaderClaim, claim_message
from svc.model.cluster.lease import Member, MembershipView
from svc.model.ids import is_resource_id
from svc.proto.gate.v1 import membership_pb2 as pb
from svc.runtime.services import AsyncService, PeriodicTask

REMEMBERED = 4
"""For so many terms of silence a member counts: it may be starting again."""

_CHANGES = 2
"""Of the row under our name, by another process: one may have been on its way when it died."""

PRIVATE_LISTEN = "endpoints.private_listen"
_log = Logger(namespace="svc_authority")


class OwnerTaken(SvcError):
    """Another process that lives holds our name among the Authorities."""

    fault = Fault.PRECONDITION
    reason = "lease_owner_taken"

    def __init__(self, owner: str, node_id: str) -> None:
        super().__init__(
            f"authority.name: another Authority ({node_id}) runs under the name {owner} on this "
            "store; give each a name of its own",
            details={"owner": owner},
        )


@define(slots=False, eq=False)
class Membership(AsyncService):
    """This Authority among those on its store.

    Attributes:
        store: The store itself, unfenced: only our own row is written, compared with what it was.
        me: Our name, node id and process.
        peers: The names that our configuration has a private address for.
        listens: Whether others can reach us.
        on_missing_keys: Called with the keys that are missing, whenever they change; none: all
            is well.
        stopped_by: Told that our name is another's.
        term: After so many seconds of silence a name may be taken over.
    """

    store: IStore
    me: Member
    peers: Container[str]
    listens: bool
    clock: IReactorTime
    on_missing_keys: Callable[[tuple[str, ...]], object]
    stopped_by: Callable[[SvcError], object]
    term: float = TERM_SECS
    _view: MembershipView = field(factory=MembershipView, init=False)
    _other: Member | None = field(default=None, init=False)
    _changes: int = field(default=0, init=False)
    _missing: tuple[str, ...] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = PeriodicTask(
            clock=self.clock,
            interval=self.term / BEATS,
            call=self._turn,
            what="membership",
            at_once=False,
        )

    async def start(self) -> None:
        """Appear, and go on."""
        await self._turn()
        self._turns.startService()

    async def stop(self) -> None:
        """Count no more; the row stays, as that of one that may come back."""
        await self._turns.stopService()

    def node_id(self, owner: str) -> str:
        """The node id in a member's certificate; empty if no member has that name."""
        found = self._view.seen.get(owner)
        return "" if found is None else found[0].node_id

    async def _turn(self) -> None:
        try:
            rows = await self.store.run("membership", self._appear)
        except StoreUnavailable:
            return  # that it does not answer is said elsewhere
        at = self.clock.seconds()
        self._view = self._view.saw((row for row in rows if is_resource_id(row.owner)), at)
        self._look_for_another(next((row for row in rows if row.owner == self.me.owner), None))
        self._report(at)

    def _appear(self, tx: ITransaction) -> list[Member]:
        """One sign of life, unless our name's row is of a process that may live."""
        rows = tx.lease.members()
        mine = next((row for row in rows if row.owner == self.me.owner), None)
        if mine is None:
            tx.lease.appear(self.me, None)
        elif mine.instance == self.me.instance or self._is_dead(mine):
            tx.lease.appear(evolve(self.me, beats=mine.beats + 1), mine)
        return rows

    def _is_dead(self, mine: Member) -> bool:
        return self._view.may_replace(mine, self.clock.seconds(), self.term)

    def _look_for_another(self, mine: Member | None) -> None:
        if mine is None or mine.instance == self.me.instance:
            self._other, self._changes = None, 0
            return
        if self._other not in (None, mine):
            self._changes += 1
        self._other = mine
        if self._changes == _CHANGES:
            taken = OwnerTaken(self.me.owner, mine.node_id)
            _log.critical(
                "another Authority uses this one's name", reason=taken.reason, text=taken.text
            )
            self.stopped_by(taken)

    def _report(self, at: float) -> None:
        missing = self._missing_keys(at)
        if missing == self._missing:
            return
        if missing:
            _log.error(
                "the membership check failed: required configuration keys are missing",
                reason="peer_address_missing",
                keys=list(missing),
            )
        elif self._missing:
            _log.info("the membership check passes again")
        self._missing = missing
        self.on_missing_keys(missing)

    def _missing_keys(self, at: float) -> tuple[str, ...]:
        living = self._view.living(at, REMEMBERED * self.term)
        names = {member.owner for member in living} | {self.me.owner}
        if len(names) < 2:
            return ()  # nobody to reach, and nobody who would reach us
        keys = [f"authority.peers.{name}" for name in sorted(names) if name not in self.peers]
        return (*keys, *(() if self.listens else (PRIVATE_LISTEN,)))


def leader_service(claim: Callable[[], LeaderClaim]) -> RpcService:
    """``gate.v1.Membership``: who leads, as this Authority sees it.

    Answered from memory, by those that stand by as well: Proxies ask every few seconds.
    """

    async def leader(_request: pb.LeaderRequest, _call: IRpcCall) -> pb.LeaderResponse:
        return claim_message(claim())

    return RpcService("gate.v1.Membership", {"Leader": unary(pb.LeaderRequest, leader)})

"""``Control/RegisterConnector``: one stream for each tunnel, from its challenge to its end.

The stream's life is the registration's life.  A refused registration ends
the stream after its verdict; an eviction is said before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList, FirstError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.authority.limits import AskRates
from svc.authority.refusals import RefusalRecords
from svc.authority.registry.admission import (
    MALFORMED,
    AdmittedRegistration,
    Expected,
    OwnedByPeer,
    PermitsNone,
    ProvenRefusal,
    RegistrationRefused,
    divide,
    verify_registration,
)
from svc.authority.registry.ends import TunnelEndRecords, note_open
from svc.authority.registry.routes import Registered, Registrations
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.authority.state.tables import StateUnsigned
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import IRpcCall
from svc.interfaces.store import IStore, ITransaction
from svc.messages.control import (
    AGAIN,
    Evict,
    RegistrationVerdict,
    TunnelSeen,
    decode_connector_up,
    encode_connector_down,
)
from svc.messages.tunnel import NONCE_BYTES, Nonce
from svc.model.audit.events import TUNNEL_REFUSED, TUNNEL_REGISTERED
from svc.model.cluster.node import Node, NodeState
from svc.model.cluster.registration import SSH_GATE, Inventory
from svc.model.ids import Entropy
from svc.model.signing import Signed
from svc.runtime.services import bounded

_log = Logger(namespace="svc_authority")

_FIRST_WORD_SECS = 10.0
_AGAIN_SECS = 10.0
"""How long a registration that is to be made again stands while it is."""
_NOT_A_VERDICT = frozenset(
    {Fault.UNAVAILABLE, Fault.DEADLINE, Fault.CANCELLED, Fault.INTERNAL, Fault.EXHAUSTED}
)
"""The store, the call or we failed, or it came too soon: nothing about the registration."""


@define
class RegistrationIntake:
    """Accepts registrations and keeps each until its stream ends.

    Attributes:
        lease_secs: What a Connector is told to renew within.
        rates: How often a Connector may register.
        ends: Records how each ended.
        refusals: Bounds the records of refused registrations.
    """

    cluster: str
    state_cache: ClusterStateCache
    registrations: Registrations
    store: IStore
    recorder: Recorder
    verifier: IChainVerifier
    clock: IReactorTime
    now: Callable[[], float]
    entropy: Entropy
    lease_secs: int
    ends: TunnelEndRecords
    rates: AskRates
    refusals: RefusalRecords = field()
    # By node, then by who is answerable: one Proxy's forgery must not hide another's.
    _last_refusal: dict[str, dict[tuple[str, bool], str]] = field(factory=dict)

    @refusals.default
    def _own_refusals(self) -> RefusalRecords:
        return RefusalRecords(
            store=self.store, recorder=self.recorder, clock=self.clock, now=self.now
        )

    async def serve(self, call: IRpcCall, proxy: Node) -> None:
        """Serve one stream of an admitted Proxy: one challenge, one registration."""
        seen = await self._first_word(call)
        nonce = self.entropy(NONCE_BYTES)
        await call.send(encode_connector_down(Nonce(nonce)))
        expected = Expected(
            cluster=self.cluster, proxy_id=proxy.id, nonce=nonce, peer_node_id=seen.peer_node_id
        )
        try:
            signed = await self._registration(call)
            admitted = verify_registration(
                signed, expected, self.verifier, self.state_cache.state, self.now()
            )
            # It is the Connector's own, made for this challenge: now it may count for it.
            self.rates.registrations.spend(node(admitted.node.id))
            inventory, seq = await self._record(proxy, admitted)
        except SvcError as refusal:
            if refusal.fault in _NOT_A_VERDICT:
                raise
            await self._refuse(call, proxy, seen, refusal)
            return
        # No await between the commit and the index: a revocation comes before or after both.
        await self._keep(call, proxy, seen, admitted, inventory, seq)

    async def _first_word(self, call: IRpcCall) -> TunnelSeen:
        data = await bounded(self.clock, _FIRST_WORD_SECS, call.receive(), "tunnel")
        message = None if data is None else decode_connector_up(data)
        if not isinstance(message, TunnelSeen):
            raise Malformed("connector: the first message names no tunnel")
        return message

    async def _registration(self, call: IRpcCall) -> Signed:
        data = await bounded(self.clock, _FIRST_WORD_SECS, call.receive(), "registration")
        if data is None:
            raise SvcError(
                "connector: it disconnected before it registered",
                reason="abandoned",
                fault=Fault.CANCELLED,
            )
        try:
            message = decode_connector_up(data)
        except Malformed as e:
            raise RegistrationRefused(e.text, reason=MALFORMED, fault=Fault.INVALID) from None
        if not isinstance(message, Signed):
            raise RegistrationRefused(
                "no registration followed the challenge", reason=MALFORMED, fault=Fault.INVALID
            )
        return message

    async def _refuse(
        self, call: IRpcCall, proxy: Node, seen: TunnelSeen, refusal: SvcError
    ) -> None:
        more: dict[str, object] = {}
        if isinstance(refusal, OwnedByPeer):
            more = {"owned": refusal.owned, "do": refusal.do}
        _log.warn(
            "registration refused",
            node=seen.peer_node_id,
            node_name=self._name(seen.peer_node_id),
            proxy=proxy.id,
            reason=refusal.reason,
            text=refusal.text,
            **more,
        )
        # A Connector redials for ever: one record for each new reason, not for each try.
        answerable = (proxy.id, isinstance(refusal, ProvenRefusal))
        known = self._last_refusal.get(seen.peer_node_id, {})
        told = refusal.text if isinstance(refusal, PermitsNone) else refusal.reason
        if answerable[1]:
            self.registrations.refuse(seen.peer_node_id, refusal.reason)
        if known.get(answerable) != told:
            # A Connector that is refused takes nothing of what its Proxy may still record.
            await self.refusals.write(
                node(seen.peer_node_id if answerable[1] else proxy.id),
                "refuse a registration",
                lambda tx: self._record_refusal(tx, proxy, seen, refusal),
            )
            self._remember(seen.peer_node_id, answerable, told)
        verdict = RegistrationVerdict(False, refusal.reason, refusal.text)
        await call.send(encode_connector_down(verdict))

    def _name(self, node_id: str) -> str:
        known = self.state_cache.state.nodes.get(node_id)
        return "" if known is None else known.name

    def _remember(self, node_id: str, answerable: tuple[str, bool], reason: str) -> None:
        if len(self._last_refusal) >= 10_000:
            self._last_refusal.clear()
        self._last_refusal.setdefault(node_id, {})[answerable] = reason

    def _record_refusal(
        self, tx: ITransaction, proxy: Node, seen: TunnelSeen, refusal: SvcError
    ) -> None:
        # Only a signature that was verified makes it the Connector's own doing (rule R1).
        proven = isinstance(refusal, ProvenRefusal)
        if isinstance(refusal, PermitsNone):
            # Whoever looks for what is missing sees under which names it was offered.
            tx.catalog.registered(seen.peer_node_id, (), refusal.undeclared, self.now())
        self.recorder.append(
            tx,
            TUNNEL_REFUSED,
            node(seen.peer_node_id if proven else proxy.id),
            node_id=seen.peer_node_id,
            reason=refusal.reason,
            details={"proxy_id": proxy.id, "connector_id": seen.peer_node_id},
        )

    async def _record(self, proxy: Node, admitted: AdmittedRegistration) -> tuple[Inventory, int]:
        """Write it down; what the Connector is told to serve, and where the log has it."""
        at = self.now()

        def record(tx: ITransaction) -> tuple[int, int]:
            known = self._known(tx, admitted.node.id)
            if known is None or known.state is NodeState.REVOKED:
                raise ProvenRefusal(
                    "the node was revoked", reason="revoked_node", fault=Fault.DENIED
                )
            return self._record_accepted(tx, proxy, admitted, at)

        generation, seq = await self.store.run("register a tunnel", record)
        self.state_cache.served(admitted.node.id, admitted.ids, at)
        return Inventory(generation, frozenset(admitted.served)), seq

    def _known(self, tx: ITransaction, node_id: str) -> Node | None:
        try:
            return self.recorder.rows(tx).node(node_id)
        except StateUnsigned as refused:
            raise ProvenRefusal(
                "the node is not in force", reason=refused.reason, fault=Fault.DENIED
            ) from refused

    async def _keep(
        self,
        call: IRpcCall,
        proxy: Node,
        seen: TunnelSeen,
        admitted: AdmittedRegistration,
        inventory: Inventory,
        seq: int,
    ) -> None:
        """Keep an accepted registration until the stream ends, however it does."""
        self._last_refusal.pop(admitted.node.id, None)
        evicted: Deferred[str | None] = Deferred()
        registered = Registered(
            node_id=admitted.node.id,
            proxy_id=proxy.id,
            tunnel_id=seen.tunnel_id,
            instance_id=admitted.registration.instance_id,
            resources={one.id: one for one in admitted.served},
            since=self.clock.seconds(),
            evict=partial(_once, evicted),
            inventory=inventory.generation,
            seq=seq,
            onward_key=admitted.registration.onward_key,
            gate_epoch=admitted.registration.gate_epoch,
            withheld=admitted.reasons,
        )
        self.registrations.add(registered)
        _log.info(
            "connector registered",
            node=admitted.node.id,
            proxy=proxy.id,
            served=len(admitted.served),
            withheld=len(admitted.withheld),
            inventory=inventory.generation,
            came_with=admitted.registration.inventory_generation,
        )
        reason: str | None = None
        try:
            await call.send(encode_connector_down(self._verdict(admitted, inventory)))
            if self._is_outdated(admitted):
                registered.evict(AGAIN)
            reason = await _until_over(call, evicted)
            if reason:
                await call.send(encode_connector_down(Evict(reason)))
        finally:
            if reason == AGAIN:
                self.rates.registrations.give_back(node(admitted.node.id))
                self.clock.callLater(_AGAIN_SECS, self._forget, proxy, registered)
            else:
                self.registrations.remove(registered)
                self._ended(proxy, registered)

    def _verdict(self, admitted: AdmittedRegistration, inventory: Inventory) -> RegistrationVerdict:
        return RegistrationVerdict(
            True,
            lease_secs=self.lease_secs,
            served=admitted.ids,
            withheld=admitted.withheld,
            inventory=inventory,
        )

    def _forget(self, proxy: Node, registered: Registered) -> None:
        """One that was to be made again and was not has ended; a replaced one has not."""
        if self.registrations.remove(registered):
            self._ended(proxy, registered)
        else:
            self.ends.replaced(registered.seq, node_id=registered.node_id, proxy_id=proxy.id)

    def _is_outdated(self, admitted: AdmittedRegistration) -> bool:
        """Whether the catalog changed between the judgement and its record."""
        served, _ = divide(admitted.registration, admitted.node, self.state_cache.state)
        return served != admitted.served

    def _record_accepted(
        self, tx: ITransaction, proxy: Node, admitted: AdmittedRegistration, at: float
    ) -> tuple[int, int]:
        """Write it down; the generation of what the node is meant to serve, and the record."""
        # Who has lost its count is still told an inventory: 0 would end every check against it.
        generation = max(1, tx.inventories.generation(admitted.node.id))
        tx.catalog.registered(admitted.node.id, admitted.ids, admitted.undeclared(at), at)
        tx.nodes.seen(admitted.node.id, at, admitted.registration.version)
        tx.epochs.offer(admitted.node.id, SSH_GATE, admitted.registration.gate_epoch)
        row = self.recorder.append(
            tx,
            TUNNEL_REGISTERED,
            node(admitted.node.id),
            node_id=admitted.node.id,
            details={
                "proxy_id": proxy.id,
                "connector_id": admitted.node.id,
                "resources": list(admitted.ids),
                "inventory_generation": generation,
            },
        )
        note_open(tx, row)
        return generation, row.seq

    def _ended(self, proxy: Node, registered: Registered) -> None:
        _log.info("registration ended", node=registered.node_id, proxy=proxy.id)
        lasted = self.clock.seconds() - registered.since
        self.ends.ended(
            registered.seq, node_id=registered.node_id, proxy_id=proxy.id, lasted=lasted
        )


def _once(evicted: Deferred[str | None], reason: str) -> None:
    if not evicted.called:
        evicted.callback(reason)


async def _until_over(call: IRpcCall, evicted: Deferred[str | None]) -> str | None:
    """The word of an eviction, or None once the Proxy ended the stream.

    Raises:
        SvcError: the stream broke, or carried what is not expected.
    """
    ended: Deferred[str | None] = Deferred.fromCoroutine(_drained(call))
    first = DeferredList(
        [evicted, ended], fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=True
    )
    try:
        reason, _ = await first
    except FirstError as failed:
        failed.subFailure.raiseException()
    finally:
        ended.cancel()
    return reason


async def _drained(call: IRpcCall) -> str | None:
    if await call.receive() is not None:
        raise Malformed("connector: unexpected message after the registration")
    return None

"""``gate.v1.SessionUse``: records what a session did with its rights, as its Connector counts.

A Connector brings the grant that Authority signed, and is answered for its own sessions alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from svc.authority.access.opened import opened_by_grant
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.recorder import Recorder, node
from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.rpc import IRpcCall, RpcService, unary
from svc.interfaces.store import IStore, ITransaction
from svc.messages.session import decode_grant
from svc.messages.use import DENIED, SessionUse, read_use
from svc.model.audit.events import SESSION_USE
from svc.model.canonical import decode
from svc.model.principal import Role
from svc.model.session.grant import Grant
from svc.model.signing import Purpose
from svc.proto.gate.v1 import identity_pb2 as pb
from svc.ratelimit.limits import Budget

MAX_REMEMBERED = 20_000
"""Sessions whose use is on record, so that the log need not be asked; a Connector brings it again
within minutes, or never."""


@define(eq=False)
class SessionUseRecords:
    """Answers ``SessionUse/Report``.

    Attributes:
        asks: Of a Connector.
    """

    cluster: str
    state_cache: ClusterStateCache
    kinds: Mapping[str, ServedKind]
    verifier: IChainVerifier
    store: IStore
    recorder: Recorder
    asks: Budget
    _recorded: OrderedDict[str, None] = field(factory=OrderedDict, init=False)

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        methods = {"Report": unary(pb.SessionUseRequest, self._report)}
        return RpcService("gate.v1.SessionUse", methods)

    async def _report(self, request: pb.SessionUseRequest, call: IRpcCall) -> pb.SessionUseResponse:
        facts = self.verifier.verify(call.peer.chain, {Role.CONNECTOR})
        connector = self.state_cache.node(facts.principal)
        self.asks.spend(node(connector.id))
        await self.record(read_use(request), connector.id)
        return pb.SessionUseResponse()

    async def record(self, use: SessionUse, connector_id: str) -> None:
        """Record it, unless it is on record.

        Raises:
            SvcError: it is of no session of this Connector, or names what is no right there.
        """
        self.verifier.verify_signed(use.grant, Purpose.GRANT)
        grant = decode_grant(use.grant.payload)
        if (grant.cluster, grant.connector_id) != (self.cluster, connector_id):
            raise _unknown()
        self._check(use, grant)
        if grant.session_uid in self._recorded:
            return
        await self.store.run("use of a session", lambda tx: self._append(tx, use, grant))
        self._recorded[grant.session_uid] = None
        while len(self._recorded) > MAX_REMEMBERED:
            self._recorded.popitem(last=False)

    def _check(self, use: SessionUse, grant: Grant) -> None:
        kind, granted = self.kinds.get(grant.kind), grant.operations or frozenset()
        known = frozenset() if kind is None else frozenset(kind.terms.rights)
        for name in use.used:
            if name not in granted and name.removeprefix(DENIED) not in known:
                raise Malformed("session use: it names what is no right of the session")
            if name in known - granted:
                raise Malformed("session use: the session has no such right")

    def _append(self, tx: ITransaction, use: SessionUse, grant: Grant) -> None:
        if opened_by_grant(tx, grant) is None:
            raise _unknown()
        if _is_recorded(tx, grant):
            return  # by another Authority, or before this one began
        self.recorder.append(
            tx,
            SESSION_USE,
            node(grant.connector_id),
            node_id=grant.connector_id,
            session_uid=grant.session_uid,
            resource_id=grant.resource,
            resource_kind=grant.kind,
            decision_id=grant.decision_id or None,
            details={
                "person_id": grant.person_id,
                "used": [f"{name} {count}" for name, count in sorted(use.used.items())],
            },
        )


def _is_recorded(tx: ITransaction, grant: Grant) -> bool:
    if not grant.decision_id:
        return False
    told: list[Any] = [decode(row.canonical) for row in tx.audit.by_decision(grant.decision_id)]
    known = (SESSION_USE.name, grant.session_uid)
    return any((one["event"], one["session_uid"]) == known for one in told)


def _unknown() -> SvcError:
    return SvcError(
        "no session of this Connector is known by that grant",
        reason="unknown_session",
        fault=Fault.NOT_FOUND,
    )

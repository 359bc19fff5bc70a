"""``gate.v1.Tunnel``: accepts Connectors; the Authority decides which may stay.

Authority decides every registration; the Proxy carries the challenge, the
signed registration and the verdict, and keeps the tunnel while Authority is
away.  When Authority is back, the Connector is challenged again on the same
tunnel.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol

from svc.errors import Fault, SvcError, Unauthenticated
from svc.interfaces.rpc import IHeardCall, IRpcCall, Peer, RpcService, streaming, unary
from svc.messages.gated import checkpoint_answer_message, read_checkpoint
from svc.messages.tunnel import decode_carry_open
from svc.model.principal import Principal, Role
from svc.proto.gate.v1 import session_pb2
from svc.proxy.tunnels.parts import RegistrationParts, node_of
from svc.proxy.tunnels.register import RegistrationCall
from svc.rpc.first_frame import read_open
from svc.rpc.frames import MAX_OPENING
from svc.tunnel.transport import CARRY_REFUSED

_CONNECTORS = frozenset({Role.CONNECTOR})


@define
class TunnelService(RegistrationParts):
    """Serves Connectors on the public listener."""

    def service(self) -> RpcService:
        """The methods, for the RPC server."""
        methods = {
            "Register": streaming(self._register),
            "Carry": streaming(self._carry),
            "Checkpoint": unary(session_pb2.SignedCheckpoint, self._checkpoint),
        }
        # What a Connector registers is long; a session's frames are not.
        longest = {"Carry": MAX_OPENING, "Checkpoint": MAX_OPENING}
        return RpcService("gate.v1.Tunnel", methods, longest=longest)

    def admit(self, name: str, peer: Peer) -> Principal:
        """Spend what a call of this method costs, before its handler.

        Returns:
            The Connector of the peer's certificate, checked now (R13).

        Raises:
            SvcError: no Connector, or TooMany.
        """
        if not peer.chain:
            raise Unauthenticated("a tunnel requires a Connector's certificate")
        node = self.verifier.verify(peer.chain, _CONNECTORS).principal
        self.rates.spend(node, name)
        return node

    def _register(self, call: IRpcCall) -> Coroutine[Any, Any, None]:
        # The coroutine itself, which lasts as long as the tunnel: one around it would as well.
        return RegistrationCall(self, IHeardCall(call)).run()

    async def _checkpoint(
        self, message: session_pb2.SignedCheckpoint, call: IRpcCall
    ) -> session_pb2.CheckpointAnswer:
        node = node_of(call)
        self.check_not_revoked(node)
        answer = await self.checkpoint(node.id, read_checkpoint(message))
        return checkpoint_answer_message(answer)

    async def _carry(self, call: IRpcCall) -> None:
        # To who registers, Authority says so itself, and writes it down.
        node = node_of(call)
        self.check_not_revoked(node)
        # A connection has one Peer object: a stream reaches only its own connection's tunnel.
        tunnel = self.routes.tunnel_on(call.peer)
        if tunnel is None:
            self.rates.stray(node)
            raise SvcError(
                "this stream belongs to no session that is opening",
                reason=CARRY_REFUSED,
                fault=Fault.DENIED,
            )
        with tunnel.unassigned_stream():
            first = await read_open(call, self.clock, "carry")
            uid, secret, answer = decode_carry_open(first)

        def attach(protocol: IProtocol) -> Deferred[object]:
            return protocol.carried_by(call, answer)  # type: ignore[attr-defined, no-any-return]

        try:
            await tunnel.carry(uid, secret, attach)
        except SvcError as e:
            if e.reason == CARRY_REFUSED:
                self.rates.stray(node)
            raise

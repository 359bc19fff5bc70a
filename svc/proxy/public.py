"""What the public listener serves, and which callers each method answers."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

from svc.errors import Fault, SvcError, Unauthenticated
from svc.interfaces.rpc import IRpcCall, IRpcChannel, Peer, RpcService, streaming, unary
from svc.messages.access import (
    CONTROL_ACCESS_METHOD,
    access_message,
    denied_message,
    read_access,
    read_denied_request,
)
from svc.messages.control import WHY_METHOD
from svc.messages.session import read_lane_request, read_why, why_message
from svc.proto.gate.v1 import session_pb2 as pb
from svc.proxy.anonymous import AnonymousCalls
from svc.proxy.denied import DeniedTexts
from svc.proxy.health import CHECKS, SERVICES, Health
from svc.proxy.relay import RelayLanes
from svc.proxy.sessions.granted import peer_chain
from svc.proxy.sessions.list import Listings
from svc.proxy.sessions.open import SessionOpens
from svc.proxy.tunnels.service import TunnelService
from svc.rpc.frames import MAX_OPENING
from svc.wire.limits import BYTE_STREAM_MESSAGE

_WHY_SECS = 10.0
_ACCESS_SECS = 10.0
_UNKNOWN = "other"
_SESSION = "gate.v1.Session"


@define
class PublicServices:
    """The services of the public listener.

    Attributes:
        anonymous: What a caller without a certificate is charged for.
        denied: Texts of denied requests, for the persons who sent them.
        plaintext: The listener is deliberately without TLS: then only Health
            and the join lane answer (rule R18).
    """

    health: Health
    lanes: RelayLanes
    tunnels: TunnelService
    sessions: SessionOpens
    listings: Listings
    channel: Callable[[], IRpcChannel]
    anonymous: AnonymousCalls
    denied: DeniedTexts
    plaintext: bool = False
    _names: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._names = {
            f"/{service.name}/{method}": f"{service.name.rpartition('.')[2]}/{method}"
            for service in self.services()
            for method in service.methods
        }

    @property
    def names(self) -> frozenset[str]:
        """Every method here as ``Service/Method``, and the word for all other methods."""
        return frozenset((*self._names.values(), _UNKNOWN))

    def services(self) -> list[RpcService]:
        """All services, for the RPC server."""
        session = RpcService(
            _SESSION,
            {
                "Open": streaming(self.sessions.open),
                "List": streaming(self.listings.follow),
                "Why": unary(pb.SessionWhyRequest, self._why),
                "Access": unary(pb.SessionAccessRequest, self._access),
                "Denied": unary(pb.SessionDeniedRequest, self._denied),
                "Lane": unary(pb.SessionLaneRequest, self._lane),
            },
            longest=dict.fromkeys(("Open", "List", "Why", "Access", "Denied", "Lane"), MAX_OPENING),
        )
        opened = {"Open": streaming(self.lanes.open)}
        relay = RpcService("gate.v1.Relay", opened, longest={"Open": BYTE_STREAM_MESSAGE})
        return [*self.health.services(), relay, self.tunnels.service(), session]

    def admit(self, method: str, peer: Peer) -> object:
        """Refuse, before a handler runs, what this caller cannot be served at all.

        The order is rule R16's: who it is, whether it asked too often, then what it asks.

        Returns:
            A person's certificate, or the Connector, where the method is for either.
        """
        if method in CHECKS:
            return None
        if not peer.chain:
            self.anonymous.charge(self._names.get(method, _UNKNOWN), peer.host)
        if method not in self._names:
            return None  # The server itself says that there is none.
        service = method[1:].partition("/")[0]
        if service in SERVICES or service == "gate.v1.Relay":
            return None
        if self.plaintext:
            raise SvcError(
                "this listener has no TLS, so it serves only Health and joining",
                reason="plaintext_listener",
                fault=Fault.PRECONDITION,
            )
        if not peer.chain:
            raise Unauthenticated("a client certificate is required")
        name = method.rpartition("/")[2]
        return (self.sessions if service == _SESSION else self.tunnels).admit(name, peer)

    async def _why(self, request: pb.SessionWhyRequest, call: IRpcCall) -> pb.SessionWhyResponse:
        self.sessions.person(call)
        data, signature, _ = read_why(request)
        return await self.channel().unary(
            WHY_METHOD,
            why_message(data, signature, peer_chain(call)),
            pb.SessionWhyResponse,
            timeout=_WHY_SECS,
        )

    async def _access(
        self, request: pb.SessionAccessRequest, call: IRpcCall
    ) -> pb.SessionAccessResponse:
        self.sessions.person(call)
        signed = evolve(read_access(request), chain=peer_chain(call), source_address=call.peer.host)
        return await self.channel().unary(
            CONTROL_ACCESS_METHOD,
            access_message(signed),
            pb.SessionAccessResponse,
            timeout=_ACCESS_SECS,
        )

    async def _denied(
        self, request: pb.SessionDeniedRequest, call: IRpcCall
    ) -> pb.SessionDeniedResponse:
        person = self.sessions.person(call).principal
        found = self.denied.get(person.id, read_denied_request(request))
        return denied_message(found)

    async def _lane(self, request: pb.SessionLaneRequest, call: IRpcCall) -> pb.SessionLaneResponse:
        person = self.sessions.person(call).principal
        token = self.sessions.offer_lane(read_lane_request(request), person.id, call.peer)
        return pb.SessionLaneResponse(token=token)

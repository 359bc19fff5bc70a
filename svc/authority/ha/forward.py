"""Forwards unary calls from a standby Authority to the leader.

:class:`Forwarder` is the end that stands by, :class:`ForwardedCalls` the
leader's.  The leader judges each call as if the caller had come to it: it
checks the caller's certificate chain, its time, role and registry itself, and
what the call asks for as always.  It takes one thing from the other Authority
that it cannot check: that the holder of that certificate's key was at the
other end.  Whoever holds an Authority's certificate holds the cluster's keys
and could have issued that certificate, so nothing is lost by it.

A forwarded call is served or refused, never forwarded: what stands behind
:class:`ForwardedCalls` are the services themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from attrs import define, field, frozen
from cryptography import x509
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from svc.authority.ha.leader_connection import LeaderRoute
from svc.errors import (
    Fault,
    LeaseLost,
    Malformed,
    SvcError,
    Unauthenticated,
    Unavailable,
    Unprocessed,
)
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.rpc import (
    Admit,
    IRpcCall,
    Metadata,
    MetadataValue,
    Peer,
    RpcService,
    Serve,
    Within,
    only_message,
    unary,
)
from svc.messages.forward import (
    FORWARD_METHOD,
    MAX_CHAIN,
    Forwarded,
    forward_message,
    read_forward,
)
from svc.model.principal import Principal, Role
from svc.proto.gate.v1 import membership_pb2 as pb

MAX_IN_FLIGHT = 256
MAX_HELD_BYTES = 16 * 1024 * 1024
"""Of requests that are being forwarded at once."""

FORWARD_SECS = 30.0
"""A call that came without a deadline, or with a longer one, has this one."""


@define
class ForwardMeters:
    """What forwarding counts.

    Attributes:
        forwarded: Called for each call that is to be forwarded.
        failed: Called for each that failed between the two Authorities.
    """

    forwarded: Callable[[], object]
    failed: Callable[[], object]


@define
class Forwarder:
    """The standby's end: forwards calls to the leader."""

    route: LeaderRoute
    clock: IReactorTime
    meters: ForwardMeters
    _calls: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    async def serve(self, call: IRpcCall) -> None:
        """Serve one unary call by the leader's answer, refusals included.

        Raises:
            LeaseLost: the leader is not reached; it did nothing for the call.
            Unavailable: the connection to it broke; what became of the call is not known.
            SvcError: its refusal; or the deadline, after which nothing is known either.
        """
        request = await only_message(call)
        self.meters.forwarded()
        with self._held(len(request)):
            answer = await self._answered(call, request)
        await call.send(answer)

    async def _answered(self, call: IRpcCall, request: bytes) -> bytes:
        peer, seconds = call.peer, FORWARD_SECS
        if call.deadline is not None:
            seconds = min(seconds, call.deadline - self.clock.seconds())
        forwarded = Forwarded(
            method=call.method,
            request=request,
            chain=peer.chain[:MAX_CHAIN],
            host=peer.host,
            port=peer.port,
        )
        try:
            channel = await self.route.channel()
        except Unavailable:
            self.meters.failed()
            raise LeaseLost(self.route.leadership.leader) from None
        began = self.clock.seconds()
        try:
            answer = await channel.unary(
                FORWARD_METHOD, forward_message(forwarded), pb.ForwardResponse, timeout=seconds
            )
        except Unavailable as e:
            # Of this class is only what we saw of our own connection, never a peer's refusal.
            self.meters.failed()
            raise self._broken(e) from None
        except SvcError as e:
            if e.fault is Fault.DEADLINE and channel.heard_at <= began:
                self.meters.failed()  # Not the call was slow: nothing came at all.
            raise
        return answer.response

    def _broken(self, broken: Unavailable) -> SvcError:
        if isinstance(broken, Unprocessed):
            return LeaseLost(self.route.leadership.leader)
        return Unavailable(
            "the connection to the leader was lost; it is unknown whether the request was "
            "carried out",
            reason="forward_lost",
        )

    @contextmanager
    def _held(self, size: int) -> Iterator[None]:
        if self._calls >= MAX_IN_FLIGHT or self._bytes + size > MAX_HELD_BYTES:
            raise SvcError(
                "too many calls are being forwarded to the leader; try again",
                reason="forwarding_full",
                fault=Fault.EXHAUSTED,
                retry_after=1.0,
            )
        self._calls += 1
        self._bytes += size
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= size


@frozen
class ForwardedMethod:
    """What the leader does with a forwarded call of one method.

    Attributes:
        admit: As on the method's own listener.
    """

    admit: Admit
    serve: Serve


@implementer(IRpcCall)
@define(eq=False)
class _Inner:
    """The call inside a forwarded one, as its handler sees it."""

    method: str
    peer: Peer
    outer: IRpcCall
    request: bytes | None
    caller: object = None
    metadata: Mapping[str, MetadataValue] = field(factory=dict)
    response: bytes | None = None

    @property
    def deadline(self) -> float | None:
        return self.outer.deadline

    async def receive(self, within: Within | None = None) -> bytes | None:
        request, self.request = self.request, None
        return request

    async def ends(self) -> bool:
        return await self.receive() is None

    async def send(self, message: bytes) -> None:
        self.response = message

    def answer_with(self, *, initial: Metadata = (), trailing: Metadata = ()) -> None:
        """Nothing of the kind travels back: no method that is forwarded has any."""

    def on_cancel(self, callback: Callable[[SvcError], object]) -> None:
        self.outer.on_cancel(callback)

    def on_gone(self, callback: Callable[[], object]) -> None:
        self.outer.on_gone(callback)

    def keep_alive(self, interval: float, timeout: float) -> None:
        """The connection is another Authority's, which pings it itself."""


@define
class ForwardedCalls:
    """The leader's end: serves other Authorities on the private listener.

    Attributes:
        methods: What may be forwarded, and how it is served.  Everything else is refused.  A
            command is forwarded for the person whose certificate came with it: who spoke over
            another Authority's control socket has none, and cannot be checked here.
        check_not_revoked: Raises Denied for a node that was revoked.
    """

    verifier: IChainVerifier
    check_not_revoked: Callable[[Principal], object]
    methods: dict[str, ForwardedMethod] = field(factory=dict)
    _working: Counter[str] = field(factory=Counter, init=False)

    def service(self) -> RpcService:
        """The method, for the RPC server."""
        return RpcService("gate.v1.Forward", {"Call": unary(pb.ForwardRequest, self._call)})

    def admit(self, method: str, peer: Peer) -> None:
        """Refuse a call of anybody but an Authority whose certificate is good now (R13)."""
        self.check_not_revoked(authority_of(self.verifier, peer))

    async def _call(self, request: pb.ForwardRequest, call: IRpcCall) -> pb.ForwardResponse:
        forwarded = read_forward(request)
        served = self.methods.get(forwarded.method)
        if served is None:
            raise SvcError(
                "this method is not forwarded",
                reason="not_forwarded",
                fault=Fault.UNIMPLEMENTED,
            )
        follower = authority_of(self.verifier, call.peer).id
        if self._working[follower] >= MAX_IN_FLIGHT:
            raise SvcError(
                "too many calls from one Authority are in progress",
                reason="forwarding_full",
                fault=Fault.EXHAUSTED,
                retry_after=1.0,
            )
        self._working[follower] += 1
        try:
            return pb.ForwardResponse(response=await _served(served, forwarded, call))
        finally:
            self._working[follower] -= 1
            if not self._working[follower]:
                del self._working[follower]


async def _served(served: ForwardedMethod, forwarded: Forwarded, call: IRpcCall) -> bytes:
    peer = _caller(forwarded)
    inner = _Inner(
        method=forwarded.method,
        peer=peer,
        outer=call,
        request=forwarded.request,
        caller=served.admit(forwarded.method, peer),
    )
    await served.serve(inner)
    if inner.response is None:
        raise SvcError(
            "the method returned no answer", reason="not_one_answer", fault=Fault.INTERNAL
        )
    return inner.response


def _caller(forwarded: Forwarded) -> Peer:
    """Whom the other Authority saw.  Its chain proves itself; the rest is that one's word."""
    try:
        for each in forwarded.chain:
            x509.load_der_x509_certificate(each)
    except (ValueError, TypeError, x509.InvalidVersion):
        raise Malformed("forward: chain: not a certificate") from None
    return Peer(host=forwarded.host, port=forwarded.port, tls=True, chain=forwarded.chain)


def authority_of(verifier: IChainVerifier, peer: Peer) -> Principal:
    """The Authority that calls.

    Raises:
        SvcError: it is none, or its certificate is not good now.
    """
    if not peer.chain:
        raise Unauthenticated("the private listener accepts only Authority certificates")
    return verifier.verify(peer.chain, {Role.AUTHORITY}).principal

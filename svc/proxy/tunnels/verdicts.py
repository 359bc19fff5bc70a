"""Asks the Authority whether a Connector may stay: one control stream for each registration.

A refusal of the Connector is Authority's verdict and nothing else; whatever
breaks the stream says something about Authority or about this Proxy, and to
the Connector it is Authority that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, SvcError, TooMany, Unavailable
from svc.interfaces.rpc import IHeardStream
from svc.messages.control import (
    REGISTER_METHOD,
    ConnectorDown,
    Evict,
    RegistrationVerdict,
    TunnelSeen,
    decode_connector_down,
    encode_connector_up,
)
from svc.messages.tunnel import Nonce
from svc.model.ids import random_id
from svc.model.signing import Signed
from svc.proxy.tunnels.parts import RegistrationParts
from svc.proxy.tunnels.refusals import RelayStreams, refusal_of
from svc.proxy.uplink.link import UNCONFIGURED
from svc.runtime.services import bounded

_log = Logger(namespace="svc_proxy")


@define(eq=False)
class AcknowledgedRegistration:
    """An accepted registration: it is valid as long as its stream is open.

    It hears of the end by callback: coroutines that waited for it took 4.3 KiB of each tunnel
    (ADR 100).
    """

    stream: IHeardStream
    _withdrawn: Callable[[Evict | None], object] | None = field(default=None, init=False)

    def follow(self, withdrawn: Callable[[Evict | None], object]) -> None:
        """Call *withdrawn* once, maybe at once: Authority ends it, or is unreachable (None)."""
        self._withdrawn = withdrawn
        self.stream.listen(self)

    def over(self) -> None:
        """End the stream, and with it the registration; nothing more is told.  Idempotent."""
        self._withdrawn = None
        self.stream.listen_no_more()
        self.stream.cancel("tunnel over")

    def readable(self) -> None:
        """Take what Authority says next, or that it says no more."""
        try:
            data = self.stream.take()
            if data is None and not self.stream.has_ended:
                return
            message = None if data is None else decode_connector_down(bytes(data))
        except SvcError as e:
            self.broken(e)
        else:
            self._tell(message if isinstance(message, Evict) else None)

    def drained(self) -> None:
        """Nothing is said to Authority any more."""

    def broken(self, refusal: SvcError) -> None:
        """The stream is over, or what came cannot be read."""
        _log.info("a registration lost its connection to Authority", reason=refusal.reason)
        self._tell(None)

    def _tell(self, evicted: Evict | None) -> None:
        self.stream.listen_no_more()
        withdrawn, self._withdrawn = self._withdrawn, None
        if withdrawn is not None:
            withdrawn(evicted)


@define(eq=False)
class PendingRegistration:
    """One question, from its stream to its verdict."""

    stream: IHeardStream
    streams: RelayStreams
    clock: IReactorTime
    node_id: str
    tunnel_id: str
    seconds: float

    @classmethod
    def begin(cls, service: RegistrationParts, node_id: str) -> PendingRegistration:
        """Over a new stream.

        Raises:
            SvcError: ``authority_unreachable``; counted as ``dial_failed``, or as
                ``unconfigured`` where there is none to reach.
        """
        try:
            stream = IHeardStream(service.link.channel().stream(REGISTER_METHOD))
        except SvcError as e:
            raise _unreachable(service.streams, e) from None
        tunnel_id = random_id(service.entropy)
        seconds = service.times.acknowledge
        return cls(
            stream=stream,
            streams=service.streams,
            clock=service.clock,
            node_id=node_id,
            tunnel_id=tunnel_id,
            seconds=seconds,
        )

    async def challenge(self) -> Nonce:
        """Authority's nonce."""
        message = await self._asked(TunnelSeen(self.tunnel_id, self.node_id))
        if not isinstance(message, Nonce):
            raise self._unreachable(Unavailable("Authority sent no challenge"))
        return message

    async def verdict(self, signed: Signed) -> RegistrationVerdict:
        """That Authority accepts a signed registration, and as what.

        Raises:
            SvcError: its refusal; counted as ``refused``.
        """
        message = await self._asked(signed)
        if not isinstance(message, RegistrationVerdict):
            raise self._unreachable(Unavailable("Authority did not decide in time"))
        if not message.accepted:
            self.streams.outcome("refused")
            raise refusal_of(message.reason or "malformed_registration", message.text)
        return message

    def acknowledged(self) -> AcknowledgedRegistration:
        """The registration that was accepted."""
        return AcknowledgedRegistration(self.stream)

    def over(self) -> None:
        """Stop waiting for the verdict. Idempotent."""
        self.stream.cancel("registration over")

    async def _asked(self, message: TunnelSeen | Signed) -> ConnectorDown:
        try:
            await bounded(
                self.clock,
                self.seconds,
                self.stream.send(encode_connector_up(message)),
                "Authority",
            )
            data = await bounded(self.clock, self.seconds, self.stream.receive(), "Authority")
            if data is None:
                raise Unavailable("Authority ended the registration")
            return decode_connector_down(data)
        except SvcError as e:
            raise self._unreachable(e) from None

    def _unreachable(self, why: SvcError) -> SvcError:
        return _unreachable(self.streams, why)


def _unreachable(streams: RelayStreams, why: SvcError) -> SvcError:
    if why.reason == TooMany.reason:
        streams.outcome("refused")
        return why
    streams.outcome("unconfigured" if why.reason == UNCONFIGURED else "dial_failed")
    _log.warn("Authority cannot be reached", reason=why.reason, text=why.text)
    if why.fault is Fault.INVALID:
        # It could not read what the Connector signed.
        return refusal_of("malformed_registration", why.text)
    return refusal_of("authority_unreachable", "Authority cannot be reached from this Proxy")

"""Asks the Authority whether a Connector may stay: one control stream for each registration.

A refusal of the Connector is Authority's verdict and nothing else; whatever
breaks the stream says something about Authority or about this Proxy, and to
the Connector it is Authority that cannot be reached.
"""

from __future__ import annotations

from attrs import define, frozen
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svc.errors import Fault, SvcError, TooMany, Unavailable
from svc.interfaces.rpc import IRpcStream
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


@frozen
class AcknowledgedRegistration:
    """An accepted registration: it is valid as long as its stream is open."""

    stream: IRpcStream
    verdict: RegistrationVerdict

    async def until_over(self) -> Evict | None:
        """Wait until the Authority withdraws it, or is unreachable (None)."""
        try:
            data = await self.stream.receive()
            message = None if data is None else decode_connector_down(data)
        except SvcError as e:
            _log.info("a registration lost its connection to Authority", reason=e.reason)
            return None
        return message if isinstance(message, Evict) else None

    def over(self) -> None:
        """End the stream, and with it the registration.  Idempotent."""
        self.stream.cancel("tunnel over")


@define(eq=False)
class PendingRegistration:
    """One question, from its stream to its verdict."""

    stream: IRpcStream
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
            stream = service.link.channel().stream(REGISTER_METHOD)
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

    async def verdict(self, signed: Signed) -> AcknowledgedRegistration:
        """What Authority says to a signed registration.

        Raises:
            SvcError: its refusal; counted as ``refused``.
        """
        message = await self._asked(signed)
        if not isinstance(message, RegistrationVerdict):
            raise self._unreachable(Unavailable("Authority did not decide in time"))
        if not message.accepted:
            self.streams.outcome("refused")
            raise refusal_of(message.reason or "malformed_registration", message.text)
        return AcknowledgedRegistration(self.stream, message)

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

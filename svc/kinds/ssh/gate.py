"""The SSH gate: an endpoint that logs in at the target, and then speaks SSH with the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import Factory
from zope.interface import implementer

from svc.errors import SvcError
from svc.interfaces.kinds import Use
from svc.kinds.ssh.conch import Key
from svc.kinds.ssh.connection import Outflow
from svc.kinds.ssh.link import GateLink
from svc.kinds.ssh.login import OnwardTransport, TargetLogin
from svc.kinds.ssh.recorded.session import RecordedSession
from svc.kinds.ssh.rights import SessionRights
from svc.kinds.ssh.server import ClientTransport, ServedSession
from svc.model.session.ending import RECORDING_FAILED

LAST_SECS = 5.0
"""What was sent to a target has so long to leave, once the session is over."""


@implementer(IStreamClientEndpoint)
@frozen(kw_only=True)
class GateEndpoint:
    """Connects a session once the target has let us in.

    Attributes:
        below: Reaches the target.
        login: Gives how to log in there; blocks for a file, raises SvcError.
        host_key: That clients are shown.
        target_port: Of the target.
        use: Told what of the rights is used.
        recorded: Records the session.
    """

    below: IStreamClientEndpoint
    login: Callable[[], TargetLogin]
    rights: SessionRights
    host_key: Key = field(repr=False)
    target_port: int
    use: Use
    recorded: RecordedSession
    clock: IReactorTime

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """See IStreamClientEndpoint."""
        return Deferred.fromCoroutine(self._connect(protocolFactory))

    async def _connect(self, factory: IProtocolFactory) -> IProtocol:
        await self.recorded.check()
        onward = OnwardTransport(
            login=self.login(), rights=self.rights, use=self.use, outflow=Outflow()
        )
        await self.below.connect(Factory.forProtocol(lambda: onward))
        try:
            target = await onward.ready
            return self._joined(onward, target, factory)
        except BaseException:
            transport: Any = onward.transport
            transport.abortConnection()
            raise

    def _joined(self, onward: OnwardTransport, target: Any, factory: IProtocolFactory) -> IProtocol:
        transport: Any = onward.transport
        session = ServedSession(
            rights=self.rights,
            host_key=self.host_key,
            target=target,
            target_port=self.target_port,
            use=self.use,
            recorded=self.recorded,
            clock=self.clock,
        )

        def leave() -> None:
            self.recorded.end()
            late = self.clock.callLater(LAST_SECS, transport.abortConnection)
            onward.gone = lambda: late.cancel() if late.active() else None
            transport.loseConnection()

        outflow = Outflow()
        client = ClientTransport(session, outflow)
        protocol: Any = factory.buildProtocol(transport.getPeer())
        link = GateLink(
            server=client,
            outflow=outflow,
            address=transport.getPeer(),
            clock=self.clock,
            over=leave,
        )
        onward.outflow.sources = outflow.sources = (transport, link)
        onward.gone = lambda: client.leave(b"svc: the target closed the connection")

        def cannot_record(text: str) -> None:
            link.fault = SvcError(text, reason=RECORDING_FAILED)
            client.leave(text.encode("utf-8"))
            # A client that reads nothing does not leave, and what runs does not go on unrecorded.
            transport.loseConnection()

        self.recorded.over = cannot_record
        link.join(protocol)
        return protocol  # type: ignore[no-any-return]

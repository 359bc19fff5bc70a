"""Local connections that are checked: a session opens once the tool has said what it wants.

A browser opens connections that it may never use, and carries requests of pages that it shows for
others: nothing of either gets into a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory, connectionDone
from twisted.python.failure import Failure

from svc.client.resident.local import Begin, LocalSide
from svc.errors import SvcError
from svc.interfaces.kinds import ILocalCheck
from svc.lanes.relay import Relay

FIRST_WORDS_SECS = 60.0
"""How long a tool may hold a connection without having said what it wants."""

LAST_WORDS_SECS = 5.0
"""How long it may take to read why it gets nothing."""


class CheckedSide(LocalSide):
    """The tool's side of one.

    Attributes:
        check: Of this connection.
    """

    def __init__(
        self,
        relay: Relay,
        guard: Callable[[Any], bool],
        begin: Begin,
        checking: Checking,
    ) -> None:
        super().__init__(relay, guard, begin)
        self.check = checking.make()
        self._clock = checking.clock
        self._note = checking.note
        self._deadline: IDelayedCall | None = None
        self._has_begun = False
        self._is_refused = False

    def dataReceived(self, data: bytes) -> None:
        """Pass on what was checked; open the session when it is known which."""
        if self._is_refused:
            return
        try:
            self.check.heard(data)
        except SvcError as refusal:
            self._note(self.check.resource, refusal)
            self.say_last(refusal)
            return
        super().dataReceived(data)
        if self.check.resource and not self._has_begun:
            self._has_begun = True
            self._leave_after(None)
            self.transport.pauseProducing()
            self._begin(self.relay)

    def say_last(self, refusal: SvcError) -> None:
        """Say why, and close; a connection that was served already is cut off."""
        self._is_refused = True
        if self.relay.is_joined:
            self.relay.abort()
        elif not self.is_lost:
            self.transport.resumeProducing()
            self._leave_after(LAST_WORDS_SECS)
            self.out.write(self.check.refused(refusal))
            self.close()

    def readConnectionLost(self) -> None:
        """A tool that has said nothing and never will."""
        if self._has_begun:
            super().readConnectionLost()
        else:
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The tool is gone."""
        self._leave_after(None)
        super().connectionLost(reason)

    def _let_in(self) -> None:
        self._leave_after(FIRST_WORDS_SECS)
        self.transport.resumeProducing()

    def _leave_after(self, seconds: float | None) -> None:
        """Leave the tool after a time; None: no longer."""
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None:
            self._deadline = self._clock.callLater(seconds, self.transport.abortConnection)


@frozen
class Checking:
    """How checked connections begin.

    Attributes:
        make: Begins the checks of one.
        note: Told of each refusal, with the resource where it is known.
    """

    make: Callable[[], ILocalCheck]
    clock: IReactorTime
    note: Callable[[str, SvcError], object]


class CheckedConnections(Factory):
    """Makes the protocol of each."""

    noisy = False

    def __init__(self, guard: Callable[[Any], bool], begin: Begin, checking: Checking) -> None:
        self._guard = guard
        self._begin = begin
        self._checking = checking

    def buildProtocol(self, addr: object) -> CheckedSide:
        """One relay a connection."""
        relay = Relay()
        side = CheckedSide(
            relay=relay,
            guard=self._guard,
            begin=self._begin,
            checking=self._checking,
        )
        relay.left = side
        return side

"""Local connections that are checked: a session opens once the tool has said what it wants.

A browser opens connections that it may never use, and carries requests of pages that it shows for
others: nothing of either gets into a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from svc.client.resident.local import LAST_WORDS_SECS, Begin, HeardSide
from svc.errors import SvcError
from svc.interfaces.kinds import ILocalCheck
from svc.lanes.relay import Relay


class CheckedSide(HeardSide):
    """The tool's side of one.

    Attributes:
        check: Of this connection.
    """

    FIRST_WORDS_SECS = 60.0

    def __init__(
        self,
        relay: Relay,
        guard: Callable[[Any], bool],
        begin: Begin,
        checking: Checking,
    ) -> None:
        super().__init__(relay, guard=guard, begin=begin, clock=checking.clock)
        self.check = checking.make()
        self._note = checking.note
        self._has_begun = False
        self._is_over = False

    def dataReceived(self, data: bytes) -> None:
        """Pass on what was checked; open the session when it is known which."""
        if self._is_over:
            return
        try:
            self.check.heard(data)
        except SvcError as refusal:
            self._note(self.check.resource, refusal)
            self.say_last(refusal)
            return
        if self.check.answer:
            self._leave_with(self.check.answer)
            return
        super().dataReceived(data)
        if self.check.resource and not self._has_begun:
            self._has_begun = True
            self.open()

    def say_last(self, refusal: SvcError) -> None:
        """Say why, and close; a connection that was served already is cut off."""
        self._leave_with(self.check.refused(refusal))

    def _leave_with(self, words: bytes) -> None:
        self._is_over = True
        if self.relay.is_joined:
            self.relay.abort()
        elif not self.is_lost:
            self.transport.resumeProducing()
            self.leave_after(LAST_WORDS_SECS)
            self.out.write(words)
            self.close()

    def readConnectionLost(self) -> None:
        """A tool that has said nothing and never will."""
        if self._has_begun:
            super().readConnectionLost()
        else:
            self.transport.loseConnection()


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

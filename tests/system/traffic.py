"""A person's side that never gives up: it opens sessions, uses them, says what became of each.

A process of its own; each line it prints is one JSON object: ``given`` (a
session stands: its decision and uid), ``echoed`` (bytes came back through it),
``over`` (it ended: ``was_ours`` unless somebody else ended it), ``refused``.
A decision id that came with a refusal is told, too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from svc.client.sessions import SessionIntent
from svc.compose.person import PersonSide, client_settings, load_person
from svc.errors import SvcError
from svc.runtime.context import Runtime
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until

_BEFORE_NEXT = 0.05


def tell(what: str, **facts: object) -> None:
    """One line."""
    sys.stdout.write(json.dumps({"what": what, **facts}) + "\n")
    sys.stdout.flush()


class Echoing(Protocol):
    """Sends a little again and again, and expects it back."""

    def __init__(self) -> None:
        self.over: Deferred[None] = Deferred()
        self.first: Deferred[None] = Deferred()
        self.came = 0
        self.was_ours = False

    def beat(self) -> None:
        """Send once more."""
        transport: Any = self.transport
        transport.write(b"beat")

    def dataReceived(self, data: bytes) -> None:
        """Count, and tell that something came."""
        self.came += len(data)
        if not self.first.called:
            self.first.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Let whoever holds the session know."""
        self.over.callback(None)


class Visitor:
    """One of the concurrent users of one connection to the Proxy."""

    def __init__(self, reactor: Any, side: PersonSide, wanted: Namespace, number: int) -> None:
        self._number = number
        self._reactor = reactor
        self._side = side
        self._wanted = wanted
        self._channel: Any = None

    async def stay(self) -> None:
        """Open one session after the other, for ever."""
        while True:
            try:
                await self._visit()
            except SvcError as e:
                decision_id = e.details.get("decision_id", "")
                tell("refused", visitor=self._number, reason=e.reason, decision_id=decision_id)
                if self._channel is not None and not self._wanted.pile:
                    await self._channel.close()
                    self._channel = None
            await task.deferLater(self._reactor, _BEFORE_NEXT)

    async def _visit(self) -> None:
        if self._channel is None:
            self._channel = await self._side.connect()
        intent = SessionIntent(self._wanted.resource, self._side.kinds.by_name["tcp"])
        session = self._side.dialer(lambda: self._channel).endpoint(intent)
        echoing: Any = await session.connect(Factory.forProtocol(Echoing))
        assert session.grant is not None
        uid = session.grant.session_uid
        tell("given", decision_id=session.decision_id, session_uid=uid)
        if self._wanted.pile:
            return  # left open; the end of this process ends it
        beating = task.LoopingCall(echoing.beat)
        beating.clock = self._reactor
        beating.start(0.1)
        leaving = self._reactor.callLater(self._wanted.secs, self._leave, echoing)
        telling = self._reactor.callLater(0.2, self._tell_echo, echoing, uid)
        await echoing.over
        beating.stop()
        for call in (leaving, telling):
            if call.active():
                call.cancel()
        tell("over", session_uid=uid, was_ours=echoing.was_ours, came=echoing.came)

    def _tell_echo(self, echoing: Echoing, uid: str) -> None:
        # On a busy machine nothing may have come back yet; it is told when it does.
        echoing.first.addCallback(lambda _: tell("echoed", session_uid=uid))

    def _leave(self, echoing: Any) -> None:
        echoing.was_ours = True
        echoing.transport.loseConnection()


def main(reactor: Any, words: Sequence[str]) -> Deferred[Any]:
    """Run the visitors."""
    parser = ArgumentParser()
    parser.add_argument("resource")
    parser.add_argument("--visitors", type=int, default=1)
    parser.add_argument("--secs", type=float, default=1.0)
    parser.add_argument("--pile", action="store_true")
    wanted = parser.parse_args(words)
    runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=os.environ)
    side = load_person(runtime, client_settings(None, os.environ))
    visitors = (
        Visitor(reactor=reactor, side=side, wanted=wanted, number=number)
        for number in range(wanted.visitors)
    )
    return gatherResults([Deferred.fromCoroutine(one.stay()) for one in visitors])


class Traffic:
    """The process, for a test.

    Args:
        secs: How long each session is used before it is left.
        pile: Open the next session beside the last one instead of after it,
            over one connection that is kept whatever is refused.
    """

    def __init__(
        self,
        person: GatewayPerson,
        resource: str,
        *,
        visitors: int = 2,
        secs: float = 0.3,
        pile: bool = False,
    ):
        words = [sys.executable, "-m", "tests.system.traffic", resource]
        words += ["--visitors", str(visitors), "--secs", str(secs), *(["--pile"] if pile else [])]
        log = person.home / f"traffic-{os.urandom(4).hex()}.log"
        self.child = Child(name="traffic", words=words, home=person.home, log=log)
        self.child.start()

    def lines(self, what: str) -> list[dict[str, Any]]:
        """Everything of a sort that was told so far."""
        told = (json.loads(line) for line in self.child.text().splitlines() if line[-1:] == "}")
        return [one for one in told if one["what"] == what]

    @property
    def decisions(self) -> set[str]:
        """Every decision id the person was given."""
        lines = (*self.lines("given"), *self.lines("refused"))
        return {one["decision_id"] for one in lines if one["decision_id"]}

    def await_more(self, what: str, more: int = 1, seconds: float = 20.0) -> None:
        """Wait until so many more lines of a sort have come."""
        so_far = len(self.lines(what))
        until(
            f"{more} more {what}",
            lambda: len(self.lines(what)) >= so_far + more,
            seconds,
            [self.child],
        )

    def end(self) -> None:
        """Kill it; every session it has is cut."""
        self.child.end()


if __name__ == "__main__":
    task.react(main, [sys.argv[1:]])

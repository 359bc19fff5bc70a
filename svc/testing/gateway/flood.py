"""A person's client that asks for a session as fast as it can, over one connection.

A process of its own: ``python -m svc.testing.gateway.flood <resource>`` in the
person's environment.  Each second, and at its end, it prints one JSON object:
how many answers it got, by reason word.  What is granted all the same is left
at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import Any

from twisted.internet import task
from twisted.internet.defer import Deferred, gatherResults

from svc.client.sessions import SessionDialer, SessionIntent
from svc.compose.person import client_settings, load_person
from svc.errors import SvcError
from svc.messages.session import OPEN_METHOD, encode_open, encode_request
from svc.model.signing import Purpose
from svc.rpc.frames import open_frame
from svc.runtime.context import Runtime
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child

GRANTED = "granted"


class Flood:
    """What is asked, and what was answered."""

    def __init__(
        self, channel: Any, dialer: SessionDialer, intent: SessionIntent, calls: int
    ) -> None:
        self._channel = channel
        self._dialer = dialer
        self._intent = intent
        self._left = calls
        self._proxy_id = dialer.proxy_id(channel)
        self.answers: Counter[str] = Counter()

    def tell(self) -> None:
        """One line."""
        sys.stdout.write(json.dumps({"answers": dict(self.answers)}) + "\n")
        sys.stdout.flush()

    async def ask(self) -> None:
        """One call after the other, as long as any are left."""
        while self._left:
            self._left -= 1
            self.answers[await self._one()] += 1

    async def _one(self) -> str:
        data = encode_request(self._dialer.request(self._intent, self._proxy_id))
        signature = self._dialer.identity.sign(Purpose.SESSION_REQUEST, data).signature
        stream = self._channel.stream(OPEN_METHOD)
        try:
            await stream.send(open_frame(encode_open(data, signature)))
            await stream.receive()
        except SvcError as e:
            return e.reason
        stream.cancel()
        return GRANTED


async def flood(reactor: Any, wanted: Namespace) -> None:
    """Ask until everything is asked."""
    runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=os.environ)
    side = load_person(runtime, client_settings(None, os.environ))
    channel = await side.connect()
    intent = SessionIntent(wanted.resource, side.kinds.by_name["tcp"])
    made = Flood(
        channel=channel, dialer=side.dialer(lambda: channel), intent=intent, calls=wanted.calls
    )
    telling = task.LoopingCall(made.tell)
    telling.clock = reactor
    telling.start(1.0)
    await gatherResults([Deferred.fromCoroutine(made.ask()) for _ in range(wanted.at_once)])
    telling.stop()
    made.tell()


def main(reactor: Any, words: Sequence[str]) -> Deferred[Any]:
    """As the command line says."""
    parser = ArgumentParser()
    parser.add_argument("resource")
    parser.add_argument("--calls", type=int, default=10**9)
    parser.add_argument("--at-once", type=int, default=500)
    return Deferred.fromCoroutine(flood(reactor, parser.parse_args(words)))


def start_flood(person: GatewayPerson, resource: str, *words: str) -> Child:
    """Start it as this person."""
    command = [sys.executable, "-m", "svc.testing.gateway.flood", resource, *words]
    child = Child(name="flood", words=command, home=person.home, log=person.home / "flood.log")
    child.start()
    return child


def answers(child: Child) -> Counter[str]:
    """What it told last."""
    lines = [line for line in child.text().splitlines() if line.endswith("}}")]
    return Counter(json.loads(lines[-1])["answers"]) if lines else Counter()


if __name__ == "__main__":
    task.react(main, [sys.argv[1:]])

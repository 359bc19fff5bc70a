"""Tests of a hostile Proxy: its people's clients, its sessions, and what each is refused with."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from svc.client.sessions import SessionDialer
from svc.compose.node import tls_endpoint
from svc.config import Address
from svc.errors import SvcError
from svc.interfaces.rpc import IRpcChannel
from svc.messages.control import Ask
from svc.messages.session import encode_request
from svc.model.ids import random_id
from svc.model.principal import Role
from svc.model.session.request import SessionRequest
from svc.model.signing import Purpose
from svc.pki.end_to_end import PersonEnd
from svc.pki.identity import TransportIdentity
from svc.rpc.client.channel import dial
from tests.system.hostile import HostileProxy
from tests.system.stage import EVIL, reactor, stage, within


async def dialer(person: TransportIdentity, address: Address) -> tuple[SessionDialer, IRpcChannel]:
    """A person's real client at a Proxy."""
    endpoint = tls_endpoint(reactor, person, address, frozenset({Role.PROXY}))
    channel = await dial(endpoint, reactor, authority="proxy")
    made = SessionDialer(
        channel=lambda: channel,
        identity=person,
        verifier=person.verifier,
        connector_tls=PersonEnd(person).begun,
        clock=reactor,
        now=time.time,
        entropy=os.urandom,
    )
    return made, channel


class Listener(Protocol):
    """A person's tool: keeps what it hears, and says when."""

    transport: Any

    def __init__(self) -> None:
        self.heard = bytearray()
        self.lost: Failure | None = None
        self._waiting: list[tuple[int, Deferred[bytes]]] = []

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        ready = [each for each in self._waiting if len(self.heard) >= each[0]]
        self._waiting = [each for each in self._waiting if each not in ready]
        for _, waiting in ready:
            waiting.callback(bytes(self.heard))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason

    async def until(self, size: int) -> bytes:
        """Everything heard, once it is so much."""
        waiting: Deferred[bytes] = Deferred()
        self._waiting.append((size, waiting))
        self.dataReceived(b"")
        return await within(waiting)


def listening() -> tuple[Listener, Any]:
    """A tool, and the factory that gives it."""
    tool = Listener()
    factory = Factory.forProtocol(lambda: tool)
    factory.noisy = False
    return tool, factory


class HostileCase(TestCase):
    """A Proxy under control at a real Authority, with a real Connector's tunnel in reach."""

    timeout = 60

    async def setUp(self) -> None:  # type: ignore[override]
        self.stage = await stage()
        self.evil = await self.proxy(EVIL)

    async def proxy(self, name: str, listen: bool = True) -> HostileProxy:
        """A Proxy under control; stopped after the test."""
        made = HostileProxy(self.stage, name)
        self.addCleanup(lambda: Deferred.fromCoroutine(made.stop()))
        return await made.start(listen)

    async def dialer(self, person: str = "ada", proxy: str = EVIL) -> SessionDialer:
        """A person's real client at a Proxy; closed after the test."""
        made, channel = await dialer(self.stage.people[person], self.stage.public(proxy))
        self.addCleanup(lambda: Deferred.fromCoroutine(channel.close()))
        return made

    def requested(self, person: str = "ada", **changed: Any) -> SessionRequest:
        """What a person's client would sign now, for EVIL and the resource db1."""
        request = SessionRequest(
            cluster=self.stage.gateway.files.cluster,
            session_uid=random_id(os.urandom),
            resource="db1",
            kind="tcp",
            action="tcpConnect",
            proxy_id=self.evil.id,
            issued_at_ms=int(time.time() * 1000),
            certificate_sha256=self.stage.people[person].facts.sha256,
        )
        return evolve(request, **changed)

    def ask(
        self, requested: SessionRequest, signer: str = "ada", chain: str = "", **said: Any
    ) -> Ask:
        """A request as a Proxy puts it before Authority."""
        data = encode_request(requested)
        people = self.stage.people
        signature = people[signer].sign(Purpose.SESSION_REQUEST, data).signature
        return Ask(
            request=data,
            signature=signature,
            person_chain=people[chain or signer].chain,
            proxy_decision=self.evil.decision(**said),
        )

    async def refusal(self, doing: Awaitable[Any]) -> SvcError:
        """The refusal that something comes to."""

        async def done() -> Any:
            return await doing

        waiting = Deferred.fromCoroutine(done())
        refused: SvcError = await self.assertFailure(waiting, SvcError)
        return refused

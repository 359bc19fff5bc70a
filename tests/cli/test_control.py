"""Commands and a running Authority, joined by a real control socket."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol, ServerFactory
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.cli.control import ask, authority_state
from svc.compose.listeners.rpc import ControlSocketEndpoint
from svc.config import load_settings
from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.rpc.server.server import RpcServerFactory
from svc.testing.gateway.processes import Ran, run, svc_command
from svc.wire.limits import WireLimits
from tests.cli.terminal import STATUS, Authority, Place, terminal
from tests.config.malformed import GOOD
from tests.support.proof import proves

ROOT = Path(__file__).resolve().parents[2]


class StateTests(SynchronousTestCase):
    """Where the Authority of a configuration keeps its state."""

    def state(self, place: Place) -> Path:
        """What the commands take it to be."""
        return authority_state(load_settings(str(place.config), "authority", {}))

    def test_alone(self) -> None:
        """A role of its own lies in the state directory, started before or not."""
        place = Place(self)
        self.assertEqual(self.state(place), place.state)
        (place.state / "keys").mkdir()
        (place.state / "authority" / "keys").mkdir(parents=True)
        self.assertEqual(self.state(place), place.state)

    def test_in_all(self) -> None:
        """With `svc all` it lies in the directory of its name within."""
        for mark in ("keys", "identity", "anchor", "control.sock"):
            place = Place(self, within="authority")
            (place.state / mark).mkdir()
            self.assertEqual(self.state(place), place.state, mark)


class SocketTests(TestCase):
    """One call over a socket of the real reactor."""

    async def listening(self, place: Place, factory: Any) -> None:
        """Listen where the Authority listens, until the test is over."""
        port = await ControlSocketEndpoint(reactor, place.state, "control.sock").listen(factory)
        self.addCleanup(port.stopListening)

    def server(self) -> RpcServerFactory:
        """An Authority whose owner is whoever runs this test."""
        authority = Authority(os.geteuid())
        return RpcServerFactory(
            [authority.service.service()],
            reactor,
            limits=WireLimits(),
            admit=authority.operators.admit,
            plaintext=True,
        )

    async def refusal(self, directory: Path, deadline: float = 10.0) -> SvcError:
        """How asking for the status is refused."""
        try:
            await ask(reactor, directory, "Status", pb.StatusRequest(), pb.StatusResponse, deadline)
        except SvcError as refused:
            return refused
        raise AssertionError("answered")

    async def test_long_paths(self) -> None:
        """The answer comes also where the socket's path is longer than a socket's may be."""
        place = Place(self, within="d" * 120)
        await self.listening(place, self.server())
        answer = await ask(reactor, place.state, "Status", pb.StatusRequest(), pb.StatusResponse)
        self.assertEqual(answer, STATUS)

    async def test_not_running(self) -> None:
        """Without a socket, without its directory, and beside a dead one, the text asks for it."""
        place = Place(self)
        missing = await self.refusal(place.state)
        nowhere = await self.refusal(place.state / "not" / "there")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(os.path.relpath(place.state / "control.sock"))
        dead = await self.refusal(place.state)
        for refused in (missing, nowhere, dead):
            self.assertEqual(refused.reason, "authority_not_running")
            self.assertIn("if the Authority is not running, start it with", refused.text)

    async def test_silence(self) -> None:
        """An Authority that takes the call and says nothing is waited for no longer than told."""
        place = Place(self)
        accepted = ServerFactory()
        accepted.protocol = Protocol
        await self.listening(place, accepted)
        refused = await self.refusal(place.state, 0.0)
        self.assertEqual(refused.fault, Fault.DEADLINE)

    async def test_hangs_up(self) -> None:
        """Whoever hangs up at once is no running Authority."""
        place = Place(self)

        class Rude(Protocol):
            def connectionMade(self) -> None:
                self.transport.abortConnection()  # type: ignore[union-attr]

        await self.listening(place, Factory.forProtocol(Rude))
        refused = await self.refusal(place.state)
        self.assertEqual(refused.reason, "authority_not_running")

    async def program(self, place: Place, *words: str) -> tuple[bytes, bytes, int]:
        """Run the real program: stdout, stderr, status."""
        command = svc_command("--config", str(place.config), "authority", *words)
        ran: Ran = await deferToThread(run, command, ROOT)
        return ran.stdout.encode(), ran.stderr.encode(), ran.status

    @proves("X-37")
    async def test_program(self) -> None:
        """The program asks, prints one document and exits 0; a refusal exits 1 on stderr alone."""
        place = Place(self)
        await self.listening(place, self.server())
        out, err, status = await self.program(place, "nodes", "list", "--json")
        self.assertEqual((json.loads(out), err, status), ([], b"", 0))
        out, err, status = await self.program(place, "nodes", "revoke", "nobody")
        listed = f"see `svc --config {place.config} authority nodes list`"
        told = f"svc: node nobody: not in the registry; {listed} (unknown_node)\n"
        self.assertEqual(
            (out, err, status),
            (b"", told.encode(), 1),
        )

    def test_another_role_s_configuration(self) -> None:
        """A Proxy's file is said to be one, and not judged as an Authority's."""
        path = Path(self.mktemp())
        path.write_text(GOOD["proxy"])
        for words in (("status",), ("audit", "verify"), ("nodes", "list")):
            done = terminal("--config", str(path), "authority", *words)
            self.assertEqual((done.status, done.stdout), (1, ""))
            said = f"svc: {path}: is the configuration of a proxy; authority {' '.join(words)} "
            self.assertTrue(done.stderr.startswith(f"{said}needs the Authority's"), done.stderr)

    async def test_program_without_authority(self) -> None:
        """With no Authority the program says where it looked, and exits 1."""
        place = Place(self)
        out, err, status = await self.program(place, "status")
        self.assertEqual((out, status), (b"", 1))
        self.assertIn(
            f"{place.state}/control.sock: no answer; if the Authority is not running".encode(),
            err,
        )
        self.assertNotIn(b"Traceback", err)
        self.assertEqual(list(place.state.iterdir()), [])

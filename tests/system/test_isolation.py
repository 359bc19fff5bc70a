"""A second user of the machine gets nothing out of a resident, a demo or a control socket."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, TrailersReceived
from twisted.trial.unittest import SynchronousTestCase

from svc.demo.postgres_programs import find_programs
from svc.model.audit.events import (
    ROLE_START,
    ROLE_STOP,
    SPOOL_OPEN,
    TUNNEL_ENDED,
    TUNNEL_REGISTERED,
)
from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import Child, run, svc_command, until
from svc.testing.gateway.settings import AUTHORITY
from tests.system.common import ada, shared
from tests.system.strangers import UID, as_stranger, holding, knock, listening_of, need_root

RUN_BY = "make fault"

NOTHING = ("refused", "heard b''")
"""What a stranger may be answered."""


@contextmanager
def opened(directory: Path) -> Iterator[str]:
    """A private directory of sockets made public, so that only the peer check guards it.

    Gives the path under which a child finds it.
    """
    before = directory.stat().st_mode
    sockets = list(directory.glob("*.sock"))
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        directory.chmod(0o755)
        for each in sockets:
            each.chmod(0o666)
        yield f"/proc/self/fd/{handle}"
    finally:
        for each in sockets:
            each.chmod(0o600)
        directory.chmod(before & 0o777)
        os.close(handle)


def asked_for(gateway: Gateway) -> list[tuple[int, str]]:
    """Number and event of every record, but for what roles report of themselves at any time."""
    with closing(sqlite3.connect(f"file:{gateway.files.store}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT seq, event FROM audit_log ORDER BY seq").fetchall()
    own = (ROLE_START, ROLE_STOP, SPOOL_OPEN, TUNNEL_ENDED, TUNNEL_REGISTERED)
    return [row for row in rows if row[1] not in {event.name for event in own}]


class ResidentTests(SynchronousTestCase):
    """The resident of a person who may use what the ports lead to."""

    def setUp(self) -> None:
        need_root()
        self.gateway = shared()
        self.person = ada()
        if self.person.resident is None or not self.person.resident.is_alive:
            self.person.up("echo", "vault")
        assert self.person.resident is not None
        self.resident = self.person.resident

    def test_ports(self) -> None:
        """Every port resets another user's connection unread; no session is asked for."""
        ports = listening_of(self.resident.pid)
        self.assertIn(self.person.endpoint("echo"), ports)
        self.assertGreaterEqual(len(ports), 2)
        before, asked = self.gateway.status(), asked_for(self.gateway)
        told = as_stranger(lambda: [knock(port) for port in ports])
        self.assertEqual(told, ["refused"] * len(ports))
        self.assertEqual(asked_for(self.gateway), asked)
        self.assertEqual(self.gateway.status()["open_sessions"], before["open_sessions"])
        told = self.resident.events("reset a connection from another user")
        self.assertEqual({one["uid"] for one in told}, {UID})
        self.assertGreaterEqual(len(told), len(ports))

    def test_sockets(self) -> None:
        """The sockets lie in a private directory; and where it were open, each asks who comes."""
        run = self.person.directory / "run"
        names = sorted(path.name for path in run.glob("*.sock"))
        self.assertLessEqual({"control.sock", "echo.sock"}, set(names))
        hidden = as_stranger(lambda: [knock(str(run / name)) for name in names])
        self.assertEqual(hidden, ["refused"] * len(names))
        before = asked_for(self.gateway)
        with opened(run) as path:
            told = as_stranger(lambda: [knock(f"{path}/{name}") for name in names])
        self.assertEqual([one for one in told if one not in NOTHING], [])
        self.assertEqual(asked_for(self.gateway), before)

    def test_after(self) -> None:
        """A port that another user took meanwhile is told, with whose it is, and never moved."""
        echo = self.person.endpoint("echo")
        self.resident.stop()
        with holding(echo):
            self.person.up()

            def look() -> str:
                told = self.person.status().get("endpoints", ())
                of_it = [one for one in told if one["resource"] == "echo"]
                return str(of_it[0]["problem"]) if of_it else ""

            problem = until("the problem told", look, alive=[self.resident])
            self.assertEqual(
                problem, f"port {echo[1]} of {echo[0]} is held by another user (uid {UID})"
            )
            self.assertNotIn(echo[0], [host for host, _ in listening_of(self.resident.pid)])
        self.resident.stop()
        self.person.up("echo", "vault")


class ControlTests(SynchronousTestCase):
    """The Authority's control socket."""

    def test_other_user(self) -> None:
        """Another user cannot reach it; where the directory were open, no call is served."""
        need_root()
        gateway = shared()
        state = gateway.files.state(AUTHORITY)
        hidden = as_stranger(lambda: knock(str(state / "control.sock")))
        self.assertEqual(hidden, "refused")
        before = asked_for(gateway)
        with opened(state) as path:
            told = as_stranger(lambda: called(f"{path}/control.sock"))
        self.assertEqual(told, "16")
        self.assertEqual(asked_for(gateway), before)


def called(path: str) -> str:
    """The gRPC status that ``Admin/Status`` is answered, spoken by hand."""
    talk = H2Connection(H2Configuration(client_side=True))
    talk.initiate_connection()
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "authority")]
    head += [(":path", "/gate.v1.Admin/Status"), ("content-type", "application/grpc")]
    talk.send_headers(1, [*head, ("te", "trailers")])
    talk.send_data(1, bytes(5), end_stream=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(5)
        door.connect(path)
        door.sendall(talk.data_to_send())
        while data := door.recv(65536):
            for event in talk.receive_data(data):
                if isinstance(event, ResponseReceived | TrailersReceived):
                    status = dict(event.headers or ()).get(b"grpc-status")
                    if status is not None:
                        return status.decode()
    return "closed"


class DemoTests(SynchronousTestCase):
    """``svc demo``, which stays up with its ports open."""

    def test_ports(self) -> None:
        """None of its ports gives another user a byte; nothing is asked for or written down."""
        need_root()
        home = Path(self.mktemp()).absolute()
        home.mkdir(0o700, parents=True)
        child = Child(name="demo", words=svc_command("demo"), home=home, log=home / "demo.log")
        child.start()
        self.addCleanup(child.end)
        until("the demo's last word", lambda: "Ctrl-C" in child.text(), 40, [child])
        ports = listening_of(child.pid)
        # Four roles' listeners, five targets, five local endpoints, the port of the names, and the
        # local endpoint of the database.
        self.assertEqual(len(ports), 17 if find_programs() else 16)
        config = child.text().partition("--config ")[2].split()[0].replace("ada/client", "all")
        before = self.settled(config, home)
        told = as_stranger(lambda: [knock(port) for port in ports])
        self.assertEqual([one for one in told if one not in NOTHING], [])
        self.assertEqual(self.audited(config, home), before)

    def settled(self, config: str, home: Path) -> int:
        """As :meth:`audited`, once the records of what the demo has shown have all come."""
        counts = [-1]

        def is_still() -> bool:
            counts.append(self.audited(config, home))
            return counts[-1] == counts[-2]

        # Each look takes longer than the Proxy keeps a record back.
        until("the demo's records", is_still)
        return counts[-1]

    def audited(self, config: str, home: Path) -> int:
        """How many records the demo's log holds."""
        words = svc_command("--config", config, "authority", "status", "--json")
        found: int = run(words, home).checked().json["audit_seq"]
        return found

"""The resident: local endpoints that follow the list, and who gets in."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.addresses import addresses
from svc.client.resident.local import TcpGuard, TcpPorts
from svc.client.resident.refused import RecentRefusals
from svc.client.resident.service import Place, Resident
from svc.errors import Denied, SvcError, Unavailable
from svc.messages.session import Listed
from svc.runtime.services import BackgroundTasks
from tests.client.memory import DECISION, Gate, Listening, LocalTransport
from tests.kinds.served import ssh, tcp
from tests.support.proof import proves

UID, OTHER = 1000, 1001
CLUSTER = "c1.example.test"


class Sockets:
    """A directory of sockets that is only a name."""

    path = Path("run")

    def address(self, name: str) -> str:
        return f"run/{name}"

    def show_to_libpq(self, name: str) -> Path:
        return self.path / name

    def hide_from_libpq(self, name: str) -> None:
        pass


def listed(*names: str, kind: str = "tcp", served: bool = True, **labels: str) -> dict[str, Listed]:
    return {name: Listed(id=name, kind=kind, labels=labels, served=served) for name in names}


class ResidentCase(SynchronousTestCase):
    """A resident over memory."""

    tcp_open = True

    def setUp(self) -> None:
        self.gate = Gate()
        self.listening = Listening()
        self.asking: int | None = UID
        self.holder: int | None = None
        self.moves: list[str] = []
        self.tasks = BackgroundTasks()
        self.refusals = RecentRefusals(lambda: 5.0)
        self.state = Path(self.mktemp())
        self.state.mkdir(mode=0o700)
        self.resident = self.make()
        self.addCleanup(self.end)

    def end(self) -> None:
        self.tasks.stopService()
        self.gate.turn()

    def make(self) -> Resident:
        sockets: Any = Sockets()
        resident = Resident(
            place=Place(
                cluster=CLUSTER, uid=UID, state=self.state, offset=10000, tcp=self.tcp_open
            ),
            kinds={"tcp": tcp, "ssh": ssh},
            dialer=self.gate.dialer,
            tcp_ports=TcpPorts(self.listening.tcp, lambda address, port: self.holder, UID),
            tcp_guard=TcpGuard(UID, lambda here, peer: self.asking),
            sockets=sockets,
            unix_endpoint=self.listening.unix,
            refusals=self.refusals,
            tasks=self.tasks,
            moved=self.moved,
        )
        self.successResultOf(resident.startService())
        return resident

    async def moved(self) -> None:
        self.moves.append("moved")
        self.gate.pair.server.wire.is_going_away = False

    def address(self, name: str) -> str:
        return addresses(CLUSTER, UID, [name])[name]

    def connected(self, name: str = "db1", port: int = 15432) -> LocalTransport:
        self.resident.listed(listed(name, port=str(port - 10000)))
        transport = self.listening.connect((self.address(name), port))
        self.gate.turn()
        return transport


class ResidentTests(ResidentCase):
    @proves("G-OPEN-63")
    def test_endpoints(self) -> None:
        """Each resource stands at its own address, at its native port plus the offset."""
        self.resident.listed({**listed("db1", port="5432"), **listed("host1", kind="ssh")})
        found = {one.resource: one for one in self.resident.endpoints}
        self.assertEqual(found["db1"].address, f"{self.address('db1')}:15432")
        self.assertEqual(found["host1"].address, f"{self.address('host1')}:10022")
        self.assertEqual(found["db1"].socket, "run/db1.sock")
        self.assertEqual((found["db1"].kind, found["db1"].problem), ("tcp", ""))
        self.assertEqual(len(self.listening.factories), 4)

    def test_follows(self) -> None:
        """What may no longer be viewed is closed, what came is opened, the rest stays."""
        self.resident.listed(listed("db1", "db2", port="1"))
        kept = self.listening.factories["run/db2.sock"]
        self.resident.listed(listed("db2", "db3", port="1"))
        self.assertEqual([one.resource for one in self.resident.endpoints], ["db2", "db3"])
        self.assertIs(self.listening.factories["run/db2.sock"], kept)
        self.assertNotIn("run/db1.sock", self.listening.factories)

    def test_another_port(self) -> None:
        """A resource whose port changed is opened there, and nowhere else."""
        self.resident.listed(listed("db1", port="1"))
        self.resident.listed(listed("db1", port="2"))
        self.assertEqual(self.resident.endpoints[0].address, f"{self.address('db1')}:10002")
        self.assertEqual(len(self.listening.factories), 2)

    def test_a_file_that_cannot_be_written(self) -> None:
        """What the disk did not take is written once it does."""
        blocked = self.state / "endpoints.json"
        blocked.mkdir()
        (blocked / "x").touch()
        self.resident.listed(listed("db1", port="1"))
        self.retry()
        self.assertTrue(blocked.is_dir())
        (blocked / "x").unlink()
        blocked.rmdir()
        self.retry()
        kept = json.loads(blocked.read_text("utf-8"))
        self.assertEqual([one["resource"] for one in kept["endpoints"]], ["db1"])

    def test_the_rest_of_a_list(self) -> None:
        """What comes behind an endpoint that could not be looked at is opened at the next try."""

        def failing(address: str, port: int) -> int:
            raise OSError(errno.EPERM, "no")

        busy = OSError(errno.EADDRINUSE, "in use")
        self.listening.busy[self.address("db1"), 10001] = busy
        whose, self.resident.tcp_ports.whose = self.resident.tcp_ports.whose, failing
        self.resident.listed(listed("db1", "db2", port="1"))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.resident.tcp_ports.whose = whose
        self.retry()
        self.assertEqual([one.resource for one in self.resident.endpoints], ["db1", "db2"])

    def retry(self) -> None:
        """What is done again and again."""
        self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))

    def test_served(self) -> None:
        """Whether a resource is served now is shown without opening anything again."""
        self.resident.listed(listed("db1", port="1"))
        kept = self.listening.factories["run/db1.sock"]
        self.resident.listed(listed("db1", served=False, port="1"))
        self.assertFalse(self.resident.endpoints[0].served)
        self.assertIs(self.listening.factories["run/db1.sock"], kept)

    def test_names_of_a_bad_proxy(self) -> None:
        """A name that is no resource's, or of an unknown kind, opens nothing and names no file."""
        self.resident.listed({**listed("../../evil", "A B", ""), **listed("x", kind="other")})
        self.assertEqual(self.listening.factories, {})
        self.assertEqual([one.resource for one in self.resident.endpoints], ["x"])

    def test_a_kind_that_is_not_enabled(self) -> None:
        """A resource of such a kind is shown with the line that enables it; others are served."""
        self.resident.listed({**listed("orders", kind="postgres"), **listed("db1")})
        served, shown = self.resident.endpoints
        self.assertEqual((served.resource, served.problem), ("db1", ""))
        self.assertEqual((shown.resource, shown.address, shown.socket), ("orders", "", ""))
        self.assertIn("its kind postgres is not enabled", shown.problem)
        self.assertIn('plugins.kinds = ["postgres", "ssh", "tcp"]', shown.problem)
        self.assertIn("client.toml", shown.problem)
        kept = json.loads((self.state / "endpoints.json").read_text("utf-8"))
        self.assertEqual([one["resource"] for one in kept["endpoints"]], ["db1"])
        self.resident.listed(listed("db1"))
        self.assertEqual([one.resource for one in self.resident.endpoints], ["db1"])

    def test_session(self) -> None:
        """A local connection is a session of its own, and bytes pass both ways."""
        local = self.connected()
        side: Any = local.protocol
        side.dataReceived(b"hello")
        self.gate.turn()
        self.assertEqual(self.gate.far[0].received, b"hello")
        self.gate.far[0].transport.write(b"world")
        self.gate.turn()
        self.assertEqual(local.value(), b"world")
        self.assertEqual(self.resident.sessions, 1)
        self.gate.far[0].transport.loseConnection()
        self.gate.turn()
        side.readConnectionLost()
        self.gate.turn()
        self.assertTrue(local.gone)
        self.assertFalse(local.aborted)
        self.assertEqual(self.resident.sessions, 0)

    def test_unread_before_the_session(self) -> None:
        """Nothing is read from a program before its session stands."""
        self.gate.silent = True
        local = self.connected()
        self.assertEqual(local.producerState, "paused")

    def test_another_user(self) -> None:
        """Another user's connection is reset: nothing is read and no session is asked for."""
        for uid in (OTHER, 0, None):
            self.asking = uid
            local = self.connected()
            self.assertTrue(local.aborted, uid)
            self.assertEqual(local.producerState, "paused")
        self.assertEqual(self.gate.requests, [])

    def test_kernel_does_not_say(self) -> None:
        """Where the kernel fails to say whose it is, nobody gets in."""

        def failing(here: object, peer: object) -> int:
            raise OSError(errno.EPERM, "no")

        self.resident.tcp_guard = TcpGuard(UID, failing)
        self.assertTrue(self.connected().aborted)
        self.assertEqual(self.gate.requests, [])

    def test_denied(self) -> None:
        """A refused session resets the connection; why is kept with its decision."""
        self.gate.refuse = Denied("access denied", details={"decision_id": DECISION})
        local = self.connected()
        self.assertTrue(local.aborted)
        (kept,) = self.refusals.kept
        self.assertEqual((kept.resource, kept.reason), ("db1", "denied"))
        self.assertEqual(kept.decision_id, DECISION)

    def test_no_proxy(self) -> None:
        """While there is no Proxy, connections are reset at once."""
        no_proxy = Unavailable("no Proxy", reason="proxy_unreachable")

        def none() -> Any:
            raise no_proxy

        self.gate.dialer.channel = none
        self.assertTrue(self.connected().aborted)
        self.assertEqual(self.refusals.kept[0].reason, "proxy_unreachable")

    def test_draining_proxy(self) -> None:
        """A Proxy that leaves and did nothing for a session costs none: the next one is asked."""
        self.gate.pair.server.wire.is_going_away = True
        local = self.connected()
        self.assertFalse(local.aborted)
        self.assertEqual((self.moves, len(self.gate.requests)), (["moved"], 1))
        self.assertEqual(len(self.refusals.kept), 0)

    def test_told_of_a_drain(self) -> None:
        """What a Proxy only tells of another connection is no reason to ask again."""
        self.gate.refuse = SvcError("no further call", reason="going_away")
        self.assertTrue(self.connected().aborted)
        self.assertEqual((self.moves, len(self.gate.requests)), ([], 1))
        self.assertEqual(self.refusals.kept[0].reason, "going_away")

    def test_one_that_is_retried(self) -> None:
        """What is tried again and again is one entry and one line, though its text changes."""
        with capturedLogs() as logs:
            for second in range(60):
                text = f"too many requests; try again in {second} s"
                self.refusals.note("db1", SvcError(text, reason="too_many_requests"))
        (kept,) = self.refusals.kept
        self.assertEqual((kept.count, kept.text), (60, "too many requests; try again in 59 s"))
        self.assertEqual(len(logs), 1)

    def test_held_port(self) -> None:
        """A port that another user holds is reported and not moved."""
        self.holder = OTHER
        busy = OSError(errno.EADDRINUSE, "in use")
        self.listening.busy[(self.address("db1"), 15432)] = busy
        self.resident.listed(listed("db1", port="5432"))
        (endpoint,) = self.resident.endpoints
        self.assertEqual(endpoint.address, "")
        self.assertIn("another user", endpoint.problem)
        self.assertEqual(list(self.listening.factories), ["run/db1.sock"])

    def test_freed_port(self) -> None:
        """A port that another user held is opened, logged and shown once it is free."""
        self.holder = OTHER
        place = (self.address("db1"), 15432)
        self.listening.busy[place] = OSError(errno.EADDRINUSE, "in use")
        self.resident.listed(listed("db1", port="5432"))
        kept = self.listening.factories["run/db1.sock"]
        self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        self.assertEqual(list(self.listening.factories), ["run/db1.sock"])
        del self.listening.busy[place]
        with capturedLogs() as events:
            self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        (endpoint,) = self.resident.endpoints
        self.assertEqual((endpoint.address, endpoint.problem), (f"{place[0]}:15432", ""))
        self.assertIs(self.listening.factories["run/db1.sock"], kept)
        (event,) = [each for each in events if each["log_namespace"] == "svc_client"]
        self.assertEqual(event["log_format"], "local endpoint available again")
        self.assertEqual((event["resource"], event["address"]), ("db1", endpoint.address))
        told = json.loads((self.state / "endpoints.json").read_text())["endpoints"][0]
        self.assertEqual((told["address"], told["problem"]), (endpoint.address, ""))

    def test_freed_socket(self) -> None:
        """A unix socket that could not be opened is tried again beside a port that is open."""
        self.listening.busy["run/db1.sock"] = OSError(errno.ENOSPC, "disk full")
        self.resident.listed(listed("db1", port="5432"))
        (before,) = self.resident.endpoints
        self.assertIn("disk full", before.problem)
        del self.listening.busy["run/db1.sock"]
        self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        (endpoint,) = self.resident.endpoints
        self.assertEqual((endpoint.socket, endpoint.problem), ("run/db1.sock", ""))
        self.assertEqual(endpoint.address, before.address)
        self.assertEqual(len(self.listening.factories), 2)

    def test_quiet_while_held(self) -> None:
        """A port that stays held is logged once, however often it is tried."""
        self.holder = OTHER
        self.listening.busy[(self.address("db1"), 15432)] = OSError(errno.EADDRINUSE, "in use")
        self.resident.listed(listed("db1", port="5432"))
        with capturedLogs() as events:
            self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
            self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        self.assertEqual(events, [])

    def test_no_retry_after_a_stop(self) -> None:
        """A stopped resident opens nothing."""
        self.holder = OTHER
        place = (self.address("db1"), 15432)
        self.listening.busy[place] = OSError(errno.EADDRINUSE, "in use")
        self.resident.listed(listed("db1", port="5432"))
        self.successResultOf(self.resident.stopService())
        del self.listening.busy[place]
        self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        self.assertEqual(self.listening.factories, {})

    @proves("G-OPEN-63")
    def test_our_own_port(self) -> None:
        """A port that we hold ourselves gives way to the next free one."""
        self.holder = UID
        busy = OSError(errno.EADDRINUSE, "in use")
        self.listening.busy[(self.address("db1"), 15432)] = busy
        self.resident.listed(listed("db1", port="5432"))
        self.assertEqual(self.resident.endpoints[0].address, f"{self.address('db1')}:15433")

    @proves("G-LIM-04")
    def test_low_port(self) -> None:
        """A port that needs a privilege says so, and names the key that helps."""
        denied = OSError(errno.EACCES, "denied")
        self.listening.busy[(self.address("host1"), 10022)] = denied
        self.resident.listed(listed("host1", kind="ssh"))
        self.assertIn("client.native_port_offset", self.resident.endpoints[0].problem)

    @proves("G-OPEN-63")
    def test_high_port(self) -> None:
        """A resource at port 60000 is reachable, though the offset leads past the last port."""
        self.resident.listed(listed("db1", port="60000"))
        port = int(self.resident.endpoints[0].address.rpartition(":")[2])
        self.assertTrue(1024 <= port <= 65535)

    def test_file(self) -> None:
        """Other programs find the endpoints in a file of version 2, readable by us alone."""
        self.resident.listed(listed("db1", port="5432"))
        path = self.state / "endpoints.json"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        told = json.loads(path.read_text())
        self.assertEqual((told["version"], told["cluster"]), (2, CLUSTER))
        self.assertEqual(told["endpoints"][0]["address"], f"{self.address('db1')}:15432")

    def test_same_address_next_time(self) -> None:
        """A resource that had to take another's place stays there after a restart."""
        self.resident.listed(listed("db1", port="1"))
        path = self.state / "endpoints.json"
        told = json.loads(path.read_text())
        told["endpoints"][0]["address"] = "127.99.9.9:10001"
        path.write_text(json.dumps(told))
        again = self.make()
        again.listed(listed("db1", port="7"))
        self.assertEqual(again.endpoints[0].address, "127.99.9.9:10007")

    def test_stop(self) -> None:
        """A stop closes every port and ends every session; nothing opens afterwards."""
        local = self.connected()
        self.successResultOf(self.resident.stopService())
        self.gate.turn()
        self.assertEqual(self.listening.factories, {})
        self.assertTrue(local.gone)
        self.resident.listed(listed("db2", port="1"))
        self.assertEqual(self.listening.factories, {})


class NoTcpTests(ResidentCase):
    """Where the platform cannot tell whose connection it is."""

    tcp_open = False

    def test_only_sockets(self) -> None:
        """There are sockets and no ports, and the reason is shown."""
        self.resident.listed(listed("db1", port="1"))
        (endpoint,) = self.resident.endpoints
        self.assertEqual((endpoint.address, endpoint.socket), ("", "run/db1.sock"))
        self.assertIn("cannot report", endpoint.problem)
        self.successResultOf(Deferred.fromCoroutine(self.resident.retry()))
        self.assertEqual(self.resident.endpoints, (endpoint,))

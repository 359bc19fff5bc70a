"""Sessions of stock tools through a gateway of four processes, and through ``svc all``."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import re
import resource
import select
import shlex
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import ExitStack, closing
from fcntl import ioctl
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import (
    Child,
    Ran,
    environment,
    run,
    svc_command,
    until,
)
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.targets import answer_of, blocks, digest_of
from tests.system.world import World, sshd, world

MIB = 1 << 20
IS_LONG = os.environ.get("SVC_LONG") == "1"
STALL_SECS = 30.0 if IS_LONG else 3.0
MOST_RESIDENT = 2 * MIB
SESSIONS_OF_A_TUNNEL = 32
SESSIONS_ELSEWHERE = SESSIONS_OF_A_TUNNEL if IS_LONG else 8
"""In the other layouts, which differ in the processes and lanes and not in the tunnel."""

_DECISION = re.compile(r"svc why ([0-9a-f]{32})")


def received(peer: socket.socket, at_once: int = MIB) -> Iterator[bytes]:
    """Everything until the other side ends its writing."""
    while piece := peer.recv(at_once):
        yield piece


def digest_from(peer: socket.socket) -> tuple[int, str]:
    """Count and SHA-256 of everything until the other side ends its writing."""
    digest, count = hashlib.sha256(), 0
    for piece in received(peer):
        digest.update(piece)
        count += len(piece)
    return count, digest.hexdigest()


class Sessions:
    """What is shown over every layout; each class below names its own."""

    layout: str

    @property
    def world(self) -> World:
        return world(self.layout)

    def much(self, size: int) -> int:
        """All of it through four processes and in the long form, else an eighth."""
        return size if IS_LONG or self.layout == "four" else size // 8

    def ssh(self, *words: str, seconds: float = 60.0) -> Ran:
        """Run stock ssh through ``svc proxy-ssh``."""
        world = self.world
        return run([*sshd().tool("ssh", world.person), *words], world.person.home, seconds=seconds)

    @proves("U-PHA-27")
    def test_ssh_runs_a_command_behind_the_gateway(self: Any) -> None:
        """Stock ssh with svc as its ProxyCommand brings a command's output and status back."""
        stock_tool("sshd")
        done = self.ssh("host", "printf out; printf err >&2; exit 7")
        self.assertEqual((done.status, done.stdout), (7, "out"), done.stderr)
        self.assertIn("err", done.stderr)
        self.assertRegex(done.stderr, "svc: host: session open, decision [0-9a-f]{32}")

    def test_ssh_with_its_account(self: Any) -> None:
        """The ProxyCommand of a host whose SSH ends at the Connector serves this one as well."""
        stock_tool("sshd")
        person = self.world.person
        ssh, *options = sshd().tool("ssh", person)
        first = f"-oProxyCommand={person.proxy_command('--user', '%r')}"
        done = run([ssh, first, *options, "host", "printf out"], person.home)
        self.assertEqual((done.status, done.stdout), (0, "out"), done.stderr)

    def test_curl_fetches_a_page(self: Any) -> None:
        """Stock curl reads a web page through the resident's port."""
        host, port = self.world.person.endpoint("web")
        words = [stock_tool("curl"), "-sS", "--noproxy", "*", f"http://{host}:{port}/page.txt"]
        done = run(words, self.world.person.home).checked()
        self.assertEqual(done.stdout, "a page behind the gateway\n")

    def test_netcat_half_closes(self: Any) -> None:
        """The end of nc's input reaches the target, whose answer still comes back."""
        host, port = self.world.person.endpoint("sink")
        words = [stock_tool("nc"), "-N", host, str(port)]
        sent = b"".join(blocks(3 * MIB))
        done = run(words, self.world.person.home, stdin=sent).checked()
        self.assertEqual(done.stdout, answer_of(3 * MIB))

    @proves("G-ROLE-15")
    def test_a_large_upload_arrives_whole(self: Any) -> None:
        """128 MB from the person's side are 128 MB at the target, by SHA-256."""
        size = self.much(128 * MIB)
        with closing(self.world.connect("sink")) as peer:
            for block in blocks(size):
                peer.sendall(block)
            peer.shutdown(socket.SHUT_WR)
            self.assertEqual(b"".join(received(peer)).decode(), answer_of(size))

    @proves("G-ROLE-15")
    def test_a_large_download_arrives_whole(self: Any) -> None:
        """128 MB from the target are 128 MB at the person's side, by SHA-256."""
        size = self.much(128 * MIB)
        with closing(self.world.connect("source")) as peer:
            peer.sendall(f"{size}\n".encode())
            self.assertEqual(digest_from(peer), (size, digest_of(size)))

    def test_a_stalled_reader_holds_back_the_sender(self: Any) -> None:
        """While a person does not read, the target is held back, no process grows, nothing is lost.

        The same session idle is the measure, after one that carried data has
        come and gone: what a process needs once is not the stall's.
        """
        world, size = self.world, 160 * MIB  # Half of it is more than the kernels on the way hold.
        with closing(world.connect("source")) as peer:
            peer.sendall(b"%d\n" % (4 * MIB))
            self.assertEqual(digest_from(peer)[0], 4 * MIB)
        before = world.around.sent()
        with closing(world.connect("source")) as peer:
            self._await_session()
            idle = {child.name: child.rss() for child in world.gateway.everyone}
            peer.sendall(f"{size}\n".encode())
            sent = self._await_still(world, STALL_SECS) - before
            grown = {child.name: child.rss() - idle[child.name] for child in world.gateway.everyone}
            self.assertLess(sent, size / 2)
            self.assertLessEqual(max(grown.values()), MOST_RESIDENT, grown)
            self.assertEqual(digest_from(peer), (size, digest_of(size)))

    def _await_session(self) -> None:
        gateway = self.world.gateway
        gateway.await_metric("proxy", "svc_active_sessions", 1)

    def _await_still(self: Any, world: World, seconds: float) -> int:
        """What the sources have sent, once they have sent nothing for *seconds*."""
        last, since = world.around.sent(), monotonic()

        def is_still() -> bool:
            nonlocal last, since
            now = world.around.sent()
            if now != last:
                last, since = now, monotonic()
            return monotonic() - since >= seconds

        until("the source is held back", is_still, seconds + 30)
        return last

    @proves("G-SES-01")
    def test_a_denied_port_resets(self: Any) -> None:
        """A tool on a closed resource's port is reset; the resident and the operator know why."""
        world = self.world
        denied = partial(
            world.gateway.metric, "proxy", "svc_request_authorize_total", decision="deny"
        )
        before = denied(kind="connect")
        self.assertRaises(ConnectionResetError, self._use_of, "vault")
        refused = world.person.refused("vault")
        self.assertEqual((refused["reason"], refused["policies"]), ("denied", ["closed"]))
        self.assertEqual(denied(kind="connect"), before + 1)
        (record,) = world.gateway.decision(refused["decision_id"])
        self.assertEqual((record["decision"], record["resource_id"]), ("deny", "vault"))
        for word in (refused["decision_id"], refused["decision_id"][:12].upper()):
            explained = world.person.svc("why", word).checked()
            self.assertIn("closed", explained.stdout)
        self.assertIn(refused["decision_id"], explained.stdout)

    def _use_of(self, resource: str) -> None:
        # A reset may come before the connecting itself is over.
        with closing(self.world.connect(resource)) as peer:
            self._use(peer)

    def _use(self, peer: socket.socket) -> None:
        for _ in range(100):
            peer.sendall(b"anything")
            if not peer.recv(100):
                raise AssertionError("closed, not reset")

    @proves("G-MET-11", "G-MET-12")
    def test_series_follow_sessions(self: Any) -> None:
        """A session moves the series of decisions and sessions, and its end takes gauges to 0."""
        gateway = self.world.gateway
        gateway.await_metric("proxy", "svc_active_sessions", 0)
        until("no session's row is open", lambda: gateway.status()["open_sessions"] == 0)
        counted = (
            ("proxy", "svc_sessions_total", {"protocol": "tcp"}),
            ("proxy", "svc_request_authorize_total", {"kind": "connect", "decision": "allow"}),
            ("authority", "svc_authorize_total", {"action": "connect", "decision": "allow"}),
            ("authority", "svc_authorize_duration_seconds_count", {"action": "connect"}),
        )
        before = [gateway.metric(role, name, **labels) for role, name, labels in counted]
        with closing(self.world.connect("echo")) as peer:
            peer.sendall(b"hello")
            self.assertEqual(peer.recv(5), b"hello")
            gateway.await_metric("proxy", "svc_active_sessions", 1, protocol="tcp")
            self.assertEqual(gateway.status()["open_sessions"], 1)
        gateway.await_metric("proxy", "svc_active_sessions", 0, protocol="tcp")
        until("the session's row is ended", lambda: gateway.status()["open_sessions"] == 0)
        after = [gateway.metric(role, name, **labels) for role, name, labels in counted]
        self.assertEqual([now - then for now, then in zip(after, before, strict=True)], [1.0] * 4)

    def test_the_log_of_all_this_verifies(self: Any) -> None:
        """The audit log's chain verifies beside the running gateway."""
        self.assertIn("verified", self.world.gateway.verify())


class EverySession(Sessions):
    """What does not depend on the layout: shown over four processes, in the long form over all."""

    @proves("U-PHA-27")
    def test_the_notice_is_not_in_the_bytes(self: Any) -> None:
        """A file that ssh brings with its stderr thrown away is the file, byte for byte."""
        stock_tool("sshd")
        world = self.world
        file = Path(os.path.abspath(self.mktemp()))
        file.write_bytes(b"".join(blocks(MIB)))
        words = shlex.join([*sshd().tool("ssh", world.person), "host", f"cat {file}"])
        done = run(["sh", "-c", f"{words} 2>/dev/null | sha256sum"], world.person.home)
        self.assertEqual(done.stdout.split()[0], hashlib.sha256(file.read_bytes()).hexdigest())

    def test_ssh_is_interactive(self: Any) -> None:
        """A person at a terminal gets the far shell's terminal, of the same size."""
        stock_tool("sshd")
        here, there = pty.openpty()
        ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        world = self.world
        words = [*sshd().tool("ssh", world.person), "-tt", "host"]
        process = subprocess.Popen(
            words,
            stdin=there,
            stdout=there,
            stderr=subprocess.DEVNULL,
            env=environment(world.person.home, {"TERM": "dumb"}),
            start_new_session=True,
        )
        os.close(there)
        self.addCleanup(process.kill)
        self.addCleanup(os.close, here)
        os.write(here, b"stty size; echo $((40+2)); exit 3\n")
        said = self._read_terminal(here)
        self.assertIn(b"33 77", said)
        self.assertIn(b"\n42\r", said)
        self.assertEqual(process.wait(20), 3)

    def _read_terminal(self, terminal: int) -> bytes:
        """What a terminal shows until its other end is closed."""
        said, end = b"", monotonic() + 30
        while select.select([terminal], [], [], max(0.0, end - monotonic()))[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # EIO: nobody has the other end any more
                break
            said += piece
        return said

    def test_scp_copies_a_large_file(self: Any) -> None:
        """A file of 20 MB (100 MB in the long form) copied by stock scp arrives byte for byte."""
        stock_tool("sshd")
        world, size = self.world, self.much(100 * 1000 * 1000 if IS_LONG else 20 * 1000 * 1000)
        source, copy = (world.person.home / f"{name}.bin" for name in ("source", "copy"))
        self.addCleanup(copy.unlink, missing_ok=True)
        self.addCleanup(source.unlink)
        with source.open("wb") as file:
            file.writelines(blocks(size))
        words = [*sshd().tool("scp", world.person), "-q", str(source), f"host:{copy}"]
        run(words, world.person.home, seconds=60).checked()
        self.assertEqual(self._digest_of(copy), digest_of(size))

    def _digest_of(self, path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def test_stalled_sessions_leave_the_tunnel_to_others(self: Any) -> None:
        """Beside 32 sessions nobody reads, a 33rd on the same tunnel carries 16 MB."""
        world, size = self.world, 16 * MIB
        stalling = SESSIONS_OF_A_TUNNEL if self.layout == "four" else SESSIONS_ELSEWHERE
        with ExitStack() as stack:
            for _ in range(stalling):
                stalled = stack.enter_context(closing(world.connect("source")))
                stalled.sendall(b"%d\n" % (64 * MIB))
            self._await_still(world, 1.0)
            started = monotonic()
            with closing(world.connect("source", 30)) as peer:
                peer.sendall(f"{size}\n".encode())
                self.assertEqual(digest_from(peer), (size, digest_of(size)))
            self.assertLess(monotonic() - started, 30)

    def test_a_denied_ssh_is_told_why(self: Any) -> None:
        """ssh to a closed host ends with reason and decision id on stderr, nothing on stdout."""
        world = self.world
        denied = run(
            ["sh", "-c", world.person.proxy_command(name="jail")], world.person.home, stdin=b"SSH-"
        )
        self.assertEqual((denied.status, denied.stdout), (1, ""))
        self.assertIn("reason denied", denied.stderr)
        self.assertIn("policies closed", denied.stderr)
        decision = self._decision_in(denied.stderr)
        self.assertEqual(world.gateway.decision(decision)[0]["decision"], "deny")

    def test_stock_ssh_shows_the_denial(self: Any) -> None:
        """What svc says of a denial is what the person sees from ssh, whose status is not 0."""
        stock_tool("sshd")
        denied = self.ssh("jail", "true")
        self.assertEqual((denied.status, denied.stdout), (255, ""))
        self.assertIn("policies closed", denied.stderr)

    def _decision_in(self, text: str) -> str:
        found = _DECISION.search(text)
        assert found is not None, text
        return str(found[1])

    def test_a_target_that_does_not_answer_is_told(self: Any) -> None:
        """Where the target refuses the connection the port resets, and the reason names it."""
        self.assertRaises(ConnectionResetError, self._use_of, "gone")
        self.assertTrue(self.world.person.refused("gone")["reason"])

    @proves("G-MET-04")
    def test_series_name_nobody_and_nothing(self: Any) -> None:
        """No series of any role holds a resource, a person, a node or a session."""
        gateway = self.world.gateway
        with closing(self.world.connect("echo")) as peer:
            peer.sendall(b"hello")
            self.assertEqual(peer.recv(5), b"hello")
        names = [target.id for target in self.world.around.resources if target.id != "web"]
        names += [self.world.person.status()["person"], gateway.status()["authority_id"]]
        names += [row["id"] for row in gateway.operator("nodes", "list", "--json").json]
        for role in ("authority", "proxy", "connector"):
            exposed = gateway.get(role, "/metrics")[1]
            values = re.findall(r'="([^"]*)"', exposed)
            self.assertEqual([value for value in values if value in names], [])

    @proves("G-CLI-24")
    def test_resources_are_listed_with_their_places(self: Any) -> None:
        """`svc resources list` shows what the person may view, each at its own address."""
        listed = self.world.person.listed()
        names = {one["resource"] for one in listed}
        kinds = {one["resource"]: one["kind"] for one in listed}
        self.assertEqual((kinds["echo"], kinds["host"]), ("tcp", "ssh"))
        self.assertEqual(names, {"echo", "sink", "source", "web", "vault", "gone", "host", "jail"})
        self.assertEqual(len({one["address"] for one in listed}), len(names))


_Elsewhere: type[Sessions] = EverySession if IS_LONG else Sessions


@proves("G-ROLE-01", "G-ROLE-14", "G-CLI-02", "X-34")
class FourProcesses(EverySession, SynchronousTestCase):
    """Authority, Proxy, Connector and resident, each a process."""

    layout = "four"

    @proves("G-CLI-21")
    def test_a_second_resident_is_refused(self) -> None:
        """`svc up`, named a configuration or not, says that one runs already."""
        person = self.world.person
        for words in (("up",), ("--config", str(person.directory / "client.toml"), "up")):
            second = person.svc(*words)
            self.assertNotEqual(second.status, 0)
            self.assertIn("already running", second.stderr)

    @proves("U-NOTE-16", "G-LIM-04")
    def test_a_named_configuration(self) -> None:
        """`svc --config FILE up` serves ssh on its native port moved by the default offset.

        What its log says to type of a denial works as it stands, where nobody has joined at home.
        """
        person = self.world.person
        assert person.resident is not None
        person.resident.stop()
        elsewhere = Path(mkdtemp())
        self.addCleanup(rmtree, elsewhere)
        named = Child(
            name="up-named",
            words=svc_command("--config", str(person.directory / "client.toml"), "up"),
            home=elsewhere,
            log=person.home / "up-named.log",
        )
        self.addCleanup(person.up, "host")
        self.addCleanup(named.end)
        named.start()
        log = named.log
        until("ssh's endpoint", lambda: ":10022" in log.read_text("utf-8"), 30, [named])
        (host,) = (one for one in person.status()["endpoints"] if one["resource"] == "host")
        self.assertEqual(host["address"].rpartition(":")[2], "10022")
        jail = until("jail's endpoint", partial(self._address, "jail"), alive=[named])
        with contextlib.suppress(OSError), socket.create_connection(jail, 10) as refused:
            refused.recv(1)
        said = until("the refusal", lambda: re.search('to_see_why="(svc .*?)"', log.read_text()))
        self.assertTrue(said[1].endswith(f" --dir {person.directory}"), said[1])
        told = run(svc_command(*shlex.split(said[1])[1:]), elsewhere).checked().stdout
        self.assertRegex(told, r"policies +closed\n")

    def _address(self, resource: str) -> tuple[str, int] | None:
        """Where a resource is at the person's side, once it is there."""
        (one,) = (x for x in self.world.person.status()["endpoints"] if x["resource"] == resource)
        host, _, port = (one["address"] or "").rpartition(":")
        return (host, int(port)) if port else None


class DirectLanes(_Elsewhere, SynchronousTestCase):  # type: ignore[misc,valid-type]
    """Four processes again, and every session moves to a direct lane with its first bytes."""

    layout = "lanes"

    def test_sessions_did_move(self) -> None:
        """A session that is open has a lane of its own, and what it says goes there."""
        before = self._joined()
        refused = self._lanes("refused")
        with closing(self.world.connect("echo")) as peer:
            peer.sendall(b"hello")
            self.assertEqual(peer.recv(5), b"hello")
            until("a lane is joined", lambda: self._joined() > before)
            peer.sendall(b"there")
            self.assertEqual(peer.recv(5), b"there")
        self.assertEqual(self._lanes("refused"), refused)

    def _joined(self) -> float:
        return self._lanes("joined")

    def _lanes(self, outcome: str) -> float:
        return float(self.world.gateway.metric("proxy", "svc_direct_lanes_total", outcome=outcome))


@proves("G-ROLE-01")
class OneProcess(_Elsewhere, SynchronousTestCase):  # type: ignore[misc,valid-type]
    """``svc all``, and the resident."""

    layout = "all"

    @proves("G-ROLE-02")
    def test_told_to_go_it_ends_with_0(self) -> None:
        """SIGTERM ends `svc all` with 0 though a session is open; the resident comes back to it."""
        gateway = self.world.gateway
        with closing(self.world.connect("echo")) as peer:
            peer.sendall(b"hello")
            self.assertEqual(peer.recv(5), b"hello")
            self.assertEqual(gateway.child("all").stop(), 0)
        gateway.start("all")
        gateway.await_tunnels(1)
        until("a session opens", self._echoes)

    @proves("G-OPEN-38")
    def test_ready_as_its_authority_is(self) -> None:
        """`svc all` is ready only while its store takes what is written to it."""
        gateway = self.world.gateway
        child = gateway.child("all")
        self.assertEqual(gateway.get("all", "/readyz"), (200, "ready\n"))

        def said(status: int, word: str) -> bool:
            found, body = gateway.get("all", "/readyz")
            return found == status and word in body

        before = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            until("its store takes nothing", lambda: said(503, "store_full"), 30, [child])
        finally:
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, before)
        until("it is ready", lambda: said(200, "ready"), 30, [child])
        until("a session opens", self._echoes, 30, [child])

    def _echoes(self) -> bool:
        """Whether a new session carries bytes now."""
        try:
            with closing(self.world.connect("echo")) as peer:
                peer.sendall(b"again")
                return bool(peer.recv(5) == b"again")
        except ConnectionResetError:
            return False

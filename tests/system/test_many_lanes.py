"""Many direct lanes through a whole gateway: what idle ones hold, and busy ones without pipes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import selectors
import shutil
import socket
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

from attrs import define, field
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from svc.lanes.pipes import PIPE_BYTES
from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.processes import Child, until
from svc.testing.gateway.settings import PROXY, GatewayTarget
from tests.system.kernel import sockets_of
from tests.system.world import around

RUN_BY = "make fault"

IS_LONG = os.environ.get("SVC_LONG") == "1"
IDLE, BUSY = (1000, 200) if IS_LONG else (100, 20)
SIZE = 1 << 20 if IS_LONG else 1 << 18
FULL = os.urandom(1_000_003) * 256
"""More than eight connections' buffers in the kernel, 10 MB each at most, and our own."""

STILL_SECS = 0.5
LONG_SECS = 120.0
NUMBERS = {"limits.max_sessions_per_person": 2 * (IDLE + BUSY)}
JOINED = "svc_direct_lanes_total"
HALVES_AT_ONCE = 8
"""Well below what a person may have on their way: who asks beyond that stays in the tunnel."""


@define(eq=False)
class Echoed:
    """What one session sends, and what has come back of it."""

    peer: socket.socket
    sent: bytes
    gone: int = 0
    back: bytearray = field(factory=bytearray)

    def work(self, events: int) -> bool:
        """Go on as far as may be; whether all is back."""
        if events & selectors.EVENT_READ:
            piece = self.peer.recv(1 << 18)
            if not piece:
                raise AssertionError(f"ended after {len(self.back)} of {len(self.sent)} bytes")
            self.back += piece
        if events & selectors.EVENT_WRITE:
            with contextlib.suppress(BlockingIOError):
                self.gone += self.peer.send(memoryview(self.sent)[self.gone : self.gone + 65_536])
        return len(self.back) >= self.gone == len(self.sent)

    @property
    def wanted(self) -> int:
        """What to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE * (self.gone < len(self.sent)))


def all_echoed(sessions: Sequence[Echoed]) -> None:
    """Run all at once until every byte is back."""
    end = monotonic() + LONG_SECS
    with selectors.DefaultSelector() as selector:
        for each in sessions:
            each.peer.setblocking(False)
            selector.register(each.peer, each.wanted, each)
        while selector.get_map():
            ready = selector.select(max(0.0, end - monotonic()))
            if not ready:
                raise AssertionError(f"{len(selector.get_map())} sessions have stopped")
            for key, events in ready:
                one: Echoed = key.data
                if one.work(events):
                    selector.unregister(one.peer)
                else:
                    selector.modify(one.peer, one.wanted, one)


def filled(peer: socket.socket, data: bytes) -> int:
    """How much a session takes whose answers nobody reads: both its directions are full then."""
    peer.settimeout(STILL_SECS)
    gone = 0
    with contextlib.suppress(TimeoutError):
        while gone < len(data):
            gone += peer.send(memoryview(data)[gone : gone + (1 << 18)])
    return gone


def handles(child: Child) -> Iterator[tuple[str, Path]]:
    """What each descriptor of a process is, and where."""
    for handle in Path(f"/proc/{child.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(handle), handle


class ManyLanesTests(SynchronousTestCase):
    """With SVC_LONG=1: a thousand idle, two hundred busy, and the kernel's own limit of pipes."""

    def setUp(self) -> None:
        if not hasattr(os, "splice"):
            raise SkipTest("this Python has no os.splice")
        # One of its own: its Proxy has no pipe that earlier sessions have left.
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        self.gateway = make_gateway([target], numbers=NUMBERS)
        self.addCleanup(self.gateway.end)
        self.proxy = self.gateway.child(PROXY)
        self.person = self.gateway.add_person("ada", "ops")
        with (self.person.directory / "client.toml").open("a") as config:
            config.write("\n[client]\ndirect_lane_after = 0\n")
        self.person.up("echo")
        self.open = self.enterContext(ExitStack())

    def lanes(self, count: int) -> list[socket.socket]:
        """So many sessions, each in its lane, through which a byte has gone there and back."""
        before = self.joined()
        address = self.person.endpoint("echo")
        with ThreadPoolExecutor(HALVES_AT_ONCE) as pool:
            opened = list(pool.map(lambda _: echoing(address), range(count)))
        for peer in opened:
            self.open.callback(peer.close)
        until(
            f"{count} lanes",
            lambda: self.joined() - before == count,
            LONG_SECS,
            self.gateway.everyone,
        )
        for peer in opened:
            echo(peer)
        return opened

    def held(self) -> Counter[str]:
        """The descriptors of the Proxy by kind: ``socket``, ``pipe``, ``other``."""
        telemetry = self.gateway.listening(PROXY)["telemetry"]

        def is_asked() -> bool:
            return any(
                one.local == telemetry and not one.is_bound for one in sockets_of(self.proxy)
            )

        until("the end of the last scrape", lambda: not is_asked())
        kinds = (name.partition(":")[0] for name, _ in handles(self.proxy))
        return Counter(kind if kind in ("socket", "pipe") else "other" for kind in kinds)

    def joined(self) -> float:
        return self.gateway.metric(PROXY, JOINED, outcome="joined")

    def echoed(self, peers: Sequence[socket.socket]) -> None:
        """Every byte of all of them, at once, comes back as it was."""
        busy = [Echoed(peer, os.urandom(SIZE)) for peer in peers]
        all_echoed(busy)
        self.assertEqual([one for one in busy if bytes(one.back) != one.sent], [])

    def test_idle_and_busy(self) -> None:
        """Idle lanes hold two sockets each and no pipe; busy ones go on where none is to be had."""
        before = self.held()
        idle = self.lanes(IDLE)
        self.assertEqual(self.held() - before, Counter(socket=2 * IDLE))
        with self.lanes(1)[0] as much:
            all_echoed([Echoed(much, os.urandom(SIZE))])
        until("the end of the busy one", lambda: (self.held() - before)["socket"] == 2 * IDLE)
        # One pipe rests for whoever is next, however many there are; or one for each direction.
        rested = (self.held() - before)["pipe"]
        self.assertIn(rested, (2, 4))
        busy, full = self.lanes(BUSY), self.lanes(1)[0]
        with self.no_more_pipes():
            gone = filled(full, FULL)
            self.assertLess(gone, len(FULL))
            self.echoed(busy)
            self.assertEqual((self.held() - before)["pipe"], rested)
            rest = Echoed(full, FULL[:gone], gone)
            all_echoed([rest])
        self.assertEqual(bytes(rest.back), rest.sent)
        for peer in idle:
            echo(peer)
        self.open.close()
        self.gateway.await_metric(PROXY, "svc_active_sessions", 0)
        until("the sockets given back", lambda: self.held()["socket"] <= before["socket"])

    @contextmanager
    def no_more_pipes(self) -> Iterator[None]:
        """The Proxy may open nothing more; the pipes that rest are the last."""
        numbers = {int(handle.name) for _, handle in handles(self.proxy)}
        free = next(number for number in range(len(numbers) + 1) if number not in numbers)
        limits = resource.prlimit(self.proxy.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.proxy.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            yield
        finally:
            resource.prlimit(self.proxy.pid, resource.RLIMIT_NOFILE, limits)

    if IS_LONG:  # It uses up the pipes of this user on this machine.

        def test_the_users_pages_used_up(self) -> None:
            """Where the user has no pages of pipes left, lanes go on with the least of pipes."""
            setpriv = shutil.which("setpriv")
            if os.geteuid() == 0 and setpriv is None:
                raise SkipTest("setpriv is not installed; the Debian package util-linux brings it")
            if os.geteuid() == 0 and setpriv is not None:  # whom no limit of pipes binds
                self.restarted([setpriv, "--bounding-set", "-sys_resource,-sys_admin"])
            self.hog_pipes()
            earlier = {name for name, _ in handles(self.proxy)}
            busy, full = self.lanes(BUSY), self.lanes(1)[0]
            gone = filled(full, FULL)
            self.assertLess(gone, len(FULL))
            sizes = self.pipe_sizes(earlier)
            self.assertTrue(sizes)
            self.assertLess(max(sizes), PIPE_BYTES)
            self.echoed(busy)
            rest = Echoed(full, FULL[:gone], gone)
            all_echoed([rest])
            self.assertEqual(bytes(rest.back), rest.sent)

    def restarted(self, words: Sequence[str]) -> None:
        """Run the Proxy by these words."""
        self.proxy.words = [*words, *self.proxy.words]
        self.gateway.restart(PROXY)
        self.gateway.await_tunnels(1)
        until("the resident is back", lambda: self.person.status()["proxy"]["connected"])

    def hog_pipes(self) -> None:
        """Take as many pages as the kernel lends one user."""
        pages = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text("ascii"))
        count = pages * os.sysconf("SC_PAGE_SIZE") // PIPE_BYTES
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(count):
            for handle in os.pipe():
                self.open.callback(os.close, handle)

    def pipe_sizes(self, earlier: Container[str]) -> list[int]:
        """The room of each pipe that the Proxy has made since."""
        sizes = []
        for name, handle in handles(self.proxy):
            if name.startswith("pipe:") and name not in earlier:
                with open(handle, "rb", buffering=0, opener=not_waiting) as pipe:
                    sizes.append(fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
        return sizes


def not_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def echoing(address: tuple[str, int]) -> socket.socket:
    """A session with the echo service that has been used once."""
    peer = socket.create_connection(address, 60.0)
    echo(peer)
    return peer


def echo(peer: socket.socket) -> None:
    """One byte there and back."""
    peer.setblocking(True)
    peer.settimeout(60.0)
    peer.sendall(b"e")
    if peer.recv(1) != b"e":
        raise AssertionError("the session gave nothing back")

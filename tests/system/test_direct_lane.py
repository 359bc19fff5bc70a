"""What a Proxy could do with a direct lane: it is recorded, cut and altered on its way."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.lanes.preface import GO, PREFACE_BYTES
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from tests.system.world import World, world

MARKER = b"nobody between the two reads this "
SIZE = 4 << 20


@define(eq=False, slots=False)
class Between:
    """Stands between a person and the Proxy, where the Proxy itself would: below all TLS.

    Attributes:
        lanes: What each lane's connection said in either direction, in the order of the lanes.
        alter: Changes what passes in a lane; None cuts it off.
    """

    proxy: tuple[str, int]
    lanes: list[tuple[bytearray, bytearray]] = field(factory=list)
    listener: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.alter = lambda data: data
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Where a person is to dial."""
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.proxy)
            except OSError:
                return
            heard = bytearray(), bytearray()
            for source, target, kept in ((near, far, heard[0]), (far, near, heard[1])):
                thread = threading.Thread(
                    target=self._pass, args=(source, target, kept, heard), daemon=True
                )
                thread.start()

    def _pass(
        self,
        source: socket.socket,
        target: socket.socket,
        kept: bytearray,
        heard: tuple[bytearray, bytearray],
    ) -> None:
        try:
            while data := source.recv(1 << 16):
                kept += data
                if heard[0].startswith(b"svc-lane-v1 "):
                    if not any(one is heard for one in self.lanes):
                        self.lanes.append(heard)
                    if len(heard[0]) > PREFACE_BYTES:
                        altered = self.alter(data)
                        if altered is None:
                            break
                        data = altered
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@cache
def lanes() -> World:
    """The gateway whose sessions all move."""
    return world("lanes")


@cache
def listened_to() -> tuple[GatewayPerson, Between]:
    """A person of that gateway whose every connection passes another hand."""
    gateway = lanes().gateway
    host, _, port = gateway.public.rpartition(":")
    between = Between((host, int(port)))
    person = gateway.add_person("bea", "ops")
    config = person.directory / "client.toml"
    text = config.read_text()
    assert gateway.public in text
    text = text.replace(gateway.public, between.address)
    config.write_text(text + "\n[client]\ndirect_lane_after = 0\nnative_port_offset = 20000\n")
    person.up("echo", "sink")
    return person, between


class RecordedLaneTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.person, self.between = listened_to()
        self.between.alter = lambda data: data
        # A lane of an earlier test may still pass its last words.
        self.earlier = len(self.between.lanes)

    @property
    def lanes(self) -> list[tuple[bytearray, bytearray]]:
        """Those of this test."""
        return self.between.lanes[self.earlier :]

    @contextmanager
    def moved(self) -> Iterator[socket.socket]:
        """A session with the echo service that has moved to its lane."""
        with closing(socket.create_connection(self.person.endpoint("echo"), 20)) as peer:
            peer.sendall(b"hello")
            self.assertEqual(peer.recv(5), b"hello")
            until("the lane stands", lambda: any(GO in down for _, down in self.lanes))
            yield peer

    def test_it_holds_no_plaintext(self) -> None:
        """Whoever carries a lane sees its one-use token, then TLS records and nothing else."""
        with self.moved() as peer:
            sent = (MARKER * (SIZE // len(MARKER) + 1))[:SIZE]
            sending = threading.Thread(target=peer.sendall, args=(sent,))
            sending.start()
            got = bytearray()
            while len(got) < SIZE:
                got += peer.recv(1 << 20)
            sending.join()
            self.assertEqual(bytes(got), sent)
            up, down = (bytes(each) for each in self.lanes[-1])
        self.assertGreater(min(len(up), len(down)), SIZE // 2)
        for heard in (up, down):
            self.assertNotIn(MARKER, heard)
            self.assertNotIn(MARKER[:12], heard)
        # A record of application data: type 23, version 3.3.
        self.assertTrue(re.search(rb"\x17\x03\x03", up[PREFACE_BYTES : PREFACE_BYTES + 70_000]))

    def test_an_altered_byte_breaks_the_session(self) -> None:
        """A flipped bit in a lane is no answer: both ends see a break, and nothing passes."""
        with self.moved() as peer:
            self.between.alter = lambda data: data[:-1] + bytes((data[-1] ^ 1,))
            peer.sendall(b"altered on its way")
            self.assertRaises(ConnectionResetError, self.read_on, peer)

    def test_a_cut_is_no_end(self) -> None:
        """A lane that is closed in order by whoever carries it is a break to the person."""
        with self.moved() as peer:
            self.between.alter = lambda data: None
            peer.sendall(b"never arrives")
            self.assertRaises(ConnectionResetError, self.read_on, peer)

    def read_on(self, peer: socket.socket) -> bytes:
        while data := peer.recv(1 << 16):
            self.fail(f"{data!r} passed")
        return b""

"""WebSockets through the gate come out as at the bare application, by two stock clients."""

from __future__ import annotations

import atexit
import socket
import subprocess
from collections.abc import Mapping
from functools import cache

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.extensions import Extension, PerMessageDeflate
from wsproto.utilities import ProtocolError

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import run
from svc.testing.gateway.settings import GatewayTarget
from tests.interop.stage import node

RUN_BY = "make fault"

KINDS = ["ssh", "tcp", "web"]
MASK = b"\1\2\3\4"


def frame(first: int, payload: bytes = b"", masked: bool = True) -> bytes:
    """A short frame, whatever its first byte says."""
    if not masked:
        return bytes((first, len(payload))) + payload
    hidden = bytes(each ^ MASK[at % 4] for at, each in enumerate(payload))
    return bytes((first, 0x80 | len(payload))) + MASK + hidden


WRONG: Mapping[str, tuple[bytes, ...]] = {
    "no mask": (frame(0x81, b"hi", masked=False),),
    "a reserved bit": (frame(0xA1, b"hi"),),
    "compressed, as nobody agreed": (frame(0xC1, b"hi"),),
    "a reserved opcode": (frame(0x83, b"hi"),),
    "a reserved control opcode": (frame(0x8B, b"hi"),),
    "a ping in pieces": (frame(0x09, b"hi"), frame(0x80, b"hi")),
    "a ping of 126 bytes": (b"\x89\xfe\x00\x7e" + MASK + bytes(126),),
    "a continuation of nothing": (frame(0x80, b"hi"),),
    "a message amid another": (frame(0x01, b"hi"), frame(0x81, b"hi")),
    "a close of one byte": (frame(0x88, b"\x03"),),
    "a close with 1005": (frame(0x88, b"\x03\xed"),),
    "a close with no UTF-8": (frame(0x88, b"\x03\xe8\xff"),),
    "no UTF-8, in pieces": (frame(0x01, b"\xc3"), frame(0x80, b"\x28")),
    "a length in 64 bits that has the highest": (b"\x82\xff\x80" + bytes(7) + MASK,),
}


@define(eq=False)
class Sockets:
    """An application on `ws`, bare and through a gateway."""

    port: int
    gateway: Gateway = field(init=False)
    person: GatewayPerson = field(init=False)

    def __attrs_post_init__(self) -> None:
        target = GatewayTarget("sockets", f"127.0.0.1:{self.port}", "web")
        self.gateway = make_gateway([target], numbers={"plugins.kinds": KINDS})
        self.person = self.gateway.add_person("ada", "ops")
        config = self.person.directory / "client.toml"
        config.write_text(f"plugins.kinds = {KINDS}\n{config.read_text('utf-8')}", "utf-8")
        self.person.up("sockets")

    @property
    def places(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Of the application, and of its local endpoint."""
        host, port = self.person.endpoint("sockets")
        return ("127.0.0.1", self.port), (host, int(port))


class WebSocketTests(SynchronousTestCase):
    """RFC 6455 and 7692, a handful of cases."""

    def setUp(self) -> None:
        self.sockets = sockets()

    def test_ws(self) -> None:
        """npm ws: messages, pieces, compression, pings, closes and refusals."""
        client = node("websocket-client.js")
        bare, gated = (
            run([*client, f"ws://{host}:{port}"], self.sockets.person.home).json
            for host, port in self.sockets.places
        )
        self.assertGreater(len(bare), 20)
        self.assertEqual(bare["refused"], ["answered 401 closed"])
        for name in bare:
            self.assertEqual(gated[name], bare[name], name)

    def test_wsproto(self) -> None:
        """wsproto: what it may send, compressed and not."""
        for compresses in (False, True):
            sent = (
                TextMessage("ä" * 400),
                BytesMessage(bytes(70000)),
                TextMessage("one ", message_finished=False),
                TextMessage("two"),
                Ping(b"amid"),
                CloseConnection(code=4000, reason="done"),
            )
            bare, gated = (
                self.said(place, sent=sent, compresses=compresses) for place in self.sockets.places
            )
            self.assertEqual(bare[-1], "closed 4000 done")
            self.assertEqual(gated, bare)

    def test_wrong_frames(self) -> None:
        """Frames that no client may send are the application's to refuse; its word comes back."""
        for name, frames in WRONG.items():
            bare, gated = (self.said(place, frames) for place in self.sockets.places)
            self.assertRegex(bare[-1], r"\Aclosed 10\d\d|\Aover", name)
            self.assertEqual(gated, bare, name)

    def said(
        self,
        place: tuple[str, int],
        raw: tuple[bytes, ...] = (),
        sent: tuple[Event, ...] = (),
        compresses: bool = False,
    ) -> list[str]:
        """What came of a connection, up to its end."""
        ws, found = WSConnection(ConnectionType.CLIENT), list[str]()
        extensions: list[Extension] = [PerMessageDeflate()] if compresses else []
        with socket.create_connection(place, 20) as client:
            asked = Request(host=f"{place[0]}:{place[1]}", target="/", extensions=extensions)
            client.sendall(ws.send(asked))
            while True:
                data = client.recv(65536)
                try:
                    ws.receive_data(data or None)
                    events = list(ws.events())
                except ProtocolError as error:
                    return [*found, f"over {type(error).__name__}"]
                for event in events:
                    if isinstance(event, AcceptConnection):
                        found.append(f"open {len(event.extensions)}")
                        client.sendall(b"".join(raw))
                        client.sendall(b"".join(ws.send(one) for one in sent))
                    elif isinstance(event, CloseConnection):
                        return [*found, f"closed {event.code} {event.reason or ''}"]
                    elif isinstance(event, (RejectConnection, RejectData)):
                        found.append("rejected")
                    elif isinstance(event, Pong):
                        found.append(f"pong {event.payload!r}")
                    elif isinstance(event, (TextMessage, BytesMessage)):
                        self.note(found, event)
                if not data:
                    return [*found, "over"]

    def note(self, found: list[str], event: TextMessage | BytesMessage) -> None:
        """A message's pieces, however they come, count as one."""
        text = event.data if isinstance(event.data, str) else bytes(event.data).hex()
        if found and found[-1].startswith("part "):
            text = found.pop().removeprefix("part ") + text
        found.append(f"{'whole' if event.message_finished else 'part'} {text}")


@cache
def sockets() -> Sockets:
    """The one of this process."""
    server = subprocess.Popen(node("websocket-server.js"), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    atexit.register(server.kill)
    return Sockets(int(server.stdout.readline()))

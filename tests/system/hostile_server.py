"""A server that has a node's certificate and attacks whoever dials it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

from attrs import define, field
from hyperframe.frame import SettingsFrame

from tests.system.raw import PREFACE, Ending, Raw


@define
class HostileServer:
    """What became of the connections that were made to it.

    Attributes:
        endings: Of those that are over.
        ended: Set with the first of them.
    """

    address: str
    endings: list[Ending] = field(factory=list)
    ended: Event = field(factory=Event)


@contextmanager
def hostile_server(pair: Sequence[str], attack: bytes) -> Iterator[HostileServer]:
    """Sends settings and *attack* to everybody, as whoever *pair* says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair[1], pair[0])
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = HostileServer(f"127.0.0.1:{listener.getsockname()[1]}")

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError):
                    _attack(server, context.wrap_socket(plain, server_side=True), attack)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def _attack(server: HostileServer, sock: ssl.SSLSocket, attack: bytes) -> None:
    raw = Raw(sock, skip=len(PREFACE))
    try:
        raw.send(SettingsFrame(0), attack)
        server.endings.append(raw.until_closed())
        server.ended.set()
    finally:
        raw.close()

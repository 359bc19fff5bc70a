"""What a TLS connection costs the server that takes it, ours and HAProxy.

The same client connects to both, one connection after another, speaks the
first words of HTTP/2, and goes when the server has answered them.  Counted is
the CPU time of the server alone, so neither the client nor other work on the
machine is in the figure.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from contrib.bench.machine import cpu_seconds
from contrib.bench.ours import Ours
from contrib.bench.peers import Hops, haproxy_tls
from contrib.bench.rows import Goal, Row, more_is_better

_CONNECTIONS = 500
_WARM = 50
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HALF = Goal(ratio=0.5)


def rows(ours: Ours, directory: Path) -> list[Row]:
    """Full handshakes, with and without a client's certificate, and a caller that comes back."""
    shown = showing(ours.proxy_state, ours.person_state, directory)
    with haproxy_tls(directory, ours.proxy_state) as peer:
        return [
            *_compared("TLS", trusting(ours.proxy_state), ours, peer),
            *_compared("TLS with a client's certificate", shown, ours, peer),
        ]


def _compared(name: str, context: ssl.SSLContext, ours: Ours, peer: Hops) -> list[Row]:
    here, there = ours.public, ("127.0.0.1", peer.port)
    full = _rate(ours.proxy_pid, lambda: connect(context, here))
    theirs = _rate(peer.pid, lambda: connect(context, there))
    again, returning = Returning(context, here), Returning(context, there)
    came_back = _rate(ours.proxy_pid, again)
    resumed = _rate(peer.pid, returning)
    if again.resumed or not returning.resumed:
        raise AssertionError("we resumed a session, or HAProxy did not")
    unit, back = "/s of CPU", f"{name}, a caller comes back (we resume none)"
    return [
        more_is_better(name, full, unit, "HAProxy", theirs, _HALF),
        more_is_better(back, came_back, unit, "HAProxy, resumed", resumed, _HALF),
    ]


def connect(
    context: ssl.SSLContext, address: tuple[str, int], session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    """A connection on which the server has spoken HTTP/2."""
    plain = socket.create_connection(address, timeout=20)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured = context.wrap_socket(plain, server_hostname="localhost", session=session)
        secured.sendall(_GREETING)
        if len(secured.recv(4096)) < 9:
            raise AssertionError("the server ended the connection")
    except BaseException:
        plain.close()
        raise
    return secured


class Returning:
    """A caller that offers the session of its connection before."""

    def __init__(self, context: ssl.SSLContext, address: tuple[str, int]) -> None:
        self._context = context
        self._address = address
        self._session: ssl.SSLSession | None = None
        self.resumed = 0

    def __call__(self) -> ssl.SSLSocket:
        """Connect once more."""
        secured = connect(self._context, self._address, self._session)
        self.resumed += bool(secured.session_reused)
        self._session = secured.session
        return secured


def trusting(state: Path) -> ssl.SSLContext:
    """What a caller needs that trusts the root in a state directory and speaks HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(state / "trust" / "root.pem")
    context.set_alpn_protocols(["h2"])
    return context


def showing(state: Path, person: Path, directory: Path) -> ssl.SSLContext:
    """As :func:`trusting`, with the certificate of a person; its chain is put into *directory*."""
    context = trusting(state)
    current, chain = person / "identity" / "current", directory / "person.pem"
    chain.write_bytes((current / "leaf.pem").read_bytes() + (current / "chain.pem").read_bytes())
    context.load_cert_chain(chain, current / "key.pem")
    return context


def _rate(pid: int, one: Callable[[], ssl.SSLSocket]) -> float:
    """Connections for each second that the server's process computes."""
    for _ in range(_WARM):
        one().close()
    began = cpu_seconds(pid)
    for _ in range(_CONNECTIONS):
        one().close()
    return _CONNECTIONS / (cpu_seconds(pid) - began)

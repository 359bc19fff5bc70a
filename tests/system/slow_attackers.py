"""The attackers that wait: each leaves something half done and holds on to it."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from attrs import frozen
from hyperframe.frame import ContinuationFrame, DataFrame, HeadersFrame

from tests.system.attackers import CALM, frame
from tests.system.raw import HEALTH, PREFACE, Ending, Raw, connected, greeted, secured, whole

_SECONDS = 20.0
_PAUSE = 0.1


@frozen
class Waiter:
    """One of them.

    Attributes:
        attack: ``attack(address, source)`` until the other side had enough.
        word: The reason in the log; empty where none is logged.
        goaway: The code of its GOAWAY; None where none can be sent.
        answers: ``grpc-status`` words that must come.
        resets: The RST_STREAM codes that must come.
    """

    name: str
    attack: Callable[[str, str], Ending]
    word: str = ""
    goaway: int | None = None
    answers: tuple[str, ...] = ()
    resets: tuple[int, ...] = ()


def closed(sock: socket.socket) -> Ending:
    """What comes of a connection that is never anything else than TCP."""
    sock.settimeout(_SECONDS)
    try:
        while sock.recv(4096):
            pass
    except TimeoutError:
        return Ending()
    except OSError:
        pass
    finally:
        sock.close()
    return Ending(is_closed=True)


def trickled(sock: Any, data: bytes) -> Ending:
    """One byte now and then, as long as they are taken."""
    end = time.monotonic() + _SECONDS
    sock.settimeout(_PAUSE)
    with suppress(OSError):
        for at in range(len(data)):
            sock.sendall(data[at : at + 1])
            with suppress(TimeoutError, ssl.SSLWantReadError):
                if not sock.recv(65536):
                    break
            if time.monotonic() > end:
                return Ending()
    return closed(sock)


def hello() -> bytes:
    """A ClientHello."""
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def silent(address: str, source: str) -> Ending:
    """Nothing at all."""
    return closed(connected(address, source))


def slow_hello(address: str, source: str) -> Ending:
    """A ClientHello that does not end."""
    return trickled(connected(address, source), hello())


def half_hello(address: str, source: str) -> Ending:
    """A ClientHello that stops."""
    sock = connected(address, source)
    sock.sendall(hello()[:100])
    return closed(sock)


def no_alpn(address: str, source: str) -> Ending:
    """TLS for who knows what."""
    return closed(secured(address, source, alpn=()))


def other_alpn(address: str, source: str) -> Ending:
    """TLS for something else."""
    try:
        return closed(secured(address, source, alpn=["http/1.1"]))
    except ssl.SSLError:
        return Ending(is_closed=True)


def no_preface(address: str, source: str) -> Ending:
    """TLS, and nothing in it."""
    return closed(secured(address, source))


def slow_preface(address: str, source: str) -> Ending:
    """A preface that does not end."""
    return trickled(secured(address, source), PREFACE + frame(4, body=bytes(600)))


def no_settings(address: str, source: str) -> Ending:
    """A preface without settings behind it, and a call."""
    raw = Raw(secured(address, source))
    raw.send(PREFACE, raw.request(1))
    return ended(raw)


def http1(address: str, source: str) -> Ending:
    """Another protocol's words."""
    raw = Raw(secured(address, source))
    raw.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return ended(raw)


def upgrade(address: str, source: str) -> Ending:
    """HTTP/1.1 that wants to become HTTP/2, with a long body."""
    raw = Raw(secured(address, source))
    raw.send(
        b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 1000000\r\n\r\n"
    )
    return ended(raw)


def open_head(address: str, source: str) -> Ending:
    """A header block without its end."""
    raw = greeted(address, source)
    raw.send(HeadersFrame(1, b"\x82"))
    return ended(raw)


def slow_head(address: str, source: str) -> Ending:
    """A header block a byte a frame."""
    raw = greeted(address, source)
    raw.send(HeadersFrame(1, b"\x82"))
    for _ in range(60):
        if not raw.send(ContinuationFrame(1, b"\x84")):
            break
        raw.until_closed(_PAUSE)
    return ended(raw)


def half_frame(address: str, source: str) -> Ending:
    """Half a ping."""
    raw = greeted(address, source)
    raw.send(frame(6, body=bytes(8))[:12])
    return ended(raw)


def half_open(address: str, source: str) -> Ending:
    """Calls without their message."""
    raw = greeted(address, source)
    raw.send(*(raw.head(2 * number + 1) for number in range(20)))
    raw.until_answered()
    raw.close()
    return raw.ending


def half_message(address: str, source: str) -> Ending:
    """A call with the first half of its message."""
    raw = greeted(address, source)
    raw.send(raw.head(1), DataFrame(1, b"\0\0\0\1\0" + b"x" * 10))
    raw.until_answered()
    raw.close()
    return raw.ending


def no_window(address: str, source: str) -> Ending:
    """Calls whose answers may never be sent."""
    raw = greeted(address, source, initial_window_size=0)
    raw.send(*(raw.request(2 * number + 1) for number in range(20)))
    raw.until_answered()
    raw.close()
    return raw.ending


def idle(address: str, source: str) -> Ending:
    """A call, and then nothing more."""
    raw = greeted(address, source)
    raw.send(raw.head(1, HEALTH), whole(1))
    return ended(raw)


def ended(raw: Raw) -> Ending:
    """What came until the connection was closed."""
    try:
        return raw.until_closed(_SECONDS)
    finally:
        raw.close()


WAITERS = (
    Waiter("silence", silent, "handshake_timeout"),
    Waiter("slow ClientHello", slow_hello, "handshake_timeout"),
    Waiter("half a ClientHello", half_hello, "handshake_timeout"),
    Waiter("no ALPN", no_alpn, "no_h2"),
    Waiter("another protocol by ALPN", other_alpn, "handshake_failed"),
    Waiter("no preface", no_preface, "handshake_timeout"),
    Waiter("slow preface", slow_preface, "handshake_timeout"),
    Waiter(name="no settings", attack=no_settings, word="no_settings", goaway=1),
    Waiter(name="HTTP/1.1", attack=http1, word="protocol_error", goaway=1),
    Waiter(name="h2c upgrade", attack=upgrade, word="protocol_error", goaway=1),
    Waiter(name="open header block", attack=open_head, word="header_block_timeout", goaway=CALM),
    Waiter(name="slow header block", attack=slow_head, word="header_block_timeout", goaway=CALM),
    Waiter(name="half a frame", attack=half_frame, word="header_block_timeout", goaway=CALM),
    Waiter("half-open calls", half_open, answers=("4",)),
    Waiter("half a message", half_message, answers=("4",)),
    Waiter("no window", no_window, "answer_not_taken", resets=(8,)),
    Waiter("idle", idle, goaway=0),
)

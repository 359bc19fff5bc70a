"""Asks the kernel which user owns the other end of a loopback connection.

One NETLINK_SOCK_DIAG question about one socket; it needs no rights and takes
microseconds, so it is asked while the reactor waits, before a byte is read
(rule R7).  Linux only; elsewhere nobody can be told apart.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from struct import Struct

from attrs import frozen

AVAILABLE = sys.platform.startswith("linux")

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _DUMP = 0x01, 0x300
_LISTEN = 10
_LIVE = frozenset({1, 4, 5, 8})
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT: states a living owner's socket can be in."""

_HEADER = Struct("=IHHII")
_QUESTION = Struct("=BBBxI")
_SOCKET_ID = Struct("!HH16s16s4s8s")
_ANSWER = Struct("=BBBB48sIIIII")
_NO_COOKIE = b"\xff" * 8
_BUFFER = 65536


@frozen
class _Found:
    state: int
    port: int
    address: str
    uid: int
    inode: int


def peer_uid(here: tuple[str, int], peer: tuple[str, int]) -> int | None:
    """The user whose process holds the far end of a connection within this machine.

    Args:
        here: Address and port of our end.
        peer: Address and port of the far end.

    Returns:
        None where no living process holds it: it was closed, is on another
        machine, or the kernel does not say.
    """
    body = _question(0xFFFFFFFF, peer, here, socket.AF_INET)
    for found in _read(_line.ask(_REQUEST, body)):
        # A socket without an inode has no owner any more; the kernel then says uid 0.
        if found.state in _LIVE and found.inode:
            return found.uid
    return None


def listener_uid(address: str, port: int) -> int | None:
    """The user that listens on this address and port, or on this port of every address."""
    taken = frozenset((address, "0.0.0.0", "::", f"::ffff:{address}", "::ffff:0.0.0.0"))
    for family in (socket.AF_INET, socket.AF_INET6):
        # A socket of IPv6 that takes IPv4 as well holds the port just so.
        body = _question(1 << _LISTEN, (address, port), ("0.0.0.0", 0), family)
        for found in _listed(body):
            if found.port == port and found.address in taken:
                return found.uid
    return None


class _Line:
    """Asks one question after the other: a socket for each takes as long as the answer."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def ask(self, flags: int, body: bytes) -> bytes:
        """The first answer to a question.

        Raises:
            OSError: there is none.
        """
        asked, self._socket = self._socket or _opened(), None
        try:
            answer = _answer(asked, flags, body)
        except BaseException:
            asked.close()  # with the answer that may come late, to no other question
            raise
        self._socket = asked
        return answer


_line = _Line()
"""Of this process; for the reactor's thread alone."""


def _listed(body: bytes) -> Iterator[_Found]:
    """All that a question of many sockets finds."""
    with _opened() as asked:
        answer = _answer(asked, _REQUEST | _DUMP, body)
        yield from _read(answer)
        while not _is_last(answer):
            answer = asked.recv(_BUFFER)
            yield from _read(answer)


def _opened() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    opened = socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG)
    opened.settimeout(1.0)
    return opened


def _answer(asked: socket.socket, flags: int, body: bytes) -> bytes:
    message = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, flags, 1, 0) + body
    asked.sendto(message, (0, 0))
    return asked.recv(_BUFFER)


def _question(states: int, source: tuple[str, int], target: tuple[str, int], family: int) -> bytes:
    return _QUESTION.pack(family, socket.IPPROTO_TCP, 0, states) + _SOCKET_ID.pack(
        source[1],
        target[1],
        socket.inet_aton(source[0]),
        socket.inet_aton(target[0]),
        b"\0" * 4,
        _NO_COOKIE,
    )


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(answer):
        size, kind, _, _, _ = _HEADER.unpack_from(answer, at)
        if size < _HEADER.size:
            return
        yield kind, answer[at + _HEADER.size : at + size]
        at += (size + 3) & ~3


def _is_last(answer: bytes) -> bool:
    return any(kind in (_NLMSG_DONE, _NLMSG_ERROR) for kind, _ in _messages(answer))


def _read(answer: bytes) -> Iterator[_Found]:
    for kind, body in _messages(answer):
        if kind == _NLMSG_ERROR:
            _check(body)
        elif kind == _SOCK_DIAG_BY_FAMILY and len(body) >= _ANSWER.size:
            family, state, _, _, identity, _, _, _, uid, inode = _ANSWER.unpack_from(body)
            port, _, source, _, _, _ = _SOCKET_ID.unpack(identity)
            address = source[:4] if family == socket.AF_INET else source
            yield _Found(
                state=state,
                port=port,
                address=socket.inet_ntop(family, address),
                uid=uid,
                inode=inode,
            )


def _check(body: bytes) -> None:
    code = -int.from_bytes(body[:4], sys.byteorder, signed=True)
    if code not in (0, errno.ENOENT):
        raise OSError(code, "the kernel did not report which user owns this socket")

"""SFTP as it passes: which requests need which right, and the answers to those that may not pass.

Version 3, which is what OpenSSH speaks; a client that offers more is held to it, since later ones
put other things into the same places.  A request that is not known is answered by us as one that
the server does not support.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.errors import Malformed
from svc.kinds.ssh.conch import NS, getNS
from svc.kinds.ssh.rights import SFTP_READ, SFTP_WRITE, SessionRights

VERSION = 3
LONGEST = (1 << 18) + 1024
"""Of a packet: what OpenSSH takes at most, and a head."""

_MOST_ANSWERS = 1 << 14
"""Of our own, while an answer of the target's is on its way."""

_INIT, _VERSION, _OPEN, _EXTENDED, _STATUS = 1, 2, 3, 200, 101
_PERMISSION_DENIED, _UNSUPPORTED = 3, 8
_FLAG_READ = 1

_ANY = frozenset(
    {
        4,  # close
        7,  # lstat
        8,  # fstat
        16,  # realpath
        17,  # stat
    }
)
_READS = frozenset(
    {
        5,  # read
        11,  # opendir
        12,  # readdir
        19,  # readlink
    }
)
_WRITES = frozenset(
    {
        6,  # write
        9,  # setstat
        10,  # fsetstat
        13,  # remove
        14,  # mkdir
        15,  # rmdir
        18,  # rename
        20,  # symlink
    }
)
_EXTENDED_ANY = frozenset(
    {
        b"limits@openssh.com",
        b"statvfs@openssh.com",
        b"fstatvfs@openssh.com",
        b"expand-path@openssh.com",
        b"home-directory",
        b"users-groups-by-id@openssh.com",
    }
)
_EXTENDED_WRITES = frozenset(
    {
        b"posix-rename@openssh.com",
        b"hardlink@openssh.com",
        b"fsync@openssh.com",
        b"lsetstat@openssh.com",
    }
)
_BOTH = frozenset({SFTP_READ, SFTP_WRITE})
_EITHER: frozenset[str] = frozenset()
"""What whoever has one of the two needs to find its way."""

_SAID = {
    _OPEN: "open",
    9: "setstat",
    11: "list",
    13: "remove",
    14: "mkdir",
    15: "rmdir",
    18: "rename",
    20: "symlink",
}
"""Requests that a recording tells of; the paths are those of the client."""

_SAID_EXTENDED = {
    b"posix-rename@openssh.com": "rename",
    b"hardlink@openssh.com": "link",
    b"lsetstat@openssh.com": "setstat",
}
"""Likewise: what OpenSSH asks for in the place of those."""

_OF_TWO = frozenset({"rename", "symlink", "link"})
_MOST_PATH = 4096

Denied = Callable[[str], object]
"""Told the right that a request lacks, once for each."""


@define
class SftpGuard:
    """One channel's: give it what comes from each side, and send on what it returns.

    Attributes:
        denied: See :data:`Denied`.
        asked: Told the operations that a recording tells of, with their paths.
    """

    rights: SessionRights
    denied: Denied
    asked: Callable[..., object] | None = field(default=None, init=False)
    _came: bytes = field(default=b"", init=False)
    _head: bytes = field(default=b"", init=False)
    _left: int = field(default=0, init=False)
    _answers: list[bytes] = field(factory=list, init=False)
    _told: set[str] = field(factory=set, init=False)

    def from_client(self, data: bytes) -> bytes:
        """What the target is sent; see :meth:`answers` then.

        Raises:
            Malformed: it is no SFTP.
        """
        self._came += data
        passed, at = [], 0
        while len(self._came) - at >= 4:
            size = int.from_bytes(self._came[at : at + 4], "big")
            if not 5 <= size <= LONGEST:
                raise Malformed("SFTP: a packet of no possible size")
            if len(self._came) - at < 4 + size:
                break
            packet = self._came[at : at + 4 + size]
            at += 4 + size
            passed.append(self._judged(packet))
        self._came = self._came[at:]
        return b"".join(passed)

    def from_target(self, data: bytes) -> bytes:
        """What the client is sent: the same, with our own answers between the packets."""
        sent, at = [], 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
            else:
                piece = data[at : at + 4 - len(self._head)]
                self._head += piece
                if len(self._head) == 4:
                    self._left, self._head = int.from_bytes(self._head, "big"), b""
            sent.append(piece)
            at += len(piece)
            sent.append(self.answers())
        return b"".join(sent)

    def answers(self) -> bytes:
        """Our own answers that may be sent now."""
        if self._left or self._head or not self._answers:
            return b""
        said, self._answers = b"".join(self._answers), []
        return said

    def _judged(self, packet: bytes) -> bytes:
        kind = packet[4]
        if kind == _INIT:
            return self._begun()
        needed = self._needed(kind, packet)
        if needed is None:
            self._answer(packet, _UNSUPPORTED, "svc: not known, so not passed on")
            return b""
        if not needed and not self.rights.has(SFTP_READ, SFTP_WRITE):
            needed = frozenset({SFTP_READ})
        lacking = next((one for one in sorted(needed) if not self.rights.has(one)), "")
        if self.asked is not None:
            operation, paths = _operation(kind, packet[9:])
            if operation:
                self.asked(operation, **_facts(operation, paths), **_denial(lacking))
        if lacking:
            self._deny(lacking, packet)
            return b""
        return packet

    def _begun(self) -> bytes:
        """With neither right the target hears nothing, and each request is denied."""
        if self.rights.has(SFTP_READ, SFTP_WRITE):
            return _packet(bytes((_INIT,)) + VERSION.to_bytes(4, "big"))
        self._answers.append(_packet(bytes((_VERSION,)) + VERSION.to_bytes(4, "big")))
        return b""

    def _needed(self, kind: int, packet: bytes) -> frozenset[str] | None:
        """The rights that a request needs; None: it is none that we know."""
        if kind == _OPEN:
            return _opens(packet)
        if kind == _EXTENDED:
            name = getNS(packet[9:])[0]
            if name in _EXTENDED_ANY:
                return _EITHER
            return frozenset({SFTP_WRITE}) if name in _EXTENDED_WRITES else None
        if kind in _ANY:
            return _EITHER
        if kind in _READS:
            return frozenset({SFTP_READ})
        return frozenset({SFTP_WRITE}) if kind in _WRITES else None

    def _deny(self, right: str, packet: bytes) -> None:
        if right not in self._told:
            self._told.add(right)
            self.denied(right)
        self._answer(packet, _PERMISSION_DENIED, self.rights.refusal(right))

    def _answer(self, packet: bytes, code: int, text: str) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            raise Malformed("SFTP: too many requests wait behind an answer that does not end")
        body = bytes((_STATUS,)) + packet[5:9] + code.to_bytes(4, "big")
        self._answers.append(_packet(body + NS(text.encode()) + NS(b"en")))


def _opens(packet: bytes) -> frozenset[str]:
    """Of an open: what its flags ask for; without any it is one to read."""
    _, rest = getNS(packet[9:])
    flags = int.from_bytes(rest[:4], "big")
    if len(rest) < 4 or not flags:
        return _BOTH
    reads = {SFTP_READ} if flags & _FLAG_READ else set()
    writes = {SFTP_WRITE} if flags & ~_FLAG_READ else set()
    return frozenset(reads | writes)


def _operation(kind: int, data: bytes) -> tuple[str, bytes]:
    """What a recording calls a request, or nothing; and where its paths begin."""
    if kind != _EXTENDED:
        return _SAID.get(kind, ""), data
    name, rest = getNS(data)
    return _SAID_EXTENDED.get(name, ""), rest


def _facts(operation: str, data: bytes) -> dict[str, object]:
    """What a recording says of a request: paths, and the flags of an open."""
    path, rest = getNS(data)
    said: dict[str, object] = {"path": _path(path)}
    if operation in _OF_TWO:
        said["to"] = _path(getNS(rest)[0])
    elif operation == "open":
        flags = int.from_bytes(rest[:4], "big")
        said["reads"], said["writes"] = bool(flags & _FLAG_READ), bool(flags & ~_FLAG_READ)
    return said


def _denial(right: str) -> dict[str, object]:
    return {"denied": right} if right else {}


def _path(data: bytes) -> str:
    return data[:_MOST_PATH].decode("utf-8", "replace")


def _packet(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body

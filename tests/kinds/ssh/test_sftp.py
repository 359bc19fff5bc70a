"""What of SFTP passes by which right, whatever pieces it comes in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.kinds.ssh.rights import SFTP_READ, SFTP_WRITE, SessionRights
from svc.kinds.ssh.sftp import LONGEST, SftpGuard
from tests.support.examples import examples

READ, WRITE, CREATE = 1, 2, 8
DENIED, UNSUPPORTED = 3, 8


def text(value: bytes) -> bytes:
    """A string of SSH."""
    return len(value).to_bytes(4, "big") + value


def packet(kind: int, *parts: bytes, number: int = 7) -> bytes:
    """One request."""
    body = bytes((kind,)) + number.to_bytes(4, "big") + b"".join(parts)
    return text(body)


def opened(flags: int) -> bytes:
    """A request to open a file."""
    return packet(3, text(b"/etc/motd"), flags.to_bytes(4, "big"), bytes(4))


def extended(name: bytes) -> bytes:
    """A request of an extension."""
    return packet(200, text(name), text(b"/a"), text(b"/b"))


READS = {
    "open to read": opened(READ),
    "read": packet(5, text(b"h"), bytes(12)),
    "opendir": packet(11, text(b"/")),
    "readdir": packet(12, text(b"h")),
    "readlink": packet(19, text(b"/a")),
}
WRITES = {
    "open to write": opened(WRITE | CREATE),
    "write": packet(6, text(b"h"), bytes(8), text(b"data")),
    "setstat": packet(9, text(b"/a"), bytes(4)),
    "fsetstat": packet(10, text(b"h"), bytes(4)),
    "remove": packet(13, text(b"/a")),
    "mkdir": packet(14, text(b"/a"), bytes(4)),
    "rmdir": packet(15, text(b"/a")),
    "rename": packet(18, text(b"/a"), text(b"/b")),
    "symlink": packet(20, text(b"/a"), text(b"/b")),
    "posix-rename": extended(b"posix-rename@openssh.com"),
    "hardlink": extended(b"hardlink@openssh.com"),
}
EITHER = {
    "close": packet(4, text(b"h")),
    "stat": packet(17, text(b"/a")),
    "realpath": packet(16, text(b".")),
    "statvfs": extended(b"statvfs@openssh.com"),
}
UNKNOWN = {
    "a type": packet(77, text(b"/a")),
    "an extension": extended(b"copy-data"),
    "block": packet(22, text(b"h")),
}


class GuardTests(SynchronousTestCase):
    """Each request by each right."""

    def guard(self, *rights: str) -> SftpGuard:
        self.told: list[str] = []
        return SftpGuard(SessionRights("ada", frozenset(rights), "d" * 32), self.told.append)

    def answered(self, guard: SftpGuard, request: bytes) -> int | None:
        """The code that a request is answered with; None: it passes as it is."""
        onward = guard.from_client(request)
        answer = guard.answers()
        if onward:
            self.assertEqual((onward, answer), (request, b""))
            return None
        self.assertEqual((answer[4], answer[5:9]), (101, request[5:9]))
        return int.from_bytes(answer[9:13], "big")

    def test_read(self) -> None:
        """Who may read passes what reads, and no more."""
        guard = self.guard(SFTP_READ)
        for name, request in {**READS, **EITHER}.items():
            self.assertIsNone(self.answered(guard, request), name)
        for name, request in {**WRITES, "both": opened(READ | WRITE)}.items():
            self.assertEqual(self.answered(guard, request), DENIED, name)
        self.assertEqual(self.told, [SFTP_WRITE])

    def test_write(self) -> None:
        """Who may write passes what writes, and no more."""
        guard = self.guard(SFTP_WRITE)
        for name, request in {**WRITES, **EITHER}.items():
            self.assertIsNone(self.answered(guard, request), name)
        for name, request in {**READS, "both": opened(READ | WRITE), "none": opened(0)}.items():
            self.assertEqual(self.answered(guard, request), DENIED, name)
        self.assertEqual(self.told, [SFTP_READ])

    def test_unknown(self) -> None:
        """What is not known passes for nobody."""
        guard = self.guard(SFTP_READ, SFTP_WRITE)
        for name, request in UNKNOWN.items():
            self.assertEqual(self.answered(guard, request), UNSUPPORTED, name)

    def test_neither(self) -> None:
        """With neither right the target hears nothing at all."""
        guard = self.guard()
        self.assertEqual(guard.from_client(text(b"\1" + (3).to_bytes(4, "big"))), b"")
        self.assertEqual(guard.answers(), text(b"\2" + (3).to_bytes(4, "big")))
        for name, request in {**READS, **WRITES, **EITHER}.items():
            self.assertEqual(self.answered(guard, request), DENIED, name)

    def test_version(self) -> None:
        """A client that speaks a later version is held to the one that is read here."""
        begun = text(b"\1" + (6).to_bytes(4, "big") + text(b"more") + text(b"1"))
        onward = self.guard(SFTP_READ).from_client(begun)
        self.assertEqual(onward, text(b"\1" + (3).to_bytes(4, "big")))

    def test_answers_that_wait(self) -> None:
        """Denials behind a packet that its host never ends are not kept without number."""
        guard = SftpGuard(SessionRights("ada", frozenset({SFTP_READ})), lambda _: None)
        guard.from_target(b"\0")
        denied = WRITES["remove"] * 1000
        for _ in range(16):
            guard.from_client(denied)
        self.assertRaises(Malformed, guard.from_client, denied)

    def test_sizes(self) -> None:
        """A packet that is too short to be one, or too long to be kept, ends it."""
        for size in (0, 4, LONGEST + 1, 1 << 31):
            self.assertRaises(Malformed, self.guard(SFTP_READ).from_client, size.to_bytes(4, "big"))

    @given(
        st.lists(st.sampled_from([*READS.values(), *WRITES.values(), *EITHER.values()])),
        st.lists(st.binary(max_size=40)),
        st.lists(st.integers(1, 60), min_size=1),
    )
    @settings(max_examples=examples(60), deadline=None)
    def test_pieces(self, requests: list[bytes], answers: list[bytes], sizes: list[int]) -> None:
        """In whatever pieces it comes: allowed requests pass whole and in order, answers too."""
        guard = self.guard(SFTP_READ)
        came, said = b"".join(requests), b"".join(map(text, answers))
        passed, told, at, turn = b"", b"", 0, 0
        while at < max(len(came), len(said)):
            size = sizes[turn % len(sizes)]
            passed += guard.from_client(came[at : at + size])
            told += guard.answers()
            told += guard.from_target(said[at : at + size])
            at, turn = at + size, turn + 1
        told += guard.answers()
        denied = [one for one in requests if one in WRITES.values()]
        self.assertEqual(passed, b"".join(one for one in requests if one not in denied))
        whole = []
        while told:
            size = int.from_bytes(told[:4], "big")
            whole.append(told[4 : 4 + size])
            told = told[4 + size :]
        ours = [one for one in whole if b"sshSftpWrite" in one]
        self.assertEqual(len(ours), len(denied))
        self.assertEqual([one for one in whole if b"sshSftpWrite" not in one], answers)

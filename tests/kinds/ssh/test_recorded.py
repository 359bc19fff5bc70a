"""What an SSH session records, and what becomes of one that cannot be recorded."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.conch.error import ConchError
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.ssh.conch import NS
from svc.kinds.ssh.connection import MOST_CHANNELS, WINDOW
from svc.kinds.ssh.recorded.lines import CastLines
from svc.kinds.ssh.recorded.session import RecordMode, mode_of
from svc.kinds.ssh.rights import UNRECORDED, SessionRights
from tests.kinds.ssh.memory import ALL, Client, ClientChannel, Scene
from tests.support.examples import examples
from tests.support.proof import proves
from tests.support.recording import MemoryRecorder


def _size(width: int, height: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in (width, height, 0, 0))


def _lines(scene: Scene) -> list[Any]:
    [made] = scene.recorder.made
    return [json.loads(line) for line in made.text.splitlines()]


class Deaf(Client):
    """A client that does not heed that the other end leaves."""

    def ssh_DISCONNECT(self, packet: bytes) -> None:
        pass


class ChannelTests(SynchronousTestCase):
    """What is written down."""

    @proves("G-OPEN-74")
    def test_terminal(self) -> None:
        """Output, errors and sizes, in order; what is typed only where that is wanted."""
        for is_wanted in (False, True):
            scene = Scene(records_input=is_wanted)
            scene.begin()
            channel = scene.open(ClientChannel())
            scene.ask(channel, b"pty-req", NS(b"xterm") + _size(99, 33) + NS(b""))
            scene.ask(channel, b"shell")
            [host] = scene.host_channels
            channel.write(b"secret\r")
            scene.flush()
            scene.clock.advance(1.5)
            host.write("h\u00e9llo\r\n".encode())
            scene.ask(channel, b"window-change", _size(50, 10))
            host.writeExtended(1, b"err")
            host.leave(0)
            scene.flush()
            head, *events = _lines(scene)
            self.assertEqual((head["version"], head["width"], head["height"]), (2, 99, 33))
            self.assertEqual(head["env"], {"TERM": "xterm"})
            typed = [[0.0, "i", "secret\r"]] if is_wanted else []
            rest = [[1.5, "o", "h\u00e9llo\r\n"], [1.5, "r", "50x10"], [1.5, "o", "err"]]
            self.assertEqual(events[: len(typed)], typed)
            self.assertCountEqual(events[len(typed) :], rest)
            self.assertTrue(scene.recorder.made[0].ended)

    def test_command(self) -> None:
        """A command is named, and only the beginning of what it prints is kept."""
        scene = Scene()
        scene.begin()
        channel = scene.run(b"cat big")
        [host] = scene.host_channels
        host.write(b"x" * 700)
        host.write(b"y" * 700)
        host.write(b"z" * 700)
        host.leave(0)
        scene.flush()
        head, *events = _lines(scene)
        self.assertEqual(head["command"], "cat big")
        printed = "".join(text for _, code, text in events if code == "o")
        self.assertEqual(printed, "x" * 700 + "y" * 300)
        self.assertEqual(
            [text for _, code, text in events if code == "m"], ["svc: the rest is not recorded"]
        )
        self.assertEqual(scene.recorder.made[0].unrecorded, 1100)
        self.assertEqual(len(channel.said), 2100)

    def test_files(self) -> None:
        """Operations on files are told with their paths, and whether they were denied."""
        scene = Scene(rights=ALL - {"sftp_write"})
        scene.begin()
        channel = scene.open(ClientChannel())
        scene.ask(channel, b"subsystem", NS(b"sftp"))
        number = (7).to_bytes(4, "big")
        for kind, rest in (
            (3, NS(b"/etc/passwd") + (1).to_bytes(4, "big") + bytes(4)),
            (13, NS(b"/etc/shadow")),
        ):
            body = bytes((kind,)) + number + rest
            channel.write(len(body).to_bytes(4, "big") + body)
        scene.flush()
        head, opened, removed = _lines(scene)
        self.assertEqual(head["svc_recording"], "sftp")
        self.assertEqual((opened["operation"], opened["path"]), ("open", "/etc/passwd"))
        self.assertEqual((opened["reads"], opened["writes"]), (True, False))
        self.assertEqual((removed["operation"], removed["denied"]), ("remove", "sftp_write"))

    def test_files_renamed(self) -> None:
        """What OpenSSH asks for in the place of SFTP's own operations is told as well."""
        scene = Scene()
        scene.begin()
        channel = scene.open(ClientChannel())
        scene.ask(channel, b"subsystem", NS(b"sftp"))
        for name, paths in (
            (b"posix-rename@openssh.com", NS(b"/a") + NS(b"/b")),
            (b"hardlink@openssh.com", NS(b"/b") + NS(b"/c")),
            (b"lsetstat@openssh.com", NS(b"/c") + bytes(4)),
        ):
            body = bytes((200,)) + bytes(4) + NS(name) + paths
            channel.write(len(body).to_bytes(4, "big") + body)
        scene.flush()
        told = [(x["operation"], x["path"], x.get("to")) for x in _lines(scene)[1:]]
        self.assertEqual(
            told, [("rename", "/a", "/b"), ("link", "/b", "/c"), ("setstat", "/c", None)]
        )

    def test_shell_without_terminal(self) -> None:
        """It is recorded whole, and what is typed where that is wanted: nothing echoes it."""
        scene = Scene(records_input=True)
        scene.begin()
        channel = scene.open(ClientChannel())
        scene.ask(channel, b"shell")
        [host] = scene.host_channels
        channel.write(b"cat big\n")
        scene.flush()
        host.write(b"x" * 3000)
        scene.flush()
        events = _lines(scene)[1:]
        said = {code: "".join(x[2] for x in events if x[1] == code) for code in "io"}
        self.assertEqual(said, {"i": "cat big\n", "o": "x" * 3000})

    def test_not_opened_at_the_host(self) -> None:
        """Where the host opens no channel its recording ends, and is not waited for."""
        scene = Scene()
        scene.begin()
        [user] = scene.realm.users
        user.is_full = True
        channel = scene.open(ClientChannel())
        self.assertTrue(channel.failure)
        self.assertEqual(len(self.flushLoggedErrors(ConchError)), 1)
        self.assertEqual([one.ended for one in scene.recorder.made], [True])

    def test_slow_disk(self) -> None:
        """A disk that is behind holds up the host, until it is ahead again."""
        scene = Scene()
        scene.begin()
        scene.run(b"yes")
        [made] = scene.recorder.made
        made.is_behind = True
        [host] = scene.host_channels
        host.write(b"y" * (4 << 20))
        scene.flush()
        self.assertGreater(len(host.buf), 0)
        made.is_behind = False
        for go_on in made.waiting:
            go_on()
        scene.flush()
        self.assertEqual(len(host.buf), 0)

    def test_slow_disk_of_input(self) -> None:
        """It holds up the client as well, where what it sends is recorded."""
        scene = Scene(records_input=True)
        scene.begin()
        channel = scene.open(ClientChannel())
        scene.ask(channel, b"shell")
        [made] = scene.recorder.made
        made.is_behind = True
        channel.write(b"y" * (4 << 20))
        scene.flush()
        [host] = scene.host_channels
        self.assertLessEqual(len(host.came), WINDOW)
        self.assertEqual(len(made.waiting), 1)
        made.is_behind = False
        for go_on in made.waiting:
            go_on()
        scene.flush()
        self.assertEqual(len(host.came), 4 << 20)


class RequiredTests(SynchronousTestCase):
    """Default deny: whoever has to be recorded does nothing that is not."""

    def test_not_opened(self) -> None:
        """The session does not open where nothing can be recorded."""
        scene = Scene(recorder=MemoryRecorder("its disk is full"))
        failure = scene.begin()
        self.assertEqual(failure.value.reason, "recording_unavailable")

    def test_no_channel(self) -> None:
        """A channel is not opened at the host, and the person is told why."""
        scene = Scene()
        scene.begin()
        scene.recorder.refusal = "its disk is full"
        channel = scene.open(ClientChannel())
        self.assertIn(b"has to be recorded, and cannot be: its disk is full", channel.failure[0])
        self.assertEqual(scene.host_channels, [])

    def test_ended(self) -> None:
        """A session that cannot be recorded any more ends."""
        scene = Scene()
        scene.begin()
        scene.run(b"yes")
        scene.recorder.made[0].failed("its disk is full")
        scene.flush()
        told = b"".join(text for _, text in scene.client.errors)
        self.assertIn(b"svc: this session has to be recorded, and cannot be: its disk", told)
        self.assertTrue(scene.session.is_over)

    def test_ended_for_slow_readers(self) -> None:
        """Whoever reads nothing is sent nothing more, and what runs at the host is let go."""
        scene = Scene(client_type=Deaf)
        scene.begin()
        channel = scene.run(b"yes")
        [host] = scene.host_channels
        scene.session.transport.pauseProducing()
        host.write(b"recorded")
        scene.flush()
        scene.recorder.made[0].failed("its disk is full")
        host.write(b"unrecorded")
        scene.flush()
        self.assertTrue(host.conn.transport.transport.disconnected)
        scene.session.transport.resumeProducing()
        scene.flush()
        self.assertEqual(channel.said, b"recorded")
        self.assertTrue(scene.session.is_over)

    def test_flood(self) -> None:
        """No more channels are opened at once than a session may have, however slow the disk."""
        scene = Scene()
        scene.begin()
        disk = scene.recorder.disk = Deferred()
        channels = [ClientChannel() for _ in range(MOST_CHANNELS + 6)]
        for channel in channels:
            scene.open(channel)
        self.assertEqual(scene.recorder.waiting, MOST_CHANNELS)
        self.assertEqual(sum(bool(one.failure) for one in channels), 6)
        disk.callback(None)
        scene.flush()
        self.assertEqual(sum(one.is_open for one in channels), MOST_CHANNELS)

    def test_gone_meanwhile(self) -> None:
        """A recording that begins once the session is over ends, and nothing is opened."""
        scene = Scene()
        scene.begin()
        disk = scene.recorder.disk = Deferred()
        scene.open(ClientChannel())
        scene.session.transport.loseConnection()
        disk.callback(None)
        scene.flush()
        self.assertEqual([one.ended for one in scene.recorder.made], [True])
        self.assertEqual(scene.host_channels, [])

    def test_best_effort(self) -> None:
        """Where a policy permits it a session goes on unrecorded, and that is counted."""
        for mode, refusal in ((RecordMode.BEST_EFFORT, "its disk is full"), (RecordMode.OFF, "")):
            scene = Scene(mode=mode, recorder=MemoryRecorder(refusal))
            scene.begin()
            scene.run(b"true")
            self.assertEqual(scene.host_channels[0].asked, [(b"exec", NS(b"true"))])
            self.assertIn(UNRECORDED, scene.used)
            self.assertEqual(scene.recorder.made, [])

    def test_mode(self) -> None:
        """The configuration counts for those alone who may go unrecorded."""
        free = SessionRights("ada", frozenset({UNRECORDED}))
        bound = SessionRights("ada", ALL - {UNRECORDED})
        for mode in RecordMode:
            self.assertIs(mode_of(mode, free), mode)
            self.assertIs(mode_of(mode, bound), RecordMode.REQUIRED)


class LineTests(SynchronousTestCase):
    """Bytes become text."""

    def test_unshown(self) -> None:
        """What a terminal might obey is spelled out: a recording may be looked at as it is."""
        text = "\x1b]52;c;x\x07\x9d\x9b6n\x7f\u202e\u2066h\u00e9llo"
        line = CastLines(is_raw=False).printed(0.0, text.encode())
        self.assertEqual(json.loads(line)[2], text)
        self.assertEqual(re.sub("[ -~\n]", "", line.decode()), "\u00e9")

    @given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 7))
    @settings(max_examples=examples(200))
    def test_pieces(self, text: str, size: int) -> None:
        """However it is cut into pieces, what was printed is the same text."""
        data, lines = text.encode(), CastLines(is_raw=False)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        made = b"".join(lines.printed(0.0, piece) for piece in pieces)
        self.assertEqual("".join(json.loads(line)[2] for line in made.splitlines()), text)

    @given(st.lists(st.sampled_from([b"\r", b"\n", b"a"]), max_size=8), st.integers(1, 3))
    @settings(max_examples=examples(200))
    def test_line_feeds(self, parts: list[bytes], size: int) -> None:
        """Without a terminal each line feed gets the carriage return that a terminal adds, once."""
        data, lines = b"".join(parts), CastLines(is_raw=True)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        made = b"".join(lines.printed(0.0, piece) for piece in pieces)
        said = "".join(json.loads(line)[2] for line in made.splitlines())
        self.assertEqual(said, data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n").decode())

"""What playing a recording may do to an operator's terminal (rule R38)."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.cli.playback import RESET, Playback, TerminalFilter
from tests.support.examples import examples

HARMFUL = (
    "\x1b]52;c;aGk=\x07",  # the clipboard
    "\x1b]0;title\x1b\\",
    "\x1b]8;;http://evil\x07",
    "\x1bP$q\x1b\\",  # a report, typed by the terminal
    "\x1b[6n",
    "\x1b[c",
    "\x1b[21t",
    "\x1b[?1049h",
    "\x1b[?1000h",
    "\x1bc",
    "\x05",
    "\x9b6n",
)
PASSED = ("plain", "h\u00e9llo\r\n", "\x1b[31m", "\x1b[2J\x1b[1;1H", "\t", "\b", "\x1b[?25l")
_SAFE = re.compile(
    r"(?:\x1b\[[0-9;:]*[ABCDEFGHJKSTLMPX@dfmr]|\x1b\[\?(?:25|7)[hl]|\x1b[78M=>]"
    r"|[^\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f])*\Z"
)


class FilterTests(SynchronousTestCase):
    """What passes."""

    def test_known(self) -> None:
        """Text, colours and movements pass; what sets, asks or switches does not."""
        for text in PASSED:
            self.assertEqual(TerminalFilter().passed(text), text)
        for text in HARMFUL:
            for at in range(len(text) + 1):
                one = TerminalFilter()
                shown = one.passed("a" + text[:at]) + one.passed(text[at:] + "b")
                self.assertRegex(shown, _SAFE)
                self.assertTrue(shown.startswith("a"))
                self.assertNotIn("evil", shown)
                self.assertNotIn("aGk", shown)

    @given(
        st.lists(
            st.sampled_from([*HARMFUL, *PASSED, "\x1b", "[", "]", "\x1b\\", "?", "1;", "n", "m"]),
            max_size=8,
        ),
        st.integers(1, 9),
    )
    @settings(max_examples=examples(300))
    def test_pieces(self, parts: list[str], size: int) -> None:
        """However it comes in pieces, nothing else reaches the terminal."""
        text, one = "".join(parts), TerminalFilter()
        shown = "".join(one.passed(text[at : at + size]) for at in range(0, len(text), size))
        self.assertRegex(shown, _SAFE)


class PlaybackTests(SynchronousTestCase):
    """When it is printed."""

    def play(self, events: list[list[object]], **more: float) -> tuple[str, list[float]]:
        waited: list[float] = []
        playback = Playback(
            **{"speed": 1.0, "idle": 2.0, **more},
            wait=waited.append,
        )
        lines = [json.dumps(one).encode() for one in [{"version": 2}, *events]]
        data = b"\n".join(lines) + b"\n"
        shown = [
            text
            for at in range(0, len(data), 7)
            for text in playback.heard(data[at : at + 7], is_cast=True)
        ]
        return "".join([*shown, playback.reset()]), waited

    def test_pace(self) -> None:
        """As it happened, faster where that is wanted, and without long pauses."""
        events: list[list[object]] = [
            [1.0, "o", "a"],
            [1.5, "i", "x"],
            [9.0, "o", "b"],
            [8.0, "o", "c"],
        ]
        self.assertEqual(self.play(events), ("abc" + RESET, [1.0, 0.5, 2.0]))
        self.assertEqual(self.play(events, speed=2.0)[1], [0.5, 0.25, 1.0])
        self.assertEqual(self.play(events, idle=0.0)[1], [])

    def test_malformed(self) -> None:
        """What is no event is passed over."""
        events: list[list[object]] = [[], ["x", "o", "a"], [0, "o"], [0, "o", 7], [0, "o", "b"]]
        events.insert(0, [10**400, "o", "a"])
        self.assertEqual(self.play(events)[0], "b" + RESET)
        playback = Playback(speed=1.0, idle=0.0, wait=self.fail)
        lines = b"{}\n" + b"[" * (1 << 16) + b'\n[0, "o", "b"]\n'
        self.assertEqual("".join(playback.heard(lines, is_cast=True)), "b")

    def test_files(self) -> None:
        """Lines of transferred files are shown as they are, escaped."""
        playback = Playback(speed=1.0, idle=1.0, wait=self.fail)
        shown = "".join(playback.heard(b'{"path": "\x1b]0;x\x07"}\n', is_cast=False))
        self.assertNotIn("\x1b", shown)

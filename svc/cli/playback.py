r"""What a recording prints on an operator's terminal, and when (rule R38).

Whoever was recorded may have printed anything.  Text passes, and of control sequences only those
that colour it or move the cursor: no ``OSC`` (titles, clipboards, links), no ``DCS``, no reports
that a terminal would answer as if they were typed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from attrs import define, field

from svc.telemetry.escape import escaped

_ALLOWED = re.compile(
    r"\x1b\[[0-9;:]{0,64}[ABCDEFGHJKSTLMPX@dfmr]|\x1b\[\?(?:25|7)[hl]|\x1b[78M=>]"
)
_LONG = re.compile(
    r"\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)|[\x90\x98\x9d-\x9f].*?(?:\x07|\x9c|\Z)", re.S
)
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_MOST_HELD = 4096
RESET = "\x1b[0m\x1b[?25h"


@define
class TerminalFilter:
    """Passes what only shows; a sequence may come in two pieces."""

    _held: str = field(default="", init=False)

    def passed(self, text: str) -> str:
        """What of it reaches the terminal now."""
        text, self._held = self._held + text, ""
        shown, at = [], 0
        while (found := text.find("\x1b", at)) >= 0:
            shown.append(_CONTROL.sub("", text[at:found]))
            whole = _LONG.match(text, found) or _SEQUENCE.match(text, found)
            if whole is None or (whole.end() == len(text) and _is_open(whole[0])):
                # Not at its end: what is too long for a sequence is none, and its escape goes.
                if len(text) - found <= _MOST_HELD:
                    self._held = text[found:]
                    return "".join(shown)
                at = found + 1
                continue
            if _ALLOWED.fullmatch(whole[0]):
                shown.append(whole[0])
            at = whole.end()
        shown.append(_CONTROL.sub("", text[at:]))
        return "".join(shown)


def _is_open(sequence: str) -> bool:
    """Whether a long sequence has not come to its end."""
    return sequence[1:2] in "]PX^_" and not sequence.endswith(("\x07", "\x1b\\"))


@define
class Playback:
    """Plays one.

    Attributes:
        speed: How many times as fast.
        idle: The longest pause in seconds, before *speed*.
        wait: Waits for so many seconds.
    """

    speed: float
    idle: float
    wait: Callable[[float], object]
    _rest: bytes = field(default=b"", init=False)
    _at: float = field(default=0.0, init=False)
    _filter: TerminalFilter = field(factory=TerminalFilter, init=False)
    _is_first: bool = field(default=True, init=False)

    def heard(self, data: bytes, *, is_cast: bool) -> Iterator[str]:
        """What to print next, each when its time has come.

        Args:
            is_cast: It is an asciicast; otherwise its lines are shown as they are.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not is_cast:
                yield escaped(line.decode("utf-8", "replace")) + "\n"
                continue
            if self._is_first:
                self._is_first = False
                continue
            yield from self._event(line)

    def reset(self) -> str:
        """What puts the terminal right when it is over."""
        return "" if self._is_first else RESET

    def _event(self, line: bytes) -> Iterator[str]:
        try:
            said: Any = json.loads(line)
            at, code, text = float(said[0]), said[1], said[2]
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return
        pause, self._at = min(max(0.0, at - self._at), self.idle), at
        if pause:
            self.wait(pause / self.speed)
        if code == "o" and isinstance(text, str):
            yield self._filter.passed(text)

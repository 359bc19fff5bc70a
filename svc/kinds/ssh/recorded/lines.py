"""The text of a recording: asciicast v2 of a terminal or a command, JSON lines of files.

Pure.  Whatever bytes a program writes, the text is UTF-8: what is none is shown as U+FFFD.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping

from attrs import define, field, frozen

WIDTH, HEIGHT = 80, 24
_MOST_SIDE = 10_000
_MOST_TEXT = 4096
_UNSHOWN = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal might obey, or show the other way round; JSON leaves it as it is."""


@frozen
class Terminal:
    """A terminal as the client asked for it."""

    name: str = ""
    width: int = WIDTH
    height: int = HEIGHT


@define
class CastLines:
    """The lines of one asciicast.

    Attributes:
        is_raw: What is printed comes without a terminal, so that line feeds stand alone.
    """

    is_raw: bool
    _decoders: dict[str, codecs.IncrementalDecoder] = field(factory=dict, init=False)
    _was_return: bool = field(default=False, init=False)

    def head(self, *, began_at: float, title: str, command: str, terminal: Terminal) -> bytes:
        """The first line."""
        said: dict[str, object] = {
            "version": 2,
            "width": terminal.width,
            "height": terminal.height,
            "timestamp": int(began_at),
            "title": title,
        }
        if command:
            said["command"] = command[:_MOST_TEXT]
        if terminal.name:
            said["env"] = {"TERM": terminal.name}
        return _line(said)

    def printed(self, at: float, data: bytes, stream: str = "out") -> bytes:
        """What was printed; nothing where only a part of a character came."""
        if self.is_raw:
            data = self._returned(data)
        return self._event(at, "o", self._text(stream, data))

    def typed(self, at: float, data: bytes) -> bytes:
        """What was typed."""
        return self._event(at, "i", self._text("in", data))

    def resized(self, at: float, width: int, height: int) -> bytes:
        """The terminal has another size."""
        return self._event(at, "r", f"{width}x{height}")

    def noted(self, at: float, text: str) -> bytes:
        """A mark of ours."""
        return self._event(at, "m", text)

    def _event(self, at: float, code: str, text: str) -> bytes:
        return _line([round(at, 6), code, text]) if text else b""

    def _text(self, stream: str, data: bytes) -> str:
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._decoders[stream] = decoder
        return decoder.decode(data)

    def _returned(self, data: bytes) -> bytes:
        """With the carriage returns that a terminal would have added."""
        found = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        if self._was_return and data.startswith(b"\n"):
            found = found[1:]
        self._was_return = data.endswith(b"\r")
        return found


def files_head(*, began_at: float, title: str) -> bytes:
    """The first line of a recording of transferred files."""
    return _line(
        {"svc_recording": "sftp", "version": 1, "timestamp": int(began_at), "title": title}
    )


def file_line(at: float, operation: str, facts: Mapping[str, object]) -> bytes:
    """One operation on a file."""
    return _line({"time": round(at, 6), "operation": operation, **facts})


def side(number: int, otherwise: int) -> int:
    """A width or height as a recording may have it."""
    return number if 0 < number <= _MOST_SIDE else otherwise


def text_of(data: bytes) -> str:
    """Bytes of a peer, as text of bounded length."""
    return data[:_MOST_TEXT].decode("utf-8", "replace")


def _line(value: object) -> bytes:
    # A lone half of a pair cannot come of bytes; others are written as they are.
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _UNSHOWN.sub(lambda one: f"\\u{ord(one[0]):04x}", text).encode("utf-8") + b"\n"

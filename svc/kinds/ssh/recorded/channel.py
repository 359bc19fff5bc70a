"""Hears what passes in one channel, and writes it down."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from svc.interfaces.recordings import ILiveRecording
from svc.kinds.ssh.conch import getNS
from svc.kinds.ssh.recorded.lines import (
    CastLines,
    Terminal,
    file_line,
    files_head,
    side,
    text_of,
)

_MOST_EARLY = 16


@define(eq=False)
class ChannelRecording:
    """Of one channel of type ``session``.

    Attributes:
        seconds: A clock that only goes forward.
        records_input: What is typed at a terminal or to a shell is recorded, passwords with it.
        of_command: Bytes that are recorded of what a command without a terminal prints.
        ended: Told once it has.
    """

    live: ILiveRecording
    title: str
    seconds: Callable[[], float]
    records_input: bool
    of_command: int
    ended: Callable[[ChannelRecording], object]
    _is_whole: bool = field(default=False, init=False)
    _terminal: Terminal | None = field(default=None, init=False)
    _lines: CastLines | None = field(default=None, init=False)
    _is_files: bool = field(default=False, init=False)
    _early: list[tuple[bytes, str]] = field(factory=list, init=False)
    _printed: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)
    _began: float = field(init=False)

    @_began.default
    def _now(self) -> float:
        return self.seconds()

    @property
    def is_behind(self) -> bool:
        """Whether no more should be printed now."""
        return self.live.is_behind

    def terminal(self, data: bytes) -> None:
        """A terminal was asked for."""
        name, rest = getNS(data)
        self._terminal = Terminal(text_of(name), *_size(rest, Terminal()))

    def resized(self, data: bytes) -> None:
        """It has another size."""
        if self._terminal is None:
            return
        width, height = _size(data, self._terminal)
        if self._lines is None:
            self._terminal = Terminal(self._terminal.name, width, height)
        else:
            self.live.write(self._lines.resized(self._at(), width, height))

    def begun(self, command: bytes = b"") -> None:
        """A shell, or this command, runs."""
        # A shell is as good as a terminal, whether it has one or not.
        self._is_whole = self._terminal is not None or not command
        self._lines = CastLines(is_raw=self._terminal is None)
        self.live.write(
            self._lines.head(
                began_at=self.live.began_at,
                title=self.title,
                command=text_of(command),
                terminal=self._terminal or Terminal(),
            )
        )
        early, self._early = self._early, []
        for data, stream in early:
            self.printed(data, stream)

    def files_begun(self) -> None:
        """Files are transferred."""
        self._is_files = True
        self.live.write(files_head(began_at=self.live.began_at, title=self.title))

    def printed(self, data: bytes, stream: str = "out") -> None:
        """The client is sent this."""
        if self._is_files:
            return
        if self._lines is None:
            if len(self._early) < _MOST_EARLY:  # refusals of ours, before anything runs
                self._early.append((data, stream))
            return
        if not self._is_whole:
            left = max(0, self.of_command - self._printed)
            self._printed += len(data)
            if left < len(data) and not self._left_out:
                self.live.write(self._lines.printed(self._at(), data[:left], stream))
                self.live.write(self._lines.noted(self._at(), "svc: the rest is not recorded"))
                self._left_out = len(data) - left
                return
            if left < len(data):
                self._left_out += len(data)
                return
        self.live.write(self._lines.printed(self._at(), data, stream))

    def typed(self, data: bytes) -> None:
        """The client sends this."""
        if self.records_input and self._lines is not None and self._is_whole:
            self.live.write(self._lines.typed(self._at(), data))

    def file(self, operation: str, **facts: object) -> None:
        """An operation on a file was asked for."""
        self.live.write(file_line(self._at(), operation, facts))

    def end(self) -> None:
        """The channel is closed."""
        self.live.end(unrecorded=self._left_out)
        self.ended(self)

    def _at(self) -> float:
        return self.seconds() - self._began


def _size(data: bytes, otherwise: Terminal) -> tuple[int, int]:
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (0, 4))
    return side(width, otherwise.width), side(height, otherwise.height)

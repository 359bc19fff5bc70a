"""Edits of a gated session's bytes: the Proxy requests them, and the receiver makes them.

Pure.  A gate reads and does not write (rule R24): it names an edit of the
kind's closed list and the bytes it is about, and the side of the kind at the
other end of the stream says what takes their place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from svc.errors import Malformed
from svc.model.session.ending import DECISION_REFUSED, EDIT_REFUSED

MAX_EDIT_BYTES = 64 * 1024
"""The longest stretch that one edit is about: it is held until all of it has come."""

MAX_PENDING = 256
"""Edits of bytes that have not come yet."""

MAX_VALUES = 8
MAX_VALUE_CHARACTERS = 1024
SESSION_UID = "session_uid"
"""Among the person's own values: the session that the bytes are of."""


@frozen
class Edit:
    """One edit as it travels.

    Attributes:
        offset: Of the first byte it is about, counted from the stream's first.
        size: How many bytes; 0: it inserts before the next byte.
        name: One of those the receiver knows.
        values: What the receiver puts into it.
    """

    offset: int
    size: int
    name: str
    values: Mapping[str, str] = field(factory=dict)


MakeEdit = Callable[[bytes, Mapping[str, str]], bytes]
"""From the bytes that came and the edit's values to what takes their place."""


@define
class StreamEdits:
    """The edits of one stream, at its receiver.

    Attributes:
        known: The closed list of this side of the kind.
        own: Values that this side adds to those of each edit, whatever the Proxy says under their
            names.
        is_last_made: What was passed on last is an edit's, and not the peer's own.
    """

    known: Mapping[str, MakeEdit]
    own: Mapping[str, str] = field(factory=dict)
    is_last_made: bool = field(default=False, init=False)
    _at: int = field(default=0, init=False)
    _announced: int = field(default=0, init=False)
    _pending: deque[tuple[Edit, bool]] = field(factory=deque, init=False)
    _held: bytearray = field(factory=bytearray, init=False)

    def announce(self, edit: Edit, *, adds: bool = True) -> bytes:
        """Take an edit of bytes that are still to come, or make an insertion.

        Args:
            edit: As the Proxy sent it.
            adds: Something may take the bytes' place.

        Returns:
            What an insertion adds, to be passed on at once: the bytes after it may never come.

        Raises:
            Malformed: it is not of the list, too large, or not about what comes next in order;
                or the kind's side could not make it.
        """
        if edit.name not in self.known:
            raise _refused("the Proxy requested an unknown edit of a gated session")
        if not 0 <= edit.size <= MAX_EDIT_BYTES or len(self._pending) >= MAX_PENDING:
            raise _refused("an edit of a gated session is too large, or one of too many")
        if len(edit.values) > MAX_VALUES or any(
            len(value) > MAX_VALUE_CHARACTERS for value in edit.values.values()
        ):
            raise _refused("an edit of a gated session adds too many bytes")
        if edit.offset < max(self._at, self._announced):
            raise _refused("an edit of a gated session concerns bytes that have already passed")
        if not edit.size:
            if self._pending or edit.offset != self._at:
                raise _refused("an insertion into a gated session is not at what comes next")
            return self._made(edit, adds)
        self._announced = edit.offset + edit.size
        self._pending.append((edit, adds))
        return b""

    def apply(self, data: bytes) -> bytes:
        """What is to be passed on for *data*, the next bytes of the stream.

        Raises:
            Malformed: the kind's side could not make an edit.
        """
        if not self._pending:
            self._at += len(data)
            self.is_last_made = self.is_last_made and not data
            return data
        passed, rest = bytearray(), memoryview(data)
        while rest:
            if not self._pending:
                self._at += len(rest)
                passed += rest
                self.is_last_made = False
                break
            edit, adds = self._pending[0]
            before = min(max(0, edit.offset - self._at), len(rest))
            passed += rest[:before]
            wanted = edit.size - len(self._held) if self._at + before >= edit.offset else 0
            mine = rest[before : before + wanted]
            self._held += mine
            self._at += before + len(mine)
            rest = rest[before + len(mine) :]
            if len(self._held) == edit.size:
                self._pending.popleft()
                passed += self._made(edit, adds)
                self._held.clear()
        return bytes(passed)

    def _made(self, edit: Edit, adds: bool) -> bytes:
        self.is_last_made = True
        try:
            values = {**edit.values, **self.own} if self.own else edit.values
            made = self.known[edit.name](bytes(self._held), values)
        except Exception as error:
            # Of a plug-in's: whoever reads for all sessions of a connection goes on.
            fault = type(error).__name__
            raise _refused(f"the edit {edit.name} of a gated session failed: {fault}") from error
        if made and not adds:
            raise Malformed(
                "an edit of a gated session replaces what was not denied", reason=DECISION_REFUSED
            )
        return made

    def end(self) -> None:
        """Nothing more comes.

        Raises:
            Malformed: in the midst of bytes that were to be edited.
        """
        if self._held or self._pending:
            raise _refused("a gated session ended in the middle of bytes that were to be edited")


def _refused(text: str) -> Malformed:
    return Malformed(text, reason=EDIT_REFUSED)

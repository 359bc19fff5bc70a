"""Messages of a client and of a server, and a session of the kind played in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from svc.compose.drop_ins import KindSide, load_kinds
from svc.kinds.postgres.messages import message
from svc.testing.gating import Allows, PlayedSession

POSTGRES = load_kinds(["postgres"], *KindSide).by_name["postgres"]
PARAMETERS = {"database": "shop", "db_role": "app"}

READY = message(b"Z", b"I")
GREETING = message(b"R", bytes(4)) + message(b"S", b"a\0b\0") + READY
SYNC = message(b"S", b"")
FLUSH = message(b"H", b"")
PARSED, BOUND, CLOSED = (message(kind, b"") for kind in (b"1", b"2", b"3"))


def query(text: str) -> bytes:
    """A simple query."""
    return message(b"Q", text.encode() + b"\0")


def parse(name: str, text: str) -> bytes:
    """A Parse."""
    return message(b"P", name.encode() + b"\0" + text.encode() + b"\0\0\0")


def bind(portal: str, name: str, more: bytes = bytes(6)) -> bytes:
    """A Bind without parameters."""
    return message(b"B", portal.encode() + b"\0" + name.encode() + b"\0" + more)


def execute(portal: str = "", most: int = 0) -> bytes:
    """An Execute."""
    return message(b"E", portal.encode() + b"\0" + most.to_bytes(4, "big"))


def describe(name: str) -> bytes:
    """A Describe of a statement."""
    return message(b"D", b"S" + name.encode() + b"\0")


def close(name: str) -> bytes:
    """A Close of a statement."""
    return message(b"C", b"S" + name.encode() + b"\0")


def done(tag: str) -> bytes:
    """A CommandComplete."""
    return message(b"C", tag.encode() + b"\0")


def error(code: str, text: str) -> bytes:
    """An ErrorResponse with a position."""
    fields = {"S": "ERROR", "V": "ERROR", "C": code, "M": text, "P": "1"}
    return message(
        b"E", b"".join(k.encode() + v.encode() + b"\0" for k, v in fields.items()) + b"\0"
    )


def complaint(word: str) -> bytes:
    """What a server says about a word that no statement begins with."""
    return error("42601", f'syntax error at or near "{word}"')


def parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The messages of a stream."""
    while data:
        size = 1 + int.from_bytes(data[1:5], "big")
        yield chr(data[0]), data[5:size]
        data = data[size:]


def kinds(data: bytes) -> str:
    """The kinds of a stream's messages."""
    return "".join(kind for kind, _ in parts(data))


def no_ddl(action: str, context: Mapping[str, object]) -> bool:
    """A policy: nothing opaque and no DDL."""
    effects = context["effects"]
    assert isinstance(effects, frozenset | tuple)
    return action == "dbQuery" and "ddl" not in effects


class Talk:
    """A played session past its greeting.

    Attributes:
        allows: The policy; may be changed at any time.
    """

    def __init__(self, allows: Allows = no_ddl) -> None:
        self.allows = allows
        self.played = PlayedSession(
            POSTGRES, lambda action, context: self.allows(action, context), PARAMETERS
        )
        self.played.target_says(GREETING)
        self._sent = self._got = 0
        self.got()

    def asks(self, data: bytes) -> bytes:
        """What reaches the server of it."""
        self.played.person_says(data)
        return self.sent()

    def answers(self, data: bytes) -> bytes:
        """What reaches the client of it."""
        self.played.target_says(data)
        return self.got()

    def sent(self) -> bytes:
        """What reached the server since the last look."""
        heard = self.played.target_heard
        new, self._sent = heard[self._sent :], len(heard)
        return new

    def got(self) -> bytes:
        """What reached the client since."""
        heard = self.played.person_heard
        new, self._got = heard[self._got :], len(heard)
        return new

    @property
    def decided(self) -> list[tuple[str, str]]:
        """Action and decision of each record."""
        return [(str(one.cedar_action), str(one.decision)) for one in self.played.records]


def word_of(data: bytes) -> str:
    """The word of the denial in a request."""
    at = data.index(b"svc_denied_")
    while data[at + 11 : at + 12] == b"\0":
        at = data.index(b"svc_denied_", at + 1)
    return data[at : at + 43].decode()

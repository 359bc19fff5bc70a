"""Random clients: the same messages to a server itself and through the gate give the same answers.

What the policy denies is sent to the server itself as a text that it cannot read, so both fail in
the same place, and only the error differs.
"""

from __future__ import annotations

import os
import select
import socket
from random import Random
from urllib.parse import unquote, urlsplit

from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.messages import fields_of, message, startup_message
from tests.kinds.postgres.talk import (
    SYNC,
    Talk,
    bind,
    close,
    describe,
    execute,
    parse,
    parts,
    query,
)
from tests.support.postgres import connected, empty_database

BATCHES = 10_000 if os.environ.get("SVC_LONG") == "1" else 300
A_SESSION = 50
"""Batches of one session."""

DENIED = "DROP TABLE t"
SIMPLE = (
    "SELECT 1",
    "SELECT id + 0 FROM t ORDER BY 1 LIMIT 3",
    "INSERT INTO t VALUES (4)",
    "UPDATE t SET id = id WHERE id = 4",
    "SELECT 1/0",
    "SELECT 1; SELECT 2",
    "SELECT 1; SELECT 1/0; SELECT 3",
    "SELEC 1",
    "",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "PREPARE s1 AS SELECT 11",
    "PREPARE s2 AS SELECT id + 0 FROM t LIMIT 1",
    "EXECUTE s1",
    "EXECUTE s2",
    "DEALLOCATE s1",
    "DEALLOCATE ALL",
    "PREPARE s1 AS SELECT 12; EXECUTE s1",
    "SELECT 1/0; PREPARE s2 AS SELECT 13",
    DENIED,
    f"SELECT 1; {DENIED}",
    f"PREPARE s2 AS SELECT 1; {DENIED}",
)
PARSED = (
    "SELECT 1",
    "SELECT id + 0 FROM t ORDER BY 1",
    "INSERT INTO t VALUES (5)",
    "SELECT 1/0",
    "SELEC 1",
    "",
    "PREPARE s1 AS SELECT 14",
    "DEALLOCATE s2",
    DENIED,
)
NAMES = ("", "s1", "s2", "w")
UNKNOWN = {"26000", "34000"}
"""What a server says of a name that it does not have, and the gate denies as opaque."""


class Server:
    """A raw session at a server, past its login."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        directory = unquote(split.netloc.partition("@")[2])
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{directory}/.s.PGSQL.5432")
        user = split.username or ""
        self.send(startup_message({"user": user, "database": split.path[1:]}))
        heard = b""
        while not heard.endswith(message(b"Z", b"I")):
            heard += self.socket.recv(65536)

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def some(self, seconds: float) -> bytes:
        """What has come; nothing where nothing comes in time."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return b""
        return self.socket.recv(65536)


def at_server(text: str) -> str:
    """The text for the server itself."""
    return "svc_denied_there" if DENIED in text else text


def batch(random: Random, number: int) -> list[tuple[bytes, bytes]]:
    """Messages to the server itself and to the gate, and a last one whose answer is known."""
    made: list[tuple[bytes, bytes]] = []
    for _ in range(random.randint(1, 8)):
        name = random.choice(NAMES)
        portal = random.choice(("", "c"))
        kind = random.choice("QQPPPBBBEEEDCSHK")
        if kind == "Q":
            text = random.choice(SIMPLE)
            made.append((query(at_server(text)), query(text)))
        elif kind == "P":
            text = random.choice(PARSED)
            if name and " s" in text:
                name = "w"  # what executes, or prepares, another is not executed by SQL here
            made.append((parse(name, at_server(text)), parse(name, text)))
        elif kind == "K":
            row = b"".join((query("COPY t FROM STDIN"), message(b"d", b"6\n"), message(b"c", b"")))
            made += [(SYNC, SYNC), (row, row)]
        else:
            one = {
                "B": bind(portal, name),
                "E": execute(portal, random.choice((0, 0, 1))),
                "D": describe(name),
                "C": close(name),
                "S": SYNC,
                "H": message(b"H", b""),
            }[kind]
            made.append((one, one))
    # A portal ends with its transaction; those of a failed one are a server's own trouble.
    end = SYNC + query("ROLLBACK") if random.random() < 0.5 else SYNC
    last = end + query(f"ROLLBACK; SELECT 'batch {number}'")
    return [*made, (last, last)]


def normal(data: bytes) -> list[tuple[str, object]]:
    """Answers as they can be compared: of an error, its code alone."""
    return [
        (kind, fields_of(body)[b"C"].decode() if kind in "EN" else body)
        for kind, body in parts(data)
    ]


def is_same(direct: tuple[str, object], through: tuple[str, object]) -> bool:
    """Whether an answer through the gate is the server's own, or a denial in its place."""
    if through == ("E", "42501"):
        return direct == ("E", "42601") or (direct[0] == "E" and direct[1] in UNKNOWN)
    return direct == through


class RandomTests(SynchronousTestCase):
    """Two databases of one server, each with the same table."""

    def servers(self) -> tuple[Server, Server]:
        """A session at each."""
        urls = (empty_database(self), empty_database(self))
        for url in urls:
            with connected(url) as cursor:
                cursor.execute("CREATE TABLE t AS SELECT generate_series(1, 3) AS id")
        made = (Server(urls[0]), Server(urls[1]))
        for one in made:
            self.addCleanup(one.socket.close)
        return made

    def test_same_answers(self) -> None:
        """Batch after batch, however the bytes are cut and whenever the answers come."""
        for first in range(0, BATCHES, A_SESSION):
            direct, behind = self.servers()
            talk = Talk()
            for number in range(first, first + A_SESSION):
                random = Random(number)
                asked = batch(random, number)
                end = f"batch {number}".encode()
                expected = self.asked(direct, b"".join(one for one, _ in asked), end)
                got = self.through(talk, behind, random, b"".join(one for _, one in asked), end)
                self.compare(number, asked, normal(expected), normal(got))
            direct.socket.close()
            behind.socket.close()

    def compare(
        self,
        number: int,
        asked: list[tuple[bytes, bytes]],
        expected: list[tuple[str, object]],
        got: list[tuple[str, object]],
    ) -> None:
        """Of one batch."""
        same = len(expected) == len(got) and all(map(is_same, expected, got))
        if not same:
            lines = "\n".join(str(one) for _, one in asked)
            self.fail(f"batch {number}:\n{lines}\nserver: {expected}\ngate:   {got}")

    def asked(self, server: Server, data: bytes, end: bytes) -> bytes:
        """The server's own answers, up to that of the last message."""
        server.send(data)
        heard = b""
        while not is_whole(heard, end):
            more = server.some(10)
            self.assertTrue(more, heard)
            heard += more
        return heard

    def through(self, talk: Talk, server: Server, random: Random, data: bytes, end: bytes) -> bytes:
        """The same through the gate, in pieces."""
        heard, whole = b"", data
        while not is_whole(heard, end):
            if talk.played.failure is not None:
                lines = "\n".join(f"{kind} {body!r}" for kind, body in parts(whole))
                self.fail(f"{talk.played.failure}\n{lines}\ngate: {normal(heard)}")
            if data:
                size = random.choice((1, 7, 40, len(data)))
                piece, data = data[:size], data[size:]
                server.send(talk.asks(piece))
                if random.random() < 0.7:
                    continue
            more = server.some(0.002 if data else 10)
            self.assertTrue(more or data, heard)
            while more:
                size = random.choice((1, 9, len(more)))
                heard += talk.answers(more[:size])
                more = more[size:]
                server.send(talk.sent())
        return heard


def is_whole(heard: bytes, end: bytes) -> bool:
    """Whether the answer to the last message is there."""
    return end in heard and heard.endswith(message(b"Z", b"I"))

"""Which messages need a decision, as the Connector reads them."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.messages import LONGEST_TEXT, message
from svc.kinds.postgres.reader import PostgresRequests
from svc.model.session.ranges import Request
from tests.kinds.postgres.talk import SYNC, bind, describe, execute, parse, query

Denied = Callable[[int], bool]


class PostgresRequestsTests(SynchronousTestCase):
    def needing(self, *messages: bytes, denied: tuple[int, ...] = (), step: int = 7) -> list[int]:
        """Which of them need a decision, counted from 0, whether they come whole or in pieces."""
        found = self._needing(messages, denied, step)
        self.assertEqual(self._needing(messages, denied, len(b"".join(messages))), found)
        return found

    def _needing(
        self, messages: tuple[bytes, ...], denied: tuple[int, ...], step: int
    ) -> list[int]:
        data, reader = b"".join(messages), PostgresRequests()
        offsets = [len(b"".join(messages[:n])) for n in range(len(messages))]
        starts: list[Request] = []
        for at in range(0, len(data), step):
            is_denied: Denied = lambda start: offsets.index(start) in denied  # noqa: E731
            starts += reader.feed(data[at : at + step], is_denied)
        self.assertEqual(list(dict.fromkeys(start for start, _, _ in starts)), offsets)
        for start, needs, end in starts:
            size = len(messages[offsets.index(start)])
            self.assertEqual(end, start + min(size, LONGEST_TEXT) if needs else 0)
        return [offsets.index(start) for start, needs, _ in starts if needs]

    def test_simple(self) -> None:
        """A Query and a FunctionCall do; the plain end of a transaction does not."""
        asked = query("SELECT 1"), query("COMMIT"), message(b"F", bytes(14)), SYNC
        self.assertEqual(self.needing(*asked), [0, 2])
        for text in ("COMMIT; DROP TABLE a", "ROLLBACK TO a; b", "END /* */", "COMMIT\0x"):
            self.assertEqual(self.needing(query(text)), [0])
        self.assertEqual(self.needing(query("x" * 10_000), query("y"), step=1000), [0, 1])
        self.assertEqual(self.needing(query("x" * 100_000), query("y"), step=1000), [0, 1])

    def test_one_request_in_three_messages(self) -> None:
        """A Bind after its Parse, and the first Execute of its portal; all others do."""
        once = parse("s", "SELECT 1"), describe("s"), SYNC, bind("", "s"), execute(), SYNC
        self.assertEqual(self.needing(*once), [0])
        self.assertEqual(self.needing(*once, execute(), bind("", "s"), execute()), [0, 6, 7])
        self.assertEqual(self.needing(parse("s", "x"), bind("", "other")), [0, 1])
        self.assertEqual(self.needing(parse("s", "x"), bind("", "s"), denied=(0,)), [0, 1])
        self.assertEqual(self.needing(parse("", "COMMIT"), bind("", ""), execute()), [])
        self.assertEqual(self.needing(parse("", "x" * 10_000), bind("", "", bytes(9000))), [0])

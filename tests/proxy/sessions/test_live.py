"""Sessions that pass bytes are looked at again, and nobody keeps another from it."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Denied, Unavailable
from svc.proxy.sessions.live import Live, LiveSessions

MANY = 230


class LiveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.live = LiveSessions(self.clock)
        self.looked: list[str] = []
        self.assigned: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.refuses: set[str] = set()
        self.again, self.asked_at = 0, 0

    def add(self, uid: str, node: str = "n1") -> None:
        def look(at: list[str]) -> None:
            at.append(uid)
            if uid == "0" and self.again:
                self.again, self.asked_at = self.again - 1, len(self.looked)
                self.live.recheck()
            if uid in self.refuses:
                raise Denied("not any more", reason="revoked")

        def end(reason: str) -> None:
            self.ended.append((uid, reason))
            self.live.remove(uid)

        self.live.add(
            uid,
            Live(
                check=lambda: look(self.looked),
                break_off=end,
                node_id=node,
                check_assigned=lambda: look(self.assigned),
            ),
        )

    def all_turns(self) -> None:
        while self.clock.getDelayedCalls():
            self.clock.advance(0)

    def test_nobody_is_starved(self) -> None:
        """However often all are to be looked at again meanwhile, each has its turn in order."""
        uids = [str(number) for number in range(MANY)]
        self.again = 5  # the first one asks for all again each time it is looked at
        for uid in uids:
            self.add(uid)
        self.refuses = {uids[-1]}
        self.live.recheck()
        self.all_turns()
        self.assertEqual(self.looked[:MANY], uids)
        self.assertEqual(self.ended, [(uids[-1], "revoked")])
        last = self.looked[self.asked_at :]
        self.assertEqual(sorted(last), sorted(uids[:-1]), "each once after it was asked for last")

    def test_only_of_the_node(self) -> None:
        """Where a Connector is to serve otherwise only its own are looked at, and only at that."""
        self.add("1", "n1")
        self.add("2", "n2")
        self.refuses = {"1", "2"}
        for node in ("n1", "n1", "n9"):
            self.live.reassigned(node)
        self.all_turns()
        self.assertEqual((self.looked, self.assigned, self.ended), ([], ["1"], [("1", "revoked")]))
        self.live.reassigned("n1")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cannot_be_looked_at(self) -> None:
        """One that cannot be looked at now goes on, and the others are looked at."""
        self.live.add(
            "x",
            Live(
                check=self.away,
                break_off=lambda why: self.fail(why),
                node_id="n1",
                check_assigned=self.away,
            ),
        )
        self.add("1")
        self.live.recheck()
        self.all_turns()
        self.assertEqual((self.looked, self.ended), (["1"], []))

    def away(self) -> None:
        raise Unavailable("Authority is away", reason="authority_unreachable")

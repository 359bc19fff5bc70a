"""A session's records against its Connector's checkpoints: what agrees, and what cannot be true."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.model.session.checkpoint import SessionCheckpoint
from svc.model.session.ranges import RequestRange, entry_of, first_head, next_head
from svc.model.session.recorded import DIFFERENT, EXTRA, MISSING, RecordedChain

UID = "1" * 32


def requests(count: int) -> list[tuple[RequestRange, bool]]:
    """Decisions about as many requests."""
    return [
        (RequestRange(n=n, offset=n * 9, size=9, tags=bytes([n % 256]) * 32), n % 3 != 0)
        for n in range(1, count + 1)
    ]


def checkpoint(
    n: int, decided: list[tuple[RequestRange, bool]], *, last: bool = False, whole: bool = False
) -> SessionCheckpoint:
    """What the Connector says of these."""
    head = first_head(UID)
    for range_, allowed in decided:
        head = next_head(head, range_, allowed)
    return SessionCheckpoint(
        cluster="c",
        session_uid=UID,
        connector_id="n",
        n=n,
        decisions=len(decided),
        head=head,
        is_last=last,
        is_whole=whole,
    )


class RecordedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.chain = RecordedChain(UID, 0.0)

    def record(self, *decided: tuple[RequestRange, bool], at: float = 1.0) -> list[str]:
        return [self.run_of(one, at=at) for one in decided]

    def run_of(self, *decided: tuple[RequestRange, bool], at: float = 1.0) -> str:
        """Record these, which follow one another, at once."""
        entries = [entry_of(*range_, allowed) for range_, allowed in decided]
        return self.chain.record(decided[0][0].n, entries, at)

    @given(st.lists(st.sampled_from("rc"), max_size=30))
    def test_whatever_comes_first(self, order: list[str]) -> None:
        """Records and checkpoints of the truth agree, in whatever order the two streams come."""
        self.setUp()
        decided, recorded, made, said = requests(40), 0, 0, 0
        for number, each in enumerate(order):
            if each == "r":
                self.assertEqual(self.record(decided[recorded]), [""])
                recorded += 1
            else:
                made, said = made + 1, min(40, said + number % 3)
                one = checkpoint(made, decided[:said])
                self.assertEqual(self.chain.checkpoint(one, float(number)), "")
        self.assertEqual(self.record(*decided[recorded:]), [""] * (40 - recorded))
        self.assertIsNone(self.chain.owed_since)

    @given(st.data())
    def test_at_once(self, data: st.DataObject) -> None:
        """Records that come together say what they say one by one."""
        decided, covered = requests(9), data.draw(st.integers(0, 9))
        adopted = data.draw(st.booleans())
        whole = data.draw(st.none() | st.integers(0, 9))
        begin, cut = data.draw(st.integers(0, 3)), data.draw(st.integers(4, 8))
        words = []
        for split in (True, False):
            self.chain = RecordedChain(UID, 0.0, is_adopted=adopted)
            runs = [decided[begin:cut], decided[cut:]]
            if split:
                runs = [[one] for run in runs for one in run]
            said = [self.run_of(*run) for run in runs[: len(runs) // 2]]
            said.append(self.chain.checkpoint(checkpoint(1, decided[:covered]), 2.0))
            said += [self.run_of(*run) for run in runs[len(runs) // 2 :]]
            said.append(self.chain.checkpoint(checkpoint(2, decided), 3.0))
            if whole is not None:
                last = checkpoint(3, decided[:whole], last=True, whole=True)
                said.append(self.chain.checkpoint(last, 4.0))
            words.append(next((one for one in said if one), ""))
        self.assertEqual(*words)

    def test_settled(self) -> None:
        """By the time at which a checkpoint came, once its last record is there."""
        decided = requests(3)
        self.chain.checkpoint(checkpoint(1, decided), 30.0)
        self.record(*decided[:2], at=40.0)
        self.assertEqual((self.chain.settled_at, self.chain.owed_since), (0.0, 30.0))
        self.record(decided[2], at=50.0)
        self.assertEqual((self.chain.settled_at, self.chain.owed_since), (30.0, None))

    def test_a_skipped_decision(self) -> None:
        """A record is left out, or one number is used twice."""
        one, two, three = requests(3)
        self.assertEqual(self.record(one, three), ["", MISSING])
        self.setUp()
        self.assertEqual(self.record(one, two, two), ["", "", EXTRA])

    def test_something_else(self) -> None:
        """Another range, other frames, or a denial where the Connector was told of a permission."""
        (range_, allowed), *rest = requests(3)
        for other in (
            (RequestRange(n=1, offset=range_.offset, size=8, tags=range_.tags), allowed),
            (RequestRange(n=1, offset=range_.offset, size=9, tags=bytes(32)), allowed),
            (range_, not allowed),
        ):
            self.setUp()
            self.record(other, *rest)
            one = checkpoint(1, [(range_, allowed), *rest])
            self.assertEqual(self.chain.checkpoint(one, 30.0), DIFFERENT)

    def test_invented(self) -> None:
        """After all that the person wrote has come, no further request can have been decided."""
        decided = requests(3)
        self.record(*decided)
        last = checkpoint(1, decided[:2], last=True, whole=True)
        self.assertEqual(self.chain.checkpoint(last, 30.0), EXTRA)
        self.setUp()
        self.chain.checkpoint(last, 30.0)
        self.assertEqual(self.record(*decided), ["", "", EXTRA])

    def test_under_way(self) -> None:
        """Where the session broke, what was recorded last may not have reached the Connector."""
        decided = requests(3)
        last = checkpoint(1, decided[:2], last=True)
        self.assertEqual(self.chain.checkpoint(last, 30.0), "")
        self.assertEqual(self.record(*decided), ["", "", ""])

    def test_fewer_than_before(self) -> None:
        """A Connector that takes back what it said is not believed either."""
        decided = requests(3)
        self.record(*decided)
        self.chain.checkpoint(checkpoint(1, decided), 30.0)
        self.assertEqual(self.chain.checkpoint(checkpoint(2, decided[:1]), 60.0), DIFFERENT)

    def test_the_last_word(self) -> None:
        """It came, whether or not its records did, and whether or not it was the first."""
        for adopted in (False, True):
            self.chain = RecordedChain(UID, 0.0, is_adopted=adopted)
            self.chain.checkpoint(checkpoint(1, []), 30.0)
            self.assertFalse(self.chain.is_ended)
            self.chain.checkpoint(checkpoint(2, requests(1), last=True), 40.0)
            self.assertTrue(self.chain.is_ended)
            self.chain.checkpoint(checkpoint(3, requests(1)), 50.0)
            self.assertTrue(self.chain.is_ended)

    def test_said_again(self) -> None:
        """A Proxy that brings a checkpoint twice changes nothing."""
        decided = requests(2)
        self.record(*decided)
        one = checkpoint(1, decided)
        self.assertEqual([self.chain.checkpoint(one, at) for at in (30.0, 90.0)], ["", ""])
        self.assertEqual(self.chain.settled_at, 30.0)

    def test_adopted(self) -> None:
        """After a change of the leader the first checkpoint is believed, and no later one."""
        decided = requests(6)
        self.chain = RecordedChain(UID, 0.0, is_adopted=True)
        self.record(*decided[2:5])
        self.assertEqual(self.chain.checkpoint(checkpoint(4, decided[:4]), 30.0), "")
        self.assertEqual(self.chain.checkpoint(checkpoint(5, decided[:5]), 60.0), "")
        self.assertEqual(self.chain.settled_at, 60.0)
        self.assertEqual(self.record((decided[5][0], not decided[5][1])), [""])
        self.assertEqual(self.chain.checkpoint(checkpoint(6, decided), 90.0), DIFFERENT)

    def test_adopted_before_its_records(self) -> None:
        """Records that the believed checkpoint covers may still come, and are not looked at."""
        decided = requests(7)
        for come in (0, 2):
            self.chain = RecordedChain(UID, 0.0, is_adopted=True)
            self.record(*decided[1 : 1 + come])
            self.assertEqual(self.chain.checkpoint(checkpoint(4, decided[:5]), 30.0), "")
            self.assertEqual(self.record(*decided[1 + come :]), [""] * (6 - come))
            self.assertEqual(self.chain.checkpoint(checkpoint(5, decided), 60.0), "")
            self.assertEqual(self.chain.settled_at, 60.0)
            self.assertEqual(self.record(decided[5]), [EXTRA])

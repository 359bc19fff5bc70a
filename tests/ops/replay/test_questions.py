"""Each question is sent once, and each request is counted, whatever was let go meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.ops.replay.coverage import Covered
from svc.ops.replay.questions import QuestionWriter
from svc.policy.replay import lines
from svc.policy.replay.lines import QuestionWindow, ReplayQuestion, SliceWindow


def covered(n: int) -> Covered:
    """What counts of question *n*."""
    return Covered(
        told_by="proxy",
        entities="recorded",
        version=n % 2,
        action="use",
        person=f"u{n}",
        resource="r",
    )


class QuestionWriterTests(SynchronousTestCase):
    """`QuestionWriter`."""

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.booleans()), max_size=60))
    def test_sent(self, asked: list[tuple[int, int, bool]]) -> None:
        """Whoever reads the lines has each question and its slice when a request names it."""
        for name, most in (("MOST_ASKED", 90), ("MOST_SLICES", 2)):
            self.patch(lines, name, most)
        writer, seq, texts = QuestionWriter(), 0, b""
        for n, slice_n, is_next in asked:
            if is_next:
                seq += 1
                writer.begin(seq)
            digest, key = str(slice_n), (str(slice_n), str(n))
            writer.give_slice(digest, f"s{slice_n}")
            [known] = writer.known((key,))
            if known is None:
                question = ReplayQuestion(f"{slice_n}/{n}/{'x' * 20}", "7")
                known = writer.ask(key, question, covered(n))
            writer.request((known,), ("7",))
            if seq % 3 == 0:
                texts += writer.taken()
        texts += writer.taken()
        slices, questions = SliceWindow(), QuestionWindow[str, str]()
        told = list[tuple[int, int]]()
        for line in texts.decode().splitlines():
            if line[0] == "S":
                slices.add(*line[1:].split(" "))
            elif line[0] == "Q":
                number, text = line[1:].split("\t")
                questions.add(number, text, len(text))
            else:
                _, numbers, nows = line[1:].split("\t")
                self.assertEqual(set(nows.split(" ")), {"7"})
                for number in numbers.split(" "):
                    of_slice, one, _ = questions.kept[number].split("/")
                    self.assertEqual(slices.get(of_slice), f"s{of_slice}")
                    told.append((int(one), int(of_slice)))
        self.assertEqual(told, [(n, of_slice) for n, of_slice, _ in asked])
        found = writer.covered()
        self.assertEqual(found.requests, len(asked))
        self.assertEqual(found.versions.total(), len(asked))
        self.assertEqual(found.versions[1], sum(n % 2 for n, *_ in asked))
        self.assertEqual(found.people.keys(), {f"u{n}" for n, *_ in asked})
        self.assertEqual(writer.covered().requests, 0)

"""An export that several processes make is the one that a single process makes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from svc.audit.log.covered import CoveredChain
from svc.audit.log.export import json_lines
from svc.errors import AuditBroken
from svc.ops.export import CoveredLines
from svc.ops.verify.log import Reader
from tests.ops.verify.stored import ROWS, SOME_CHANGES, TURN, StoredLogTests


class ExportedTests(StoredLogTests):
    """Three processes by turns of seven records."""

    def exported(
        self, jobs: int = 3, turn: int = TURN, after: int = 0, *, personal: bool = True
    ) -> tuple[list[str], str]:
        """The lines of an export, and the fault that ended it, if one did."""
        reader = Reader(self.place, personal, requests=True)
        lines: list[str] = []
        try:
            chain = CoveredChain.after(reader, self.heads[-1], after)
            for some in CoveredLines(reader, json_lines).past(chain, jobs, turn):
                lines += some.split("\n")
        except AuditBroken as broken:
            return lines, broken.text
        return lines, ""

    def test_whole(self) -> None:
        """All lines are the same, in the same order, from wherever it begins."""
        for after in (0, 1, TURN, ROWS - 1, ROWS):
            for personal in (True, False):
                one = self.exported(1, after=after, personal=personal)
                self.assertEqual((len(one[0]), one[1]), (ROWS - after, ""))
                self.assertEqual(self.exported(after=after, personal=personal), one)

    def test_made_by_turns(self) -> None:
        """Each turn is made in another process, and joined: none is left to this one."""
        reader = Reader(self.place, False, requests=True)
        chain = CoveredChain.after(reader, self.heads[-1], 0)
        made = list(CoveredLines(reader, json_lines).past(chain, 3, TURN))
        self.assertEqual(len(made), -(-ROWS // TURN))

    def test_changed(self) -> None:
        """What only the head shows ends it before the last record."""
        self.change("UPDATE audit_log SET signature = zeroblob(64) WHERE seq = 3")
        lines, fault = self.exported()
        self.assertEqual((len(lines), fault[:21]), (ROWS - 1, "audit log: record 60:"))
        self.assertEqual(self.exported(1), (lines, fault))

    @settings(max_examples=12, deadline=None)
    @given(changes=SOME_CHANGES, turn=st.integers(1, ROWS + 1), jobs=st.integers(2, 3))
    def test_any_change(self, changes: list[tuple[str, int]], turn: int, jobs: int) -> None:
        """Whatever is changed and wherever turns begin, the lines before it are told, and it."""
        with self.changed(changes):
            self.assertEqual(self.exported(jobs, turn), self.exported(1), (changes, turn, jobs))

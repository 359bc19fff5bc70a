"""How a ledger is compared with a build."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import MigrationsBroken, MigrationsPending, UnknownApplied
from svc.model.store.migration import (
    AppliedMigration,
    KnownMigration,
    MigrationReport,
    MigrationStatus,
    StoreStanding,
    compare,
    report_lines,
    status_lines,
)
from tests.support.proof import proves

KNOWN = tuple(KnownMigration(f"m{n:04}_step", f"sum{n}") for n in range(1, 9))


def applied(*numbers: int, drifted: int = 0) -> tuple[AppliedMigration, ...]:
    """Ledger rows of these migrations; one of them with another checksum."""
    return tuple(
        AppliedMigration(
            id=f"m{n:04}_step",
            checksum="other" if n == drifted else f"sum{n}",
            applied_at=1.0,
            binary_version="v",
        )
        for n in numbers
    )


class CompareTests(SynchronousTestCase):
    """The four standings."""

    @given(st.integers(0, 8))
    @settings(deadline=None)
    def test_a_beginning_is_current_or_pending(self, reach: int) -> None:
        """The first migrations alone leave exactly the others pending."""
        status = compare(KNOWN, applied(*range(1, reach + 1)))
        self.assertEqual(status.ids, tuple(each.id for each in KNOWN[reach:]))
        self.assertIs(
            status.standing, StoreStanding.PENDING if status.ids else StoreStanding.CURRENT
        )
        self.assertEqual(status.count, reach)

    def test_advanced(self) -> None:
        """Without another look at the ledger, the status after each migration is the same."""
        status = compare(KNOWN, ())
        for reach in range(1, 9):
            status = status.advanced()
            self.assertEqual(status, compare(KNOWN, applied(*range(1, reach + 1))))

    @given(st.sets(st.integers(1, 8)), st.integers(0, 8))
    @settings(deadline=None)
    def test_only_a_whole_beginning_is_sound(self, numbers: set[int], drifted: int) -> None:
        """A gap or a changed checksum is broken, whatever else is applied."""
        status = compare(KNOWN, applied(*sorted(numbers), drifted=drifted))
        whole = numbers == set(range(1, len(numbers) + 1)) and drifted not in numbers
        self.assertEqual(status.standing is not StoreStanding.BROKEN, whole)

    @proves("X-20", "G-STORE-02")
    @given(st.sets(st.integers(1, 8)))
    @settings(deadline=None)
    def test_unknown_comes_before_everything(self, numbers: set[int]) -> None:
        """A store with a migration of a newer build is that, and never called pending."""
        status = compare(KNOWN, applied(*sorted(numbers), 9999))
        self.assertEqual(
            (status.standing, status.ids), (StoreStanding.UNKNOWN_APPLIED, ("m9999_step",))
        )


class TextTests(SynchronousTestCase):
    """What is printed, and how a start is stopped."""

    @proves("U-OPEN-07")
    def test_check_lines(self) -> None:
        """The check prints current, or a line for each migration that makes it otherwise."""
        self.assertEqual(status_lines(compare(KNOWN, applied(*range(1, 9)))), ["current"])
        self.assertEqual(
            status_lines(compare(KNOWN, applied(*range(1, 7)))),
            ["pending: m0007_step", "pending: m0008_step"],
        )
        self.assertEqual(
            status_lines(compare(KNOWN, applied(1, 9999))), ["unknown-applied: m9999_step"]
        )

    @proves("U-OPEN-07", "U-MIG-07", "U-MIG-08")
    def test_report_lines(self) -> None:
        """A run prints how many were applied, then where the schema is."""
        schema = "schema current: m0008_step (8)"
        report = MigrationReport(("m0007_step", "m0008_step"), "m0008_step", 8)
        self.assertEqual(report_lines(report), ["applied 2 migration(s)", schema])
        report = MigrationReport((), "m0008_step", 8)
        self.assertEqual(report_lines(report), ["nothing to apply", schema])

    @proves("X-21")
    def test_stops_are_told_apart(self) -> None:
        """Pending, unknown-applied and broken stop a start with different codes and name ids."""
        for standing, refusal, code in (
            (StoreStanding.PENDING, MigrationsPending, 3),
            (StoreStanding.UNKNOWN_APPLIED, UnknownApplied, 4),
            (StoreStanding.BROKEN, MigrationsBroken, 1),
        ):
            status = MigrationStatus(standing, ("m0007_step",))
            error = self.assertRaises(refusal, status.require_current)
            self.assertEqual(error.exit_code, code)
            self.assertIn("m0007_step", error.text)
        MigrationStatus(StoreStanding.CURRENT).require_current()

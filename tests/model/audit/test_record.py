"""The audit record's values and the catalogue of events."""

from __future__ import annotations

import struct
from hashlib import sha256

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import PluginError, SvcError
from svc.model.audit import events
from svc.model.audit.events import CATALOGUE, check_catalogue
from svc.model.audit.record import GENESIS, Event, Field, Sensitivity, Severity, chain_hash, rfc3339
from svc.model.policy.terms import ActionTerm, AttributeTerm
from tests.support.proof import proves

ACTION = ActionTerm(
    name="tcpConnect",
    request_kind="connect",
    principals=("User",),
    resources=("TcpService",),
    help="x",
    context=("weekday",),
)
WEEKDAY = AttributeTerm(name="weekday", type="String", classified="public", help="day of the week")


class ChainHashTests(SynchronousTestCase):
    """The link between rows."""

    @proves("G-OPEN-12")
    def test_is_what_the_page_says(self) -> None:
        """The hash is over domain, number, previous hash, length and record."""
        prev = sha256(b"before").digest()
        text = b"svc-audit-v1\0" + struct.pack(">Q", 7) + prev + struct.pack(">I", 2) + b"{}"
        self.assertEqual(chain_hash(7, prev, b"{}"), sha256(text).digest())
        self.assertEqual(GENESIS, b"\0" * 32)

    def test_everything_counts(self) -> None:
        """Another number, predecessor or record gives another hash."""
        hashes = {
            chain_hash(1, GENESIS, b"{}"),
            chain_hash(2, GENESIS, b"{}"),
            chain_hash(1, b"\1" * 32, b"{}"),
            chain_hash(1, GENESIS, b"{ }"),
        }
        self.assertEqual(len(hashes), 4)


class TimeTests(SynchronousTestCase):
    """The time of a record."""

    @proves("G-OPEN-10")
    def test_form(self) -> None:
        """Times are UTC with six digits of a second, also at a whole one."""
        self.assertEqual(rfc3339(0), "1970-01-01T00:00:00.000000Z")
        self.assertEqual(rfc3339(1763733600.1234564), "2025-11-21T14:00:00.123456Z")

    def test_refused(self) -> None:
        """What is no time of a calendar is refused."""
        for odd in (float("nan"), float("inf"), -1.0, 1e18):
            self.assertRaises(SvcError, rfc3339, odd)


class CatalogueTests(SynchronousTestCase):
    """Every event is named, coded and classified once."""

    def test_ours_is_sound(self) -> None:
        """Our catalogue passes the check made at start, with a classified context."""
        check_catalogue(CATALOGUE, [WEEKDAY], [ACTION])
        self.assertIn(events.SESSION_START, CATALOGUE)
        self.assertEqual(events.BY_NAME["session.start"].code, "SVC1001I")

    def refused(self, *event: Event) -> str:
        """The text with which our catalogue and these events are refused."""
        error = self.assertRaises(PluginError, check_catalogue, [*CATALOGUE, *event])
        self.assertEqual(error.reason, "audit_unclassified")
        return str(error)

    def test_doubled(self) -> None:
        """A name or code used twice is refused."""
        text = self.refused(events.SESSION_START)
        self.assertIn("session.start: declared twice", text)
        self.assertIn("SVC1001I: used twice", text)

    def test_severity_and_letter_agree(self) -> None:
        """A code whose letter says another severity is refused."""
        odd = evolve(events.SESSION_START, name="x.y", code="SVC9001I", severity=Severity.ERROR)
        self.assertIn("does not fit its severity", self.refused(odd))

    def test_unclassified_field(self) -> None:
        """A field without a sensitivity stops the start."""
        field = Field("colour", None, "a colour")  # type: ignore[arg-type]
        odd = evolve(events.SESSION_START, name="x.y", code="SVC9001I", fields=(field,))
        self.assertIn("colour is neither public, personal nor secret", self.refused(odd))

    def test_one_meaning_everywhere(self) -> None:
        """A field that is personal in one event cannot be public in another."""
        field = Field("source_address", Sensitivity.PUBLIC, "an address")
        odd = evolve(events.SESSION_START, name="x.y", code="SVC9001I", fields=(field,))
        self.assertIn("source_address means something else", self.refused(odd))

    def test_unclassified_context_fact(self) -> None:
        """An action whose context names an unclassified fact stops the start."""
        error = self.assertRaises(PluginError, check_catalogue, CATALOGUE, [], [ACTION])
        self.assertIn("tcpConnect: context fact weekday is not classified", str(error))

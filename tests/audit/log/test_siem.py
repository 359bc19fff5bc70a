"""Records in the forms of other systems."""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.covered import CoveredRow, entries
from svc.audit.log.record import seal
from svc.audit.log.siem import cef, splunk_hec
from svc.model.audit.record import Actor, AuditRecord
from tests.audit.log.test_record import HOSTILE
from tests.audit.logs import FACTS, MemoryLog, heads_over, record

EVIL = 'a|b=c\\d\ne\rf\x1b[31m\u202eg" SVC=1 \x7f\x85\u2028'

_PLAIN = {"\\\\": "\\", "\\=": "=", "\\n": "\n", "\\r": "\r"}


def fields_of(line: str) -> tuple[list[str], dict[str, str]]:
    """A line of CEF read as its format says: seven header fields, then keys and values."""
    *header, extension = re.split(r"(?<!\\)(?:\\\\)*\|", line, maxsplit=7)
    found = {}
    pairs = re.split(r"(?:^| )([A-Za-z0-9]+)(?<!\\)=", extension)
    for key, value in zip(pairs[1::2], pairs[2::2], strict=True):
        found[key] = re.sub(r"\\[\\=nr]", lambda match: _PLAIN[match[0]], value)
    return header, found


class SiemTests(SynchronousTestCase):
    """CEF and Splunk's events."""

    def entry(self, made: AuditRecord, *, personal: bool = False) -> CoveredRow:
        """The record as an export reads it."""
        log = MemoryLog()
        log.append(seal(made, log.entropy, FACTS))
        (head,) = heads_over(log.log, 1)
        (found,) = entries(log.entries if personal else log.bare, head)
        return found

    def test_cef(self) -> None:
        """A record is one line with the header of the format, and its fields under known keys."""
        entry = self.entry(record(7))
        header, fields = fields_of(cef(entry))
        self.assertEqual(
            header[:3] + header[4:],
            [
                "CEF:0",
                "svc",
                "svc",
                "SVC1001I",
                "session.start",
                "3",
            ],
        )
        self.assertEqual(
            {key: fields[key] for key in ("rt", "externalId", "suid", "act", "outcome", "cat")},
            {
                "rt": "1763733607500",
                "externalId": "1",
                "suid": "p" * 26,
                "act": "tcpConnect",
                "outcome": "allow",
                "cat": "access",
            },
        )
        self.assertEqual(fields["svcHash"], entry.row.hash.hex())
        self.assertEqual(fields["svcPolicies"], "staff")
        self.assertNotIn("10.0.0.9", cef(entry))
        told = cef(self.entry(record(7), personal=True))
        self.assertEqual(fields_of(told)[1]["svcDetailsSourceAddress"], "10.0.0.9")

    def test_cef_of_hostile_text(self) -> None:
        """What a peer said ends no field and no line, forges no key, and reaches no terminal."""
        for text in (EVIL, *HOSTILE):
            line = cef(self.entry(evolve(record(), reason=text, actor=Actor("person", text))))
            self.assertRegex(line, r"\A[ -~]+\Z")
            header, fields = fields_of(line)
            self.assertEqual(header[5:], ["session.start", "3"])
            self.assertNotIn("SVC", fields)
        fields = fields_of(cef(self.entry(evolve(record(), reason=EVIL))))[1]
        self.assertEqual(
            fields["reason"],
            'a|b=c\\d\ne\rf\\u001b[31m\\u202eg" SVC=1 \\u007f\\u0085\\u2028',
        )

    def test_splunk(self) -> None:
        """An event of the collector: when, from where, and the record as it is shown."""
        for personal in (False, True):
            line = splunk_hec(self.entry(record(7), personal=personal))
            event: dict[str, Any] = json.loads(line)
            self.assertEqual(
                {key: event[key] for key in ("time", "host", "source", "sourcetype")},
                {
                    "time": 1763733607.5,
                    "host": "a" * 26,
                    "source": "svc",
                    "sourcetype": "svc:audit",
                },
            )
            self.assertEqual(event["event"]["seq"], 1)
            address = event["event"]["details"]["source_address"]
            self.assertEqual(address.get("value"), "10.0.0.9" if personal else None)

    def test_splunk_of_hostile_text(self) -> None:
        """Everything is ASCII, one line an event, and reads back as it was."""
        line = splunk_hec(self.entry(evolve(record(), reason=EVIL)))
        self.assertRegex(line, r"\A[ -~]+\Z")
        self.assertEqual(json.loads(line)["event"]["reason"], EVIL)

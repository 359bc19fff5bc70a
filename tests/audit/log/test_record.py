"""What may enter the log, and in what form."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.record import (
    MAX_TEXT,
    Sealer,
    Unrecordable,
    is_tidy,
    personal_hash,
    seal,
    tidy,
)
from svc.audit.log.verify import ChainFault, verified_ranges, verify
from svc.model.audit import events
from svc.model.audit.record import Actor, AuditRecord, SealedRecord
from svc.model.canonical import Json, decode
from svc.model.policy.access import request_from_form
from tests.audit.logs import FACTS, MemoryLog, heads_over, record, short_record, verify_head
from tests.support.proof import proves

HOSTILE = (
    "two\nlines",
    "\x1b[31mred\x1b[0m",
    "\u202etxt.exe",
    "nul\0inside",
    "x" * (1 << 20),
    "\ud800 alone",
    '","decision":"allow',
    "\r\n",
    "\u2028",
    "é" * 10,
    "\U0001f600",
)
CANARY = "canary-4711"


def sealed(made: AuditRecord) -> SealedRecord:
    """Sealed with salts of zeros."""
    return seal(made, bytes, FACTS)


def read(made: AuditRecord) -> dict[str, Json]:
    """What a sealed record says."""
    value = decode(sealed(made).canonical)
    assert isinstance(value, dict)
    return value


class SealTests(SynchronousTestCase):
    """From record to bytes."""

    @proves("G-OPEN-10")
    def test_fields(self) -> None:
        """A record holds the documented fields, and those that do not apply are absent."""
        self.assertEqual(
            sorted(read(record())),
            [
                "actor",
                "cedar_action",
                "class",
                "code",
                "decision",
                "decision_id",
                "details",
                "entities_digest",
                "event",
                "event_id",
                "origin",
                "policies",
                "policy_version",
                "request",
                "resource_id",
                "resource_kind",
                "session_uid",
                "severity",
                "time",
            ],
        )
        self.assertEqual(
            sorted(read(evolve(short_record(), details={}))),
            ["actor", "class", "code", "event", "event_id", "origin", "severity", "time"],
        )

    def test_personal_values_stay_outside(self) -> None:
        """An address is in the record only as a salted hash, wherever it stands."""
        form = sealed(record())
        self.assertNotIn(b"10.0.0.9", form.canonical)
        self.assertEqual(
            [(each.path, each.value) for each in form.personal],
            [
                ("request.context.proxy_reported.source_address", '"10.0.0.9"'),
                ("details.source_address", '"10.0.0.9"'),
            ],
        )
        hidden = personal_hash(bytes(16), '"10.0.0.9"')
        self.assertEqual(
            read(record())["details"],
            {"proxy_id": "x" * 26, "source_address": {"personal": hidden}},
        )

    def test_salts_differ(self) -> None:
        """Equal personal values give different hashes, so nobody learns that they are equal."""
        log = MemoryLog()
        form = Sealer(log.entropy, FACTS).seal(record())
        self.assertEqual(len({each.salt for each in form.personal}), 2)

    def test_request_can_be_asked_again(self) -> None:
        """The Cedar request is the very one that was decided, but for what is personal."""
        form = read(record())["request"]
        assert isinstance(form, dict)
        again = request_from_form(form)
        asked = record().request
        assert asked is not None
        self.assertEqual(
            (again.principal, again.action, again.resource),
            (asked.principal, asked.action, asked.resource),
        )
        self.assertEqual(again.context["weekday"], "friday")

    def test_unclassified_is_refused(self) -> None:
        """A detail or context fact that nobody classified stops the record."""
        odd = evolve(record(), details={"colour": "red"})
        self.assertRaises(Unrecordable, sealed, odd)
        self.assertRaises(Unrecordable, seal, record(), bytes, {})

    def test_shapes(self) -> None:
        """Bytes, floats, nested values and numbers for texts are refused."""
        for value in (b"x", 1.5, {"a": "b"}, 3, True, ["x"], object()):
            odd = evolve(record(), details={"proxy_id": value})  # type: ignore[dict-item]
            self.assertRaises(Unrecordable, sealed, odd)

    def test_size_is_bounded(self) -> None:
        """A record past the limit is refused, and with it what it would have allowed."""
        odd = evolve(record(), policies=("p" * MAX_TEXT,) * 40)
        self.assertRaises(Unrecordable, sealed, odd)


class SecretTests(SynchronousTestCase):
    """No secret passes."""

    def test_declared_secrets(self) -> None:
        """For every event with a secret field, its value is neither in the record nor beside it."""
        seen = 0
        for event in events.CATALOGUE:
            for field in event.fields:
                if field.sensitivity.value == "secret":
                    seen += 1
                    form = sealed(evolve(short_record(), event=event, details={field.name: CANARY}))
                    self.assertNotIn(CANARY, repr(form))
                    self.assertNotIn(field.name, str(json.loads(form.canonical).get("details")))
        self.assertGreater(seen, 3)

    def test_net(self) -> None:
        """What looks like a credential in a text is replaced, also in a personal one."""
        for text in (
            f"Authorization: Bearer {CANARY}",
            f"password={CANARY}",
            f"postgres://u:{CANARY}@host/db",
            f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
            f"api_key: {CANARY}",
        ):
            details = {"note": text, "policy_digest": text}
            made = evolve(record(), event=events.POLICY_REFUSED, details=details, reason=text)
            self.assertNotIn(CANARY, repr(sealed(made)), text)


class HostileTextTests(SynchronousTestCase):
    """Peers cannot break the form."""

    def test_everywhere(self) -> None:
        """Hostile text in any field gives one readable record that verifies."""
        log = MemoryLog()
        for text in HOSTILE:
            for name in ("resource_id", "reason", "session_uid", "trace_id", "action", "node_id"):
                made = evolve(record(), **{name: text})  # type: ignore[arg-type]
                log.append(seal(made, log.entropy, FACTS))
            for made in (
                evolve(record(), details={"source_address": text, "proxy_id": text}),
                evolve(record(), actor=Actor("anonymous", text)),
                evolve(record(), policies=(text,)),
                evolve(record(), event=events.TUNNEL_REFUSED, details={"resources": [text]}),
            ):
                log.append(seal(made, log.entropy, FACTS))
        for row in log.log:
            decode(row.canonical)
            self.assertNotIn(b"\n", row.canonical)
            self.assertNotIn(b"\\u0000", row.canonical)
            self.assertLess(len(row.canonical), 3 * MAX_TEXT + 2000)
        checked = verified_ranges([log.log], log.personal_of)
        verified = verify(checked, heads_over(log.log, len(log.log)), verify_head)
        self.assertEqual(verified.records, 10 * len(HOSTILE))

    def test_in_the_request(self) -> None:
        """A request that cannot be kept exactly is recorded tidied if refused, never allowed."""
        asked = record().request
        assert asked is not None
        for text in ("nul\0inside", "\ud800", "x" * (1 << 20)):
            odd = evolve(asked, resource=evolve(asked.resource, id=text))
            made = evolve(record(), request=odd, decision="deny")
            self.assertIn("TcpService", str(read(made)["request"]))
            self.assertRaises(Unrecordable, sealed, evolve(made, decision="allow"))

    @given(st.text(st.characters(codec=None), max_size=50))
    @settings(deadline=None)
    def test_any_text(self, text: str) -> None:
        """Any text at all can be a reason, a personal value and a detail."""
        details = {"source_address": text, "proxy_id": text}
        made = evolve(record(), reason=text, details=details)
        form = sealed(made)
        decode(form.canonical)
        for value in form.personal:
            decode(value.value.encode())

    @settings(deadline=None)
    @given(st.text(alphabet="=: /[]-\0\nBEGINPRVATKYbearokeswd._1", max_size=40) | st.text())
    def test_tidy_text(self, text: str) -> None:
        """Tidying leaves tidy text as it is."""
        if is_tidy(text):
            self.assertEqual(tidy(text), text)

    @settings(deadline=None)
    @given(
        st.sampled_from(
            ("node_id", "session_uid", "reason", "origin", "event_id", "policies", "id")
        ),
        st.sampled_from((*HOSTILE, "token=abcdefgh", "plain", "x" * MAX_TEXT))
        | st.text(max_size=9),
    )
    def test_tidied_wherever_it_stands(self, name: str, text: str) -> None:
        """Text that is to be tidied is, in any place of a record and beside any that is plain."""
        made = evolve(record(), reason="plain")
        if name == "id":
            made = evolve(made, actor=Actor("person", text))
        else:
            there: dict[str, Any] = {name: (text,) if name == "policies" else text}
            made = evolve(made, **there)
        form = read(made)
        at = form["actor"] if name == "id" else form
        assert isinstance(at, dict)
        self.assertEqual(at[name], [tidy(text)] if name == "policies" else tidy(text))

    @settings(deadline=None)
    @given(st.from_regex(r"[A-Za-z0-9._-]{0,60}", fullmatch=True))
    def test_plain_text(self, text: str) -> None:
        """What is not looked at twice is what a second look, which a space brings, leaves alone."""
        self.assertEqual((tidy(text), tidy(f"{text} ")), (text, f"{text} "))

    def test_length(self) -> None:
        """Text of letters is tidy up to the most that is kept."""
        self.assertTrue(is_tidy("a" * MAX_TEXT))
        self.assertFalse(is_tidy("a" * (MAX_TEXT + 1)))


class ErasureTests(SynchronousTestCase):
    """A person can be forgotten."""

    def test_chain_survives(self) -> None:
        """With personal values erased the chain verifies; with one exchanged it does not."""
        log = MemoryLog()
        log.fill(3)
        heads = heads_over(log.log, 3)
        log.personal[2] = ()
        checked = verified_ranges([log.log], log.personal_of)
        self.assertEqual(verify(checked, heads, verify_head).records, 3)
        log.personal[2] = log.personal[3]
        checked = verified_ranges([log.log], log.personal_of)
        fault = self.assertRaises(ChainFault, verify, checked, heads, verify_head)
        self.assertEqual((fault.seq, fault.kind), (2, "personal"))

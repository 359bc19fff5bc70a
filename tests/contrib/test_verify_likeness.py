"""The auditor's verifier says by its patterns of lines what it says of each line by itself."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from contrib import verify_audit
from svc.audit.log.covered import covered_row
from svc.audit.log.export import json_line
from svc.audit.log.record import is_hashed, seal
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.record import AuditRecord
from tests.audit.log.test_alike import CHANGES, EVENTS, MADE, OTHERS, SNIPPETS, altered, spooled
from tests.audit.logs import FACTS, MemoryLog
from tests.support.examples import examples

RUN_BY = "make fault"


class LikenessTests(SynchronousTestCase):
    """What is judged by its likeness to a line that was parsed is judged as if it were parsed."""

    def setUp(self) -> None:
        forget()
        self.addCleanup(forget)

    def check(self, line: bytes) -> bool:
        """Whether a line is good by its likeness; if so, as it is by itself."""
        found = verify_audit.alike(line)
        if found is not None:
            self.assertEqual(found, parsed_alone(line), line)
        return found is not None

    def test_good(self) -> None:
        """The second line of its kind is not parsed; whatever is changed in one, it is not good."""
        for made in MADE:
            one, two, three = exported(made)
            forget()
            self.assertFalse(self.check(one))
            self.assertIsNotNone(verify_audit.by_itself(one))
            self.assertTrue(self.check(two))
            self.assertTrue(self.check(three))
            for at in range(len(three)):
                changed = three[:at] + bytes([three[at] ^ 1]) + three[at + 1 :]
                self.assertFalse(self.check(changed), changed)

    @settings(max_examples=examples(300), deadline=None)
    @given(
        event=EVENTS, others=OTHERS, changes=CHANGES, more=CHANGES, signature=st.binary(max_size=3)
    )
    def test_any(
        self,
        event: object,
        others: dict[str, Any],
        changes: list[tuple[float, int, str]],
        more: list[tuple[float, int, str]],
        signature: bytes,
    ) -> None:
        """Any line at all: of any record, changed and hashed again, or changed after that."""
        forget()
        form = {"action": "a", **others, **({} if event is None else {"event": event}), "time": "t"}
        line = rehashed(form, signature)
        verify_audit.by_itself(line)
        self.check(line)
        self.check(altered(line.decode(), more))
        try:
            again = json.loads(altered(line.decode(), changes))
        except (ValueError, RecursionError):
            return
        if type(again) is dict:
            self.check(rehashed(again, signature))

    def test_each_place(self) -> None:
        """What is put into a small line, or for a character of it, and hashed again."""
        form = {"action": "a", "event": "x", "flag": True, "list": ["b"], "n": 12, "time": "t"}
        line = rehashed(form, b"")
        self.assertIsNotNone(verify_audit.by_itself(line))
        self.assertTrue(self.check(line))
        [[likeness]] = verify_audit.LIKENESSES.values()
        for at in range(len(line)):
            for snippet in SNIPPETS:
                for out in (0, 1):
                    new = line[:at] + snippet.encode() + line[at + out :]
                    match = likeness.match(new)
                    if match is not None:
                        self.assertEqual(verify_audit.parsed(new, "")["event"], "x")

    def test_paths(self) -> None:
        """A told value is looked for where its path leads, and nowhere else."""
        value = {"path": "a.b", "salt": "00" * 16, "value": '"v"'}
        marker = {"personal": sha256(bytes(16) + b'"v"').hexdigest()}
        known = {"path": "g", "salt": "00" * 16, "value": "1"}
        other = {"personal": sha256(bytes(16) + b"1").hexdigest()}
        for form in (
            {"a.b": marker},
            {"a": [marker], "b": marker},
            {"a": {"b": [marker]}},
            {"a": {"b": {"b": marker}}},
            {"a": {"b": {"personal": "x"}}},
            {"a": {"b": {"personal": 5}}},
            {"a": {"b": {**marker, "z": 1}}},
        ):
            forget()
            told = {**form, "event": "x", "g": other, "time": "t"}
            self.assertIsNotNone(verify_audit.by_itself(rehashed(told, b"", [known])))
            line = rehashed(told, b"", [value])
            self.assertIsNone(verify_audit.alike(line) or parsed_alone(line), form)
        forget()
        good = {"a": {"b": marker}, "event": "x", "time": "t"}
        line = rehashed(good, b"", [value])
        verify_audit.by_itself(line)
        self.assertTrue(self.check(line))
        for name, wrong in (
            ("path", "a.c"),
            ("path", "a"),
            ("path", "personal"),
            ("salt", "00" * 15 + "01"),
            ("salt", "00" * 15),
            ("value", "7"),
            ("value", '"\\u0076"'),
        ):
            self.assertFalse(self.check(rehashed(good, b"", [{**value, name: wrong}])))
        self.assertFalse(self.check(rehashed(good, b"", [{**value, "more": "x"}])))
        for salt, text in ((bytes(16), "v"), (bytes(15), '"v"'), (bytes(17), '"v"')):
            hidden = {"personal": sha256(salt + text.encode()).hexdigest()}
            line = rehashed(
                {**good, "a": {"b": hidden}}, b"", [{**value, "salt": salt.hex(), "value": text}]
            )
            self.assertFalse(self.check(line))

    def test_unlike(self) -> None:
        """What cannot be told by a pattern is always parsed."""
        for more in ({"f": 1.5}, {"f": "é"}, {"f": '"'}, {"f": [1]}, {"f.g": 1}, {"é": 1}):
            form = {"event": "x", **more, "time": "t"}
            self.assertIsNotNone(verify_audit.by_itself(rehashed(form, b"")))
        for event in ({}, {"event": verify_audit.BATCH}, {"event": "\x7f"}, {"event": 1}):
            form = {"action": "a", **event, "time": "t"}
            self.assertIsNotNone(verify_audit.by_itself(rehashed(form, b"")))
        self.assertEqual(verify_audit.LIKENESSES, {})

    def test_bounded(self) -> None:
        """An export in which no line is like another makes little be remembered."""
        for n in range(400):
            for more in range(6):
                form = {"action": "a", "event": f"x{n}", f"g{more}": 1, "time": "t"}
                self.assertIsNotNone(verify_audit.by_itself(rehashed(form, b"")))
        known = verify_audit.LIKENESSES
        self.assertLessEqual(len(known), verify_audit.MOST_EVENTS)
        most = max(len(each) for each in known.values())
        self.assertLessEqual(most, verify_audit.MOST_LIKENESSES)

    def test_expensive(self) -> None:
        """An export whose lines need expensive patterns gets few of them."""
        for n in range(30):
            form = {f"g{each:03}": each for each in range(300)}
            line = rehashed({"action": "a", "event": f"x{n}", **form, "time": "t"}, b"")
            self.assertIsNotNone(verify_audit.by_itself(line))
        self.assertLess(len(verify_audit.LIKENESSES), 4)

    def test_long(self) -> None:
        """A line that is longer than any a likeness is made of is parsed."""
        for count in (1, 3000):
            form = {"action": "a", "event": "x", "l": ["b"] * count, "time": "t"}
            line = rehashed(form, b"")
            self.assertIsNotNone(verify_audit.by_itself(line))
            self.assertIs(self.check(line), count == 1)

    def test_deep(self) -> None:
        """A told value of too many levels, or at too long a path, is refused with a reason."""
        for path, of_request in (("a", False), ("request." + "a" * 70_000, True)):
            text = "[" * 100_000 if not of_request else "1"
            name = path.removeprefix("request.")
            record = {name: {"personal": sha256(bytes(16) + text.encode()).hexdigest()}}
            told = [{"path": path, "salt": "00" * 16, "value": text}]
            with self.assertRaises(verify_audit.Refused):
                verify_audit.check_personal({"personal": told}, record, "", of_request=of_request)

    def test_told_values(self) -> None:
        """What is a personal value to `audit verify` is one here, and nothing else is."""
        levels = ("[" * 32 + "]" * 32, "[" * 33 + "]" * 33, '{"a":' * 33 + "1" + "}" * 33)
        wide = f"[{','.join(['[]'] * 50)}]"
        others = (
            " 1",
            "1 ",
            '\n"a"',
            '"a"\t',
            "",
            "1 1",
            "NaN",
            "1.5",
            '"\\ud800"',
            '"\t"',
            '"\x7f"',
        )
        for text in (*levels, wide, *others):
            hidden = sha256(bytes(16) + text.encode()).hexdigest()
            told = [{"path": "a", "salt": "00" * 16, "value": text}]
            try:
                verify_audit.check_personal({"personal": told}, {"a": {"personal": hidden}}, "")
                good = True
            except verify_audit.Refused:
                good = False
            self.assertIs(good, is_hashed(PersonalValue("a", bytes(16), text), hidden), text)


def forget() -> None:
    """As if no line had been seen."""
    verify_audit.LIKENESSES.clear()
    verify_audit.CREDIT[0] = verify_audit.MOST_CREDIT


def exported(made: Callable[[int], AuditRecord]) -> list[bytes]:
    """The lines of three records that differ in what differs in each; one is of another origin."""
    log = MemoryLog()
    for n in (1, 22, 333):
        log.append(seal(made(n), log.entropy, FACTS), b"\1" if made is spooled else b"")
    return [
        json_line(covered_row(row, beside)).encode() + b"\n" for row, beside in log.entries(1, 3)
    ]


def rehashed(
    form: dict[str, Any], signature: bytes, told: list[dict[str, Any]] | None = None
) -> bytes:
    """The line of a record, rightly hashed, whatever the record says."""
    record = {name: value for name, value in form.items() if name not in verify_audit.OWN}
    text = verify_audit.to_canonical(record).encode("utf-8", "surrogatepass")
    found = verify_audit.chained(7, bytes(32), text)
    line = {**record, "form": verify_audit.EXPORT, "hash": found.hex(), "seq": 7}
    line["prev_hash"] = bytes(32).hex()
    if signature:
        line["origin_signature"] = b64encode(signature).decode()
    if told is not None:
        line["personal"] = told
    return verify_audit.to_ascii(line).replace("\x7f", "\\u007f").encode() + b"\n"


def parsed_alone(line: bytes) -> Any:
    """What a line says by itself, though others like it are known."""
    known = dict(verify_audit.LIKENESSES)
    try:
        return verify_audit.by_itself(line)
    finally:
        verify_audit.LIKENESSES.clear()
        verify_audit.LIKENESSES.update(known)

"""What the form of a field refuses, in which words, and which fault is named first."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed
from svc.messages import forms, session, tunnel
from svc.messages.forms import FieldForm, FieldTable
from svc.model.signing import Signed
from svc.proto.gate.v1 import session_pb2, tunnel_pb2


class _Came:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def _words(form: FieldForm, came: Any) -> str:
    """What is said of one field with this in it; empty: it is taken."""
    try:
        FieldTable("what", name=form).read_fields(_Came(name=came))
    except Malformed as refusal:
        return refusal.text
    return ""


class RefusalTests(SynchronousTestCase):
    """Each form takes its whole range, and says what is wrong just past it."""

    def test_words(self) -> None:
        """Sizes, items and closed lists are each refused in their own words."""
        most = forms.MAX_CERTIFICATE_BYTES
        for form, good, bad, words in (
            (forms.WORD, "x" * 63, "x" * 64, "what: name: it is longer than 63 characters"),
            (forms.WORD, "é", "", "what: name: missing"),
            (forms.WORD_OR_EMPTY, "", "x" * 64, "what: name: it is longer than 63 characters"),
            (forms.words(2), ["a", "b"], ["a", "b", "c"], "what: name: more than 2"),
            (forms.words(2), [], ["a", ""], "what: name: missing"),
            (forms.words(2), ["a"], ["x" * 64], "what: name: it is longer than 63 characters"),
            (forms.UID, bytes(16), bytes(15), "what: name: not 16 bytes"),
            (forms.octets(8, empty=True), b"", bytes(7), "what: name: not 8 bytes"),
            (forms.octets(8, empty=True), bytes(8), bytes(9), "what: name: not 8 bytes"),
            (forms.bounded(2), b"", b"abc", "what: name: it is longer than 2 bytes"),
            (forms.filled(2), b"ab", b"", "what: name: missing or too long"),
            (forms.at_most(7, "too large"), 7, 8, "what: name: too large"),
            (forms.one_of({"a": 1}, "not a"), "a", "b", "what: name: not a"),
            (forms.chain(), [b"x" * most], [], "what: name: missing"),
            (forms.chain(), [b"x"] * 4, [b"x"] * 5, "what: name: more than 4 certificates"),
            (forms.chain(empty=True), [], [b""], "what: name: a certificate is empty or too long"),
            (forms.signed_part(2), b"ab", b"", "what: the signed part is missing or too long"),
            (forms.HEADS, [b""] * 16, [b""] * 17, "what: name: more than 16"),
            (forms.RANDOM_ID, "0" * 32, "0" * 31 + "G", "what: name: not 32 hex digits"),
            (forms.WORD.named("name"), "x", "", "what: name: missing"),
        ):
            with self.subTest(words=words):
                self.assertEqual((_words(form, good), _words(form, bad)), ("", words))

    def test_the_first_fault(self) -> None:
        """Of two faults the one of the field that is declared first is named."""
        table = FieldTable("what", first=forms.at_most(1, "too large"), second=forms.WORD)
        error = self.assertRaises(Malformed, table.read_fields, _Came(first=2, second=""))
        self.assertEqual(error.text, "what: first: too large")

    def test_a_part_that_is_absent(self) -> None:
        """An optional part is None where it is absent; another is refused for what it lacks."""
        opened = session_pb2.SessionOpened(decision_id="d").SerializeToString()
        error = self.assertRaises(Malformed, session.decode_opened, opened)
        self.assertEqual(error.text, "grant: the signed part is missing or too long")
        carry = tunnel.encode_carry_open("u", bytes(32))
        self.assertIsNone(tunnel.decode_carry_open(carry).answer)
        answer = Signed(b"a", b"s", (b"c",))
        carry = tunnel.encode_carry_open("u", bytes(32), answer)
        self.assertEqual(tunnel.decode_carry_open(carry).answer, answer)

    def test_a_choice_of_nothing(self) -> None:
        """A message that is none of its choices, or empty, is refused; an empty choice is one."""
        for data in (b"", b"\xa2\x06\x00"):
            error = self.assertRaises(Malformed, tunnel.decode_up, data)
            self.assertEqual(error.text, "tunnel: a message of an unknown type")
        data = tunnel.encode_up(tunnel.Renew())
        self.assertEqual(tunnel_pb2.TunnelUp.FromString(data).WhichOneof("message"), "renew")
        self.assertEqual(tunnel.decode_up(data), tunnel.Renew())

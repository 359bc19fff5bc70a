"""Which statements have a text that somebody can approve, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.kinds.postgres.messages import fields_of
from tests.kinds.postgres.talk import READY, SYNC, Talk, complaint, parse, parts, query, word_of


def by_exact_text(action: str, context: Mapping[str, Any]) -> bool:
    """A policy: what is approved by its exact text."""
    return action == "view" or "exact" in context.get("approved_request", {})


class ExactTextTests(SynchronousTestCase):
    """A policy that can be turned by an approval of an exact text."""

    def test_exact_text(self) -> None:
        """A text of the simple protocol can be asked for, but for what does not show in it."""
        talk = Talk()
        talk.allows = lambda action, context: action == "view" or "approved_request" in context
        talk.played.requestable = frozenset({"played"})
        text = "DELETE FROM a\n WHERE id = 7; SELECT 1 "
        talk.asks(query(text) + query("EXECUTE p") + query("PREPARE p AS SELECT 1; EXECUTE p"))
        talk.asks(parse("", "SELECT 1") + SYNC)
        self.assertEqual(talk.played.exact, [text.encode()])

    def test_no_exact_text(self) -> None:
        """Where only an approval of the text would do, and there is none, a hint says so."""
        by = "It has to be approved by its exact text, and "
        long = f"SELECT '{'x' * 8192}'"
        for asked, why in (
            (parse("", "SELECT 1") + SYNC, "a statement whose parameters are sent apart has none"),
            (query("PREPARE p AS SELECT 1; EXECUTE p"), "EXECUTE does not show what it runs"),
            (query(long), "only UTF-8 of at most 8192 bytes can be asked for"),
            (query("SELECT 1"), ""),
        ):
            talk = Talk()
            talk.allows = by_exact_text
            talk.played.requestable = frozenset({"played"})
            word = word_of(talk.asks(asked))
            ((_, body), *_) = parts(talk.answers(complaint(word) + READY))
            hint = fields_of(body)[b"H"].decode()
            decision = word.removeprefix("svc_denied_")
            if why:
                self.assertTrue(hint.startswith(by + why), hint)
            else:
                self.assertIn(f"To ask for access: svc request --decision {decision}; ", hint)
            self.assertTrue(hint.endswith(f"; to see why: svc why {decision}"), hint)

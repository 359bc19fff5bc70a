"""What a person sees of a request before it is signed in their name."""

from __future__ import annotations

from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.access import of_denied
from svc.cli.access_texts import ask_lines, waiting_line
from svc.cli.output import pairs, table
from svc.errors import Malformed
from svc.messages.access import DeniedRequest, denied_message, read_denied
from svc.model.policy.requested import MAX_TEXT_BYTES, AccessAsk

ASK = AccessAsk(resource="", reason="order 7", secs=3600, uses=1)
TEXT = b"DELETE FROM orders;\x1b[2J"


class DeniedTests(SynchronousTestCase):
    """``svc request --decision``: what was denied is what a Proxy says."""

    def test_everything_is_shown(self) -> None:
        """Resource, action and parameters too, and nothing in them is obeyed by a terminal."""
        parameters = {"db_role": "app", "database": "shop\x1b[2J"}
        denied = DeniedRequest(
            resource="orders", action="dbQuery", parameters=parameters, text=TEXT
        )
        asked = of_denied(ASK, denied)
        self.assertEqual((asked.parameters, asked.text, asked.uses), (parameters, TEXT, 1))
        self.assertEqual(
            ask_lines(asked),
            [
                "resource    orders",
                "action      dbQuery, one exact text",
                r"parameters  database=shop\x1b[2J,db_role=app",
                "for         1 h 0 min from the approval on",
                "uses        1",
                "reason      order 7",
                f"text: {len(TEXT)} bytes, SHA-256 {sha256(TEXT).hexdigest()}",
                r"  | DELETE FROM orders;\x1b[2J",
            ],
        )

    def test_without_a_text(self) -> None:
        """A Proxy cannot make of one statement a request for all of them."""
        denied = DeniedRequest(resource="orders", action="dbQuery", parameters={}, text=b"")
        self.assertRaises(Malformed, of_denied, ASK, denied)

    def test_a_text_that_is_none(self) -> None:
        """Bytes that nobody could read are refused as they arrive, and break nothing."""
        for text in (b"DROP\xff", b"x" * (MAX_TEXT_BYTES + 1)):
            sent = denied_message(
                DeniedRequest(resource="orders", action="dbQuery", parameters={}, text=text)
            )
            refused = self.assertRaises(Malformed, read_denied, sent)
            self.assertEqual(refused.reason, "bad_request")


class WaitingTests(SynchronousTestCase):
    """What somebody is told who has asked for nothing, and may decide about others."""

    def test_line(self) -> None:
        """How many wait, and the command that lists them."""
        self.assertEqual(
            waiting_line(1),
            "1 request of another person waits for your decision: svc requests list --to-decide",
        )
        self.assertEqual(
            waiting_line(12),
            "12 requests of others wait for your decision: svc requests list --to-decide",
        )


class NothingTests(SynchronousTestCase):
    """What is not there, in a list of requests or elsewhere."""

    def test_null(self) -> None:
        """A person is shown a dash for no reason, as for an empty one."""
        self.assertEqual(table(("ID", "REASON"), [("a", None), ("b", "")])[1:], ["a   -", "b   -"])
        self.assertEqual(pairs([("reason", None)]), ["reason  -"])

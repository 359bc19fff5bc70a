"""What a hostile Proxy can write on a person's terminal: nothing that the terminal obeys."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import svc.cli
from svc.cli.output import pairs
from svc.client.sessions import opened_text
from svc.errors import SvcError

EVIL = "\x1b]0;title\x07 \u202e hidden \x9b31m"
"""Sets a title, turns the reading order, colours; by a C1 control as well."""


class _Session:
    decision_id = EVIL

    class intent:  # noqa: N801 - an attribute
        resource = EVIL


class TerminalTests(SynchronousTestCase):
    def assert_tame(self, text: str) -> None:
        self.assertIn("hidden", text)
        found = [mark for mark in text if not mark.isprintable() and mark != "\n"]
        self.assertEqual(found, [])

    def test_refusal(self) -> None:
        """The words of a refusal are shown, whatever marks the peer put among them."""

        class Command:
            def main(self, **_: Any) -> None:
                raise SvcError(f"the Proxy says: {EVIL}")

        self.patch(svc.cli, "svc", Command())
        with redirect_stderr(io.StringIO()) as told:
            self.assertEqual(svc.cli.main([]), 1)
        self.assert_tame(told.getvalue())

    def test_problems_keep_their_lines(self) -> None:
        """A list of problems stays a list."""

        class Command:
            def main(self, **_: Any) -> None:
                raise SvcError("one\ntwo")

        self.patch(svc.cli, "svc", Command())
        with redirect_stderr(io.StringIO()) as told:
            svc.cli.main([])
        self.assertEqual(told.getvalue(), "svc: one\ntwo\n")

    def test_decision_of_a_session(self) -> None:
        """The decision id of an open session is the Proxy's word, and is shown as text."""
        self.assert_tame(opened_text(_Session()))  # type: ignore[arg-type]

    def test_names_of_facts(self) -> None:
        """So are the names under which `svc why` shows what policies say."""
        self.assert_tame("\n".join(pairs([(f"says {EVIL}", EVIL)])))

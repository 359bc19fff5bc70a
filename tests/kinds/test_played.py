"""A gate played in memory behaves as at a Proxy: nothing undeclared is decided, edited or noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.log.kind_events import kind_events
from svc.audit.log.record import Unrecordable
from svc.errors import Malformed, SvcError
from svc.interfaces.gating import IGatedSession
from svc.interfaces.kinds import KindEvent, KindTerms, ServedKind
from svc.testing.gating import PlayedSession
from tests.kinds.served import tcp

TERMS = KindTerms(
    "Lines",
    open_action="linesOpen",
    actions={"linesOpen": "connect", "linesSay": "web"},
    context={"size": "Long public"},
    events={"lines.odd": KindEvent("an odd line", {"size": "number public"})},
)


async def serve(session: IGatedSession) -> None:
    """Each line is ``WORD VALUE``: a fact to decide by, an edit to ask for, or an event."""
    while (line := await session.requests.until(b"\n", 64)) is not None:
        word, _, value = line.decode().strip().partition(" ")
        if word == "edit":
            session.requests.edit(len(line), value, {})
        elif word == "note":
            await session.record("lines.odd", {"size": value})
        else:
            verdict = await session.decide("linesSay", {word: int(value)})
            if verdict.allowed:
                await session.requests.pass_on(len(line))
            else:
                session.requests.edit(len(line), "drop", {})


class Side:
    """Both sides make the same two edits."""

    edits: Mapping[str, Any] = {
        "keep": lambda came, values: came,
        "drop": lambda came, values: b"-\n",
    }


LINES = ServedKind(
    name="lines",
    terms=TERMS,
    events=kind_events("lines", TERMS.events),
    opaque=False,
    dialer=Side(),
    gate=serve,
    local=Side(),
)


class PlayedTests(SynchronousTestCase):
    def played(self, said: bytes) -> PlayedSession:
        played = PlayedSession(LINES, lambda action, context: context["size"] != 13)
        played.person_says(said)
        return played

    def test_decided(self) -> None:
        """What is allowed reaches the target; both are recorded with their facts."""
        played = self.played(b"size 7\nsize 13\n")
        self.assertEqual(played.target_heard, b"size 7\n-\n")
        self.assertEqual(
            [(one.action, one.decision, one.request.context["size"]) for one in self.asked(played)],
            [("web", "allow", 7), ("web", "deny", 13)],
        )
        played.person_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def asked(self, played: PlayedSession) -> list[Any]:
        return list(played.records)

    def test_an_undeclared_fact(self) -> None:
        """A fact that the terms do not have decides nothing, and no edit goes without a denial."""
        played = self.played(b"weight 7\n")
        self.assertEqual((played.target_heard, played.records), (b"", []))
        assert played.failure is not None
        self.assertTrue(played.failure.check(Malformed))

    def test_what_breaks_a_session(self) -> None:
        """An edit that the target's side does not know, and an event that cannot be recorded."""
        for said, error in (
            (b"edit shout\n", Malformed),
            (b"note seven\n", Unrecordable),
            (b"x" * 65, Malformed),
        ):
            played = self.played(said)
            assert played.failure is not None, said
            self.assertTrue(played.failure.check(error), said)
            self.assertEqual(played.target_heard, b"")

    def test_parameters(self) -> None:
        """A session that no Proxy would decide is not played."""
        error = self.assertRaises(
            SvcError, PlayedSession, LINES, lambda action, context: True, {"x": "y"}
        )
        self.assertEqual(error.reason, "unknown_parameter")
        self.assertRaises(AssertionError, PlayedSession, evolve(tcp, gate=None), lambda a, c: True)

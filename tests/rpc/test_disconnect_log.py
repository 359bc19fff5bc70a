"""The log of ended connections."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.config.keys import KEYS
from svc.rpc.disconnect_log import LINES, SPAN_SECS, DisconnectLog
from svc.wire.connection import REASONS
from svc.wire.floods import Nuisance

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"


class EndingsTests(SynchronousTestCase):
    def test_log_is_not_filled(self) -> None:
        """Each reason has its lines; what is past them is counted and told with the next."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        clock = Clock()
        told = DisconnectLog(clock, "endpoints.public_listen").of("192.0.2.1")
        for _ in range(1000):
            told("ping_flood", "x")
        told("no_h2", "")
        clock.advance(SPAN_SECS)
        told("ping_flood", "y")
        seen = [(one["reason"], one["detail"], one["count"]) for one in events if "reason" in one]
        first = [("ping_flood", "x", 1)] * LINES
        self.assertEqual(seen, [*first, ("no_h2", "", 1), ("ping_flood", "y", 1001 - LINES)])
        self.assertEqual({one["peer"] for one in events if "reason" in one}, {"192.0.2.1"})
        self.assertEqual({one["at"] for one in events if "at" in one}, {"endpoints.public_listen"})

    def test_page(self) -> None:
        """The page for operators tells every word of the wire, and names keys that there are."""
        page = PAGE.read_text("utf-8")
        words = {f"{each.value}_flood" for each in Nuisance} | set(REASONS.values())
        words |= {"protocol_error", "unread_answers"}
        self.assertEqual({word for word in words if f"`{word}`" not in page}, set())
        keys = set(re.findall(r"`(limits\.[a-z_]+)`", page))
        self.assertLessEqual(keys, {key.path for key in KEYS})

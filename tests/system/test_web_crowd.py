"""Web requests of several people at once: none is lost, mixed up or decided for another person.

With SVC_LONG=1 there are 200 connections of four people, and 100,000 requests.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from time import monotonic

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import POLICY
from tests.system.board import DASHBOARD, enable, web
from tests.system.marked import Crowd

RUN_BY = "make fault"

IS_LONG = os.environ.get("SVC_LONG") == "1"
CLIENTS, REQUESTS = (200, 100_000) if IS_LONG else (20, 1000)
NEIGHBOURS = ["gil", "ida", "joe"] if IS_LONG else ["gil"]
TIMEOUT_SECS = 600.0


class CrowdTests(SynchronousTestCase):
    """Connections that are kept alive, most of them with several requests under way."""

    def setUp(self) -> None:
        self.web = web()
        self.gateway = self.web.gateway
        self.people = [self.web.person]
        for name in NEIGHBOURS:
            person = self.gateway.add_person(name, "ops")
            self.addCleanup(self.gateway.people.remove, person)
            enable(person)
            self.addCleanup(person.up("board").end)
            self.people.append(person)
        own = (
            f'principal.name == "{one.name}" && context.path like "/of/{one.name}/*"'
            for one in self.people
        )
        only = f"""
@id("only-own")
forbid (principal, action == Action::"webAccess", resource)
unless {{ context has path && ({" || ".join(own)}) }};
"""
        self.gateway.set_policy(POLICY + only)
        self.addCleanup(self.gateway.set_policy, POLICY + DASHBOARD)
        self.web.site.heard.clear()

    def test_in_parallel(self) -> None:
        """Each is answered with its own answer, and is in the log once, as its sender's."""
        newest = json.loads(self.audit("export").splitlines()[-2])["seq"]
        crowd = Crowd({one.name: one.endpoint("board") for one in self.people}, CLIENTS, REQUESTS)
        began = monotonic()
        self.assertEqual(crowd.meet()[:3], [])
        took = monotonic() - began
        asked = crowd.asked
        self.assertEqual(len(asked), REQUESTS)
        allowed = [f"GET {one.path}" for one in asked if one.decision == "allow"]
        self.assertEqual(sorted(self.web.site.heard), sorted(allowed))
        recorded = self.recorded(newest)
        self.assertEqual(
            Counter((name, path, decision) for name, _, path, decision in recorded),
            Counter((one.sender, one.path, one.decision) for one in asked),
        )
        # Each session is one connection: all its records have that connection's mark.
        marks = {(session, path.split("/")[3].split("-")[0]) for _, session, path, _ in recorded}
        self.assertEqual(len(marks), CLIENTS)
        self.assertEqual(len({session for session, _ in marks}), CLIENTS)
        self.assertIn("verified", self.audit("verify"))
        if IS_LONG:
            sys.stdout.write(
                f"{len(self.people)} people, {CLIENTS} connections, {len(asked)} requests in "
                f"{took:.0f} s: {len(allowed)} allowed and {len(asked) - len(allowed)} denied; "
                f"{len(recorded)} records\n"
            )
            sys.stdout.flush()

    def audit(self, *words: str) -> str:
        """What a command on the log prints, which may be long."""
        return self.gateway.operator("audit", *words, seconds=TIMEOUT_SECS).stdout

    def recorded(self, after: int) -> list[tuple[str, str, str, str]]:
        """Person, session, path and decision of each request, once all of them are in the log."""
        people = self.gateway.operator("persons", "list", "--json").json
        names = {one["id"]: one["name"] for one in people}
        senders: dict[str, str] = {}
        found: list[tuple[str, str, str]] = []
        newest = after

        def all_of_them() -> bool:
            nonlocal newest
            said = self.audit("export", "--personal", "--after", str(newest))
            for one in map(json.loads, said.splitlines()[:-1]):  # the head is last
                newest = one["seq"]
                if one["event"] == "session.start":
                    senders[one["session_uid"]] = names[one["actor"]["id"]]
                elif one["form"] == "svc-audit-request-v1":
                    session = one["header"]["session_uid"]
                    values = {each["path"]: each["value"] for each in one["personal"]}
                    path = json.loads(values["request.context.path"])
                    if not path.startswith("/of/"):
                        continue  # of another test that shares the gateway
                    found.append((session, path, one["decision"]))
            return len(found) >= REQUESTS and {one[0] for one in found} <= senders.keys()

        until("all of them in the log", all_of_them, TIMEOUT_SECS)
        return [(senders[session], session, path, said) for session, path, said in found]

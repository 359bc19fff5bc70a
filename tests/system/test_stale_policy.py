"""No decision on a policy past its time; and no answer that tells a secret name from none."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from time import monotonic
from typing import Any

from twisted.trial.unittest import SynchronousTestCase, TestCase

from svc.interfaces.rpc import IRpcChannel
from svc.messages.session import (
    WHY_METHOD,
    encode_open,
    encode_request,
    encode_why_request,
    why_message,
)
from svc.model.ids import random_id
from svc.model.session.request import SessionRequest, WhyRequest
from svc.model.signing import Purpose
from svc.proto.gate.v1 import session_pb2
from svc.rpc.frames import open_frame
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import TIMEOUT_SECS, Ran, until
from svc.testing.gateway.settings import AUTHORITY, GatewayTarget
from tests.system.common import VALID_SECS, ada, eve, shared
from tests.system.side import closed, side_of
from tests.system.test_health import pair, probes
from tests.system.world import around

RUN_BY = "make fault"

MANY = 50
IS_LONG = os.environ.get("SVC_LONG") == "1"
_ID = re.compile(r"(?:decision|svc why) ([0-9a-f]{32})")


def through(person: GatewayPerson, resource: str = "echo") -> Ran:
    """One session of a person by ``svc proxy-ssh``."""
    return person.svc("proxy-ssh", resource, "--kind", "tcp", stdin=b"through")


def opens(person: GatewayPerson, proxy_id: str, names: Iterable[str]) -> list[str]:
    """What a person signs and sends to open each of these, in hex."""
    side = side_of(person)
    made = []
    for name in names:
        request = SessionRequest(
            cluster=side.identity.verifier.cluster,
            session_uid=random_id(side.runtime.entropy),
            resource=name,
            kind="tcp",
            action="tcpConnect",
            proxy_id=proxy_id,
            issued_at_ms=int(side.runtime.now() * 1000),
            certificate_sha256=side.identity.facts.sha256,
        )
        data = encode_request(request)
        signature = side.identity.sign(Purpose.SESSION_REQUEST, data).signature
        made.append(open_frame(encode_open(data, signature)).hex())
    return made


def without_id(answer: dict[str, Any], found: list[str]) -> str:
    """An answer as text, the one decision id in it taken out and noted."""
    text = json.dumps(answer)
    whole = bytes.fromhex("".join(value for _, value in answer["trailers"])).decode("latin-1")
    ids = set(re.findall(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", whole))
    assert len(ids) == 1, f"{ids} in {whole!r}"
    (one,) = ids
    found.append(one)
    return text.replace(one.encode().hex(), "ID").replace(one, "ID")


class StaleTests(SynchronousTestCase):
    """A Proxy whose Authority stays away."""

    timeout = 150

    def test_authority_away(self) -> None:
        """With Authority away opens are refused at once, and past the policy's time as stale.

        With SVC_LONG=1 that is the minute that a configuration has which says nothing of it.
        """
        if not IS_LONG:
            self.check(shared(), shared().add_person("stella", "ops"), VALID_SECS)
            return
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target])
        self.addCleanup(gateway.end)
        self.check(gateway, gateway.add_person("ada", "ops"), 60)

    def check(self, gateway: Gateway, person: GatewayPerson, valid: float) -> None:
        """Authority goes; nothing is granted from then on, and after *valid* seconds told why."""
        self.assertEqual(through(person).checked().stdout, "through")
        resident = person.up("echo")
        self.addCleanup(resident.end)
        gateway.child(AUTHORITY).kill()
        gone = monotonic()
        try:
            said = through(person)
            self.assertEqual((said.status, said.stdout), (1, ""))
            self.assertIn("authority_unreachable", said.stderr)
            self.check_status(person)
            stale = until(
                "stale", lambda: self.refused(person, "policy_stale"), valid + TIMEOUT_SECS
            )
            self.assertEqual((stale.status, stale.stdout), (1, ""))
            self.assertGreater(monotonic() - gone, valid / 2)
        finally:
            gateway.start(AUTHORITY)
        until("sessions again", lambda: through(person).stdout == "through")
        until("the person is told so", lambda: person.svc("status", "--refresh").status == 0)
        self.assertEqual(person.status()["no_new_sessions"], [])
        # The tunnel of before the kill is at its end on record, too.
        shown = gateway.operator("audit", "show", "--last", "50", "--json").json
        ended = [one for one in shown if one["event"] == "tunnel.ended"]
        self.assertIn("leader_gone", [one.get("reason") for one in ended])

    def check_status(self, person: GatewayPerson) -> None:
        """``svc status`` tells that no session opens and why, before one is tried."""
        until("the person is told", lambda: person.status()["no_new_sessions"])
        shown = person.svc("status", "--refresh")
        self.assertEqual(shown.status, 1, shown.stderr)
        self.assertIn("no new sessions  the Proxy cannot reach Authority\n", shown.stdout)
        self.assertEqual(person.svc("status").status, 0)
        listed = person.svc("resources", "list")
        self.assertIn("no new sessions: the Proxy cannot reach Authority", listed.stderr)

    def refused(self, person: GatewayPerson, reason: str) -> Ran | None:
        """A session refused for this reason; None while it is another one."""
        ran = through(person)
        self.assertEqual(ran.stdout, "")
        self.assertIn("reason", ran.stderr)
        return ran if f"reason {reason}" in ran.stderr else None


class SecrecyTests(TestCase):
    """What one who may not view a resource can learn of it."""

    timeout = 60

    def proxy_id(self) -> str:
        """The Proxy's node id, from the operator's list."""
        listed = shared().operator("nodes", "list", "--json").json
        (proxy,) = [one["id"] for one in listed if one["role"] == "proxy"]
        assert isinstance(proxy, str)
        return proxy

    def test_denied_and_invented(self) -> None:
        """Fifty denied and fifty invented names are answered byte for byte alike but for the id."""
        proxy, person = self.proxy_id(), eve()
        names = [name for number in range(MANY) for name in ("echo", f"e{number:03}")]
        names[2::4] = ["vault"] * len(names[2::4])
        asked = {
            "address": shared().public,
            "root": str(person.directory / "trust" / "root.pem"),
            "pair": pair(person.directory),
            "opens": opens(person, proxy, names),
        }
        (answers,) = probes(asked)
        ids: list[str] = []
        told = {without_id(answer, ids) for answer in answers}  # type: ignore[arg-type]
        self.assertEqual(len(told), 1, "\n".join(sorted(told)))
        alike = told.pop()
        self.assertIn("PERMISSION_DENIED", alike)
        self.assertEqual(len(set(ids)), 2 * MANY)
        for name in ("echo", "vault", "e001"):
            self.assertNotIn(name.encode().hex(), alike)
        # Each of them is on record, under the id that was told.
        for one in (ids[0], ids[1]):
            self.assertEqual(shared().decision(one)[0]["request"]["principal"]["type"], "User")

    async def test_why(self) -> None:
        """Of another person's decision ``why`` tells no more than of one never made."""
        said = through(ada())
        found = _ID.search(said.stderr)
        assert found is not None, said.stderr
        mine = await self.asked(ada(), found[1])
        self.assertTrue(mine.explained)
        self.assertEqual(mine.resource, "echo")
        invented = random_id(side_of(eve()).runtime.entropy)
        answers = []
        for one in (found[1], invented):
            answer = await self.asked(eve(), one)
            self.assertFalse(answer.explained)
            answers.append(answer.SerializeToString().replace(one.encode(), b"ID"))
        self.assertEqual(answers[0], answers[1])

    async def asked(
        self, person: GatewayPerson, decision_id: str
    ) -> session_pb2.SessionWhyResponse:
        """The raw answer to a person's ``why``."""
        side = side_of(person)
        channel: IRpcChannel = await side.connect()
        self.addCleanup(closed, channel)
        question = encode_why_request(
            WhyRequest(
                cluster=side.identity.verifier.cluster,
                decision_id=decision_id,
                proxy_id=side.dialer(lambda: channel).proxy_id(channel),
                issued_at_ms=int(side.runtime.now() * 1000),
                certificate_sha256=side.identity.facts.sha256,
            )
        )
        signature = side.identity.sign(Purpose.WHY_REQUEST, question).signature
        message = why_message(question, signature)
        return await channel.unary(WHY_METHOD, message, session_pb2.SessionWhyResponse, timeout=10)

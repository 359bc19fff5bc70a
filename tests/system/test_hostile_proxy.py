"""What a hostile Proxy asks of Authority: for persons, and for Connectors (rule R1).

The Proxy's certificate is genuine; everything else it brings is made up,
altered, stolen, old or used before.
"""

from __future__ import annotations

import os
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from svc.client.sessions import SessionIntent
from svc.interfaces.rpc import IRpcStream
from svc.messages.control import (
    DEPARTED_METHOD,
    END_METHOD,
    Ask,
    CountedEnd,
    Departure,
    departure_message,
    ended_message,
)
from svc.messages.session import decode_request, encode_request
from svc.messages.tunnel import decode_registration, encode_registration
from svc.model.cluster.registration import DeclaredResource, Registration
from svc.model.ids import random_id
from svc.model.session.request import SessionRequest
from svc.model.signing import Purpose, Signed
from svc.proto.gate.v1 import control_pb2 as pb
from svc.testing.gateway.settings import AUTHORITY
from tests.support.proof import proves
from tests.system.hostile_case import HostileCase, listening
from tests.system.stage import EVIL, OTHER, kinds

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

ALTERED_REQUEST: dict[str, Any] = {
    "cluster": "other.example",
    "session_uid": "f" * 32,
    "resource": "host1",
    "kind": "ssh",
    "action": "sshConnect",
    "proxy_id": "a" * 26,
    "issued_at_ms": 1_900_000_000_000,
    "certificate_sha256": bytes(32),
    "parameters": {"login_user": "root"},
    "half": bytes(range(32)),
}


class RequestTests(HostileCase):
    async def assertRefused(self, ask: Ask, reason: str) -> None:
        """Refused for this reason, recorded as the Proxy's doing, and no session of it exists."""
        refusal = await self.refusal(self.evil.authorize(ask))
        self.assertEqual(refusal.reason, reason)
        [record] = self.stage.records("decision_id", ask.proxy_decision.decision_id)
        self.assertEqual(
            (record["event"], record["decision"], record["reason"]),
            ("session.refused", "deny", reason),
        )
        self.assertEqual(record["actor"], {"kind": "node", "id": self.evil.id})
        self.assertEqual(self.stage.session_rows(decode_request(ask.request).session_uid), 0)

    async def test_unsigned(self) -> None:
        """Without the person's own signature a Proxy gets no session for that person."""
        requested = self.requested()
        good = self.ask(requested)
        of_proxy = self.evil.identity.sign(Purpose.SESSION_REQUEST, good.request)
        other_use = self.stage.people["ada"].sign(Purpose.WHY_REQUEST, good.request)
        for signature in (
            os.urandom(70),
            of_proxy.signature,
            other_use.signature,
            self.ask(self.requested()).signature,
            self.ask(requested, "bob").signature,
        ):
            ask = evolve(good, signature=signature, proxy_decision=self.evil.decision())
            await self.assertRefused(ask, "bad_signature")

    async def test_altered(self) -> None:
        """No field of what a person signed can be changed on the way."""
        self.assertEqual(
            set(ALTERED_REQUEST), {field.name for field in SessionRequest.__attrs_attrs__}
        )
        requested = self.requested()
        good = self.ask(requested)
        for name, value in ALTERED_REQUEST.items():
            data = encode_request(evolve(requested, **{name: value}))
            ask = evolve(good, request=data, proxy_decision=self.evil.decision())
            await self.assertRefused(ask, "bad_signature")

    async def test_another_principal(self) -> None:
        """A request is its signer's, whomever the Proxy names beside it."""
        await self.assertRefused(self.ask(self.requested(), "ada", chain="bob"), "bad_signature")
        await self.assertRefused(self.ask(self.requested("ada"), "bob"), "request_unsigned")
        proxy = self.evil.identity
        requested = encode_request(self.requested(certificate_sha256=proxy.facts.sha256))
        signed = proxy.sign(Purpose.SESSION_REQUEST, requested)
        own = Ask(
            request=requested,
            signature=signed.signature,
            person_chain=proxy.chain,
            proxy_decision=self.evil.decision(),
        )
        await self.assertRefused(own, "certificate_role")

    async def test_allows_by_itself(self) -> None:
        """A Proxy that says allow gives nobody what Authority's own decision denies."""
        await self.evil.tunnel()
        requested = self.requested("bob")
        answer = await self.evil.authorize(self.ask(requested, "bob", policies=("ops-all",)))
        self.assertIsNone(answer.grant)
        self.assertEqual((answer.reason, answer.policies), ("denied", ()))
        [record] = self.stage.records("decision_id", answer.decision_id)
        bob = self.stage.people["bob"].principal.id
        self.assertEqual(record["actor"], {"kind": "person", "id": bob})
        self.assertEqual((record["event"], record["decision"]), ("session.refused", "deny"))
        self.assertEqual(self.stage.session_rows(requested.session_uid), 0)

    async def test_denied_once(self) -> None:
        """A request is used up also where it was denied: a Proxy cannot ask until it is allowed."""
        denied = self.ask(self.requested("bob"), "bob")
        self.assertIsNone((await self.evil.authorize(denied)).grant)
        await self.assertReplayed(denied)

    async def test_out_of_time(self) -> None:
        """A request older than 30 s, or from so far in the future, opens nothing."""
        for seconds in (-31, 31):
            requested = self.requested()
            requested = evolve(requested, issued_at_ms=requested.issued_at_ms + seconds * 1000)
            await self.assertRefused(self.ask(requested), "request_stale")

    async def test_made_for_another(self) -> None:
        """A request made for another Proxy or cluster is worth nothing here."""
        for changed in (
            {"proxy_id": self.stage.proxies[OTHER].principal.id},
            {"cluster": "other.example"},
        ):
            await self.assertRefused(self.ask(self.requested(**changed)), "request_wrong_proxy")

    async def test_replayed(self) -> None:
        """What a real client signed opens one session, also when Authority was restarted since."""
        await self.evil.tunnel()
        tool, factory = listening()
        await (await self.dialer()).endpoint(SessionIntent("db1", kinds()["tcp"])).connect(factory)
        tool.transport.write(b"once")
        self.assertEqual(await tool.until(4), b"once")
        [used] = self.evil.asked
        uid = decode_request(used.request).session_uid
        r, s = decode_dss_signature(used.signature)
        mirrored = encode_dss_signature(r, P256_ORDER - s)
        for signature in (used.signature, mirrored):
            await self.assertReplayed(evolve(used, signature=signature))
        await self.evil.stop()
        self.stage.gateway.restart(AUTHORITY)
        self.evil = await self.proxy(EVIL)
        await self.evil.tunnel()
        await self.assertReplayed(used)
        self.assertEqual(self.stage.session_rows(uid), 1)
        self.assertIn("verified", self.stage.gateway.verify())

    async def test_anothers_session(self) -> None:
        """A Proxy ends no session of another Proxy, whatever it reports or claims."""
        await self.evil.tunnel()
        tool, factory = listening()
        await (await self.dialer()).endpoint(SessionIntent("db1", kinds()["tcp"])).connect(factory)
        uid = decode_request(self.evil.asked[0].request).session_uid
        other = await self.proxy(OTHER, listen=False)
        ended = await other.control.unary(
            END_METHOD,
            ended_message([CountedEnd(uid, "closed")]),
            pb.EndSessionsResponse,
            timeout=10,
        )
        left = await other.control.unary(
            DEPARTED_METHOD,
            departure_message(Departure(self.stage.connector_id, "evicted", (uid,))),
            pb.DepartureAnswer,
            timeout=10,
        )
        for answer in (ended, left):
            self.assertEqual([one.outcome for one in answer.outcomes], ["unknown"])
        told = [record["event"] for record in self.stage.records("session_uid", uid)]
        self.assertEqual(told, ["request.decision", "session.start"])
        tool.transport.write(b"still here")
        self.assertEqual(await tool.until(10), b"still here")

    async def assertReplayed(self, ask: Ask) -> None:
        again = evolve(ask, proxy_decision=self.evil.decision())
        refusal = await self.refusal(self.evil.authorize(again))
        self.assertEqual(refusal.reason, "request_replayed")
        [record] = self.stage.records("decision_id", again.proxy_decision.decision_id)
        self.assertEqual(
            (record["event"], record["reason"]), ("session.refused", "request_replayed")
        )


class RegistrationTests(HostileCase):
    async def setUp(self) -> None:  # type: ignore[override]
        """OTHER is at Authority as well, but no Connector comes to it."""
        await super().setUp()
        self.other = await self.proxy(OTHER, listen=False)

    @property
    def connector(self) -> str:
        return self.stage.connector_id

    def made_up(self, nonce: bytes, **changed: Any) -> Registration:
        """What the Connector would say to OTHER, had it said anything."""
        registration = Registration(
            cluster=self.stage.gateway.files.cluster,
            node_id=self.connector,
            proxy_id=self.other.id,
            nonce=nonce,
            resources=(DeclaredResource("db1", "tcp"),),
            instance_id=random_id(os.urandom),
            generation=1,
            version="0.11.0",
        )
        return evolve(registration, **changed)

    async def assertNotTaken(
        self, stream: IRpcStream, signed: Signed, reason: str, by: str, seen: str = ""
    ) -> None:
        """Refused, recorded against who is proven to have said it, and OTHER serves nothing."""
        verdict = await self.other.submit(stream, signed)
        self.assertEqual((verdict.accepted, verdict.reason), (False, reason))
        self.assertEqual(verdict.served, ())
        refused = self.stage.records("event", "tunnel.refused")
        of_it = [one for one in refused if one["node_id"] == (seen or self.connector)]
        self.assertEqual((of_it[-1]["reason"], of_it[-1]["actor"]["id"]), (reason, by))
        self.assertEqual(of_it[-1]["details"]["proxy_id"], self.other.id)
        answer = await self.other.authorize(self.ask(self.requested(proxy_id=self.other.id)))
        self.assertIsNone(answer.grant)
        self.assertIn(answer.reason, ("departed", "unknown"))

    async def test_no_signature_of_the_node(self) -> None:
        """A Connector that a Proxy made up, with a stolen chain or its own, serves nothing."""
        held = await self.evil.tunnel()
        genuine = await held.registration(os.urandom(32))
        for chain, reason in (
            (genuine.chain, "bad_signature"),
            (self.other.identity.chain, "certificate_role"),
        ):
            stream, nonce = await self.other.challenge(self.connector)
            payload = encode_registration(self.made_up(nonce))
            signed = self.other.identity.sign(Purpose.REGISTRATION, payload)
            forged = Signed(payload, signed.signature, chain)
            await self.assertNotTaken(stream, forged, reason, self.other.id)

    async def test_altered(self) -> None:
        """No field of a registration can be changed on the way."""
        held = await self.evil.tunnel()
        stream, nonce = await self.other.challenge(self.connector)
        genuine = await held.registration(nonce)
        said = decode_registration(genuine.payload)
        for changed in (
            {"proxy_id": self.other.id},
            {"proxy_id": self.other.id, "resources": (DeclaredResource("other", "tcp"),)},
        ):
            payload = encode_registration(evolve(said, **changed))
            forged = Signed(payload, genuine.signature, genuine.chain)
            await self.assertNotTaken(stream, forged, "bad_signature", self.other.id)
            stream, _ = await self.other.challenge(self.connector)
        stream.cancel()

    async def test_over_another_nonce(self) -> None:
        """A registration signed over the Proxy's own challenge answers none of Authority's."""
        held = await self.evil.tunnel()
        stream, _ = await self.evil.challenge(self.connector)
        genuine = await held.registration(os.urandom(32))
        before = len(self.stage.records("event", "tunnel.refused"))
        verdict = await self.evil.submit(stream, genuine)
        self.assertEqual((verdict.accepted, verdict.reason), (False, "malformed_registration"))
        [record] = self.stage.records("event", "tunnel.refused")[before:]
        self.assertEqual(record["details"]["proxy_id"], self.evil.id)
        self.assertEqual(record["actor"]["id"], self.evil.id)

    async def test_replayed(self) -> None:
        """A registration that was accepted is refused the second time."""
        held = await self.evil.tunnel()
        stream, nonce = await self.evil.challenge(self.connector)
        genuine = await held.registration(nonce)
        verdict = await self.evil.submit(stream, genuine)
        self.assertEqual((verdict.accepted, set(verdict.served)), (True, {"db1", "host1"}))
        again, _ = await self.evil.challenge(self.connector)
        before = len(self.stage.records("event", "tunnel.refused"))
        verdict = await self.evil.submit(again, genuine)
        self.assertEqual((verdict.accepted, verdict.reason), (False, "malformed_registration"))
        [record] = self.stage.records("event", "tunnel.refused")[before:]
        self.assertEqual(record["details"]["proxy_id"], self.evil.id)
        self.assertEqual(record["actor"]["id"], self.evil.id)
        stream.cancel()

    async def test_made_for_another_proxy(self) -> None:
        """Two Proxies together cannot move a Connector's registration from one to the other."""
        held = await self.evil.tunnel()
        stream, nonce = await self.other.challenge(self.connector)
        genuine = await held.registration(nonce)
        await self.assertNotTaken(stream, genuine, "malformed_registration", self.other.id)

    async def test_under_another_name(self) -> None:
        """A genuine registration replaces its own node alone."""
        held = await self.evil.tunnel()
        stranger = "a" * 26
        before = len(self.stage.records("event", "tunnel.refused"))
        stream, nonce = await self.evil.challenge(stranger)
        verdict = await self.evil.submit(stream, await held.registration(nonce))
        self.assertEqual((verdict.accepted, verdict.reason), (False, "malformed_registration"))
        [record] = self.stage.records("event", "tunnel.refused")[before:]
        self.assertEqual(record["details"]["proxy_id"], self.evil.id)
        # Not the stranger's doing, who is only named.
        self.assertEqual(record["actor"]["id"], self.evil.id)

    @proves("G-ROLE-20")
    async def test_what_a_connector_declares(self) -> None:
        """A Connector's registration names each of its resources with its kind."""
        held = await self.evil.tunnel()
        genuine = await held.registration(os.urandom(32))
        said = decode_registration(genuine.payload)
        declared = {(one.id, one.kind) for one in said.resources}
        self.assertEqual(declared, {("db1", "tcp"), ("host1", "ssh")})

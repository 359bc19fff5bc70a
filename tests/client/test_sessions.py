"""Opening sessions through a Proxy that may lie."""

from __future__ import annotations

from typing import Any, cast

from attrs import evolve
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.client.resident.refused import (
    RecentRefusals,
    policies_of,
    refused_text,
    wrong_kind,
)
from svc.client.sessions import ClientSession, SessionIntent, check_ceiling, check_grant
from svc.errors import Denied, Malformed, SvcError, Unavailable
from svc.messages.session import encode_request
from svc.model.principal import Role
from svc.model.session.parameters import Parameter
from svc.model.signing import Purpose
from svc.rpc.frames import FrameKind, data_head, parse_frame
from tests.client.memory import DECISION, Channel, Gate
from tests.connector.ends import Talker
from tests.kinds.served import tcp
from tests.pki.support import World

OTHER_ID = "b" * 26


class SessionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.gate = Gate()

    def open(self) -> tuple[ClientSession, list[Any]]:
        session = self.gate.dialer.endpoint(SessionIntent("db1", tcp))
        got: list[Any] = []
        session.connect(Factory.forProtocol(Talker)).addBoth(got.append)
        self.gate.turn()
        return session, got

    def opened(self) -> Talker:
        _, got = self.open()
        self.assertIsInstance(got[0], Talker)
        talker: Talker = got[0]
        return talker

    def refusal(self) -> SvcError:
        _, got = self.open()
        error = got[0].value
        self.assertIsInstance(error, SvcError)
        assert isinstance(error, SvcError)
        return error

    def test_bytes_and_half_close(self) -> None:
        """Bytes pass both ways, and either side may end its writing first."""
        near = self.opened()
        near.transport.write(b"question")
        near.transport.loseWriteConnection()
        self.gate.turn()
        far = self.gate.far[0]
        self.assertEqual((far.received, far.heard_end), (b"question", True))
        far.transport.write(b"answer" * 50_000)
        far.transport.loseConnection()
        self.gate.turn()
        self.assertEqual(near.received, b"answer" * 50_000)
        near.transport.loseConnection()
        self.gate.turn()
        assert near.lost is not None
        self.assertIsInstance(near.lost.value, ConnectionDone)

    def test_request(self) -> None:
        """What is signed names this person, this Proxy and this moment, and never comes twice."""
        self.opened()
        self.opened()
        first, second = self.gate.requests
        cluster = self.gate.cluster
        self.assertEqual(
            (first.proxy_id, first.certificate_sha256, first.action, first.kind),
            (cluster.proxy_id, cluster.person.facts.sha256, "tcpConnect", "tcp"),
        )
        self.assertEqual(first.issued_at_ms, int(cluster.world.now() * 1000))
        self.assertNotEqual(first.session_uid, second.session_uid)

    def test_known_after_opening(self) -> None:
        """Once open, a session knows its decision and its grant."""
        session, _ = self.open()
        assert session.grant is not None
        self.assertEqual((session.decision_id, session.grant.resource), (DECISION, "db1"))

    def test_altered_grants(self) -> None:
        """A grant for anything but this session opens nothing, whoever signed it."""
        now = int(self.gate.cluster.world.now() * 1000)
        rows: tuple[tuple[str, dict[str, Any]], ...] = (
            ("grant_cluster", {"cluster": "c2.example.test"}),
            ("grant_session", {"session_uid": "ff" * 16}),
            ("grant_request", {"request_sha256": bytes(32)}),
            ("grant_other_proxy", {"proxy_id": OTHER_ID}),
            ("grant_resource", {"resource": "db2"}),
            ("grant_resource", {"kind": "ssh"}),
            ("grant_person", {"person_id": OTHER_ID}),
            ("grant_person", {"person_certificate_sha256": bytes(32)}),
            ("grant_too_old", {"open_before_ms": now}),
            ("grant_too_old", {"end_before_ms": now - 1}),
            ("grant_times", {"end_before_ms": now + 10**9}),
        )
        for reason, change in rows:
            self.gate.change = change
            self.assertEqual(self.refusal().reason, reason, change)
        self.assertTrue(all(far.transport is None for far in self.gate.far))

    def test_a_ceiling_that_is_not_ours(self) -> None:
        """A grant that lets the Proxy read, or holds another thing than was asked, is refused."""
        known = {
            "claim": Parameter(),
            "database": Parameter(form="[a-z]+", enforced=True, default="main"),
        }
        kind = evolve(tcp, terms=evolve(tcp.terms, parameters=known))
        request = self.gate.cluster.request(parameters={"claim": "x", "database": "mine"})
        grant = evolve(self.gate.cluster.grant(b""), ceiling={"database": "mine"})
        check_ceiling(grant, request, kind)
        check_ceiling(
            evolve(grant, ceiling={"database": "x"}), evolve(request, parameters={}), kind
        )
        for word, change in (
            ("grant_carriage", {"is_gated": True}),
            ("grant_ceiling", {"ceiling": {}}),
            ("grant_ceiling", {"ceiling": {"database": "min"}}),
            ("grant_ceiling", {"ceiling": {"database": "mine", "claim": "x"}}),
        ):
            with self.subTest(word, change=change):
                error = self.assertRaises(
                    SvcError, check_ceiling, evolve(grant, **change), request, kind
                )
                self.assertEqual(error.reason, word)
        self.gate.change = {"is_gated": True}
        self.assertEqual(self.refusal().reason, "grant_carriage")
        self.assertTrue(all(far.received == b"" for far in self.gate.far))

    def test_what_the_kind_does_not_take(self) -> None:
        """What nobody would take is not even sent."""
        intent = SessionIntent("db1", tcp, {"login_user": "root"})
        connecting = self.gate.dialer.endpoint(intent).connect(Factory.forProtocol(Talker))
        self.gate.turn()
        refusal = self.failureResultOf(connecting, SvcError).value
        self.assertEqual((refusal.reason, self.gate.requests), ("unknown_parameter", []))

    def test_another_root(self) -> None:
        """A grant signed under another root opens nothing."""
        other = World()
        self.gate.sign = lambda grant: self.gate.cluster.sign_grant(grant, other)
        self.assertEqual(self.refusal().reason, "certificate_chain")

    def test_another_purpose(self) -> None:
        """A grant signed by a key of another purpose opens nothing."""
        keys = self.gate.cluster.world.keys

        def by_snapshot_key(grant: Any) -> Any:
            signed = self.gate.cluster.sign_grant(grant)
            return evolve(signed, chain=keys.signer(Purpose.SNAPSHOT)(b"").chain)

        self.gate.sign = by_snapshot_key
        self.assertEqual(self.refusal().reason, "certificate_role")

    def test_broken_signature(self) -> None:
        """A grant changed after it was signed opens nothing."""
        self.gate.sign = lambda grant: evolve(
            self.gate.cluster.sign_grant(grant), payload=b"\x0a\x01x"
        )
        self.assertEqual(self.refusal().reason, "bad_signature")

    def test_each_refused_by_itself(self) -> None:
        """The check needs nothing but grant, request and our certificate."""
        cluster = self.gate.cluster
        request = cluster.request()
        data = encode_request(request)
        signed = cluster.sign_grant(cluster.grant(data))
        person, now = cluster.person, cluster.world.now()
        grant = check_grant(signed, data, request, person.facts, person.verifier, now)
        self.assertEqual(grant.connector_id, cluster.connector.principal.id)
        with self.assertRaises(SvcError):
            check_grant(signed, data, request, person.facts, person.verifier, now + 31)

    def test_the_proxy_in_the_middle(self) -> None:
        """Somebody else at the other end of the inner TLS is given no byte (R3)."""
        for answering in (
            self.gate.cluster.proxy,
            self.gate.cluster.world.identity(Role.CONNECTOR),
        ):
            self.gate.answering = answering
            refusal = self.refusal()
            self.assertEqual(refusal.reason, "handshake_failed")
            self.assertEqual(refusal.details["decision_id"], DECISION)
            self.assertEqual(self.gate.far[-1].received, b"")

    def test_no_proxy(self) -> None:
        """Who shows no Proxy's certificate is not even asked."""
        self.gate.channel = Channel(self.gate.pair.channel, self.gate.cluster.connector)
        self.assertEqual(self.refusal().reason, "certificate_role")
        self.assertEqual(self.gate.requests, [])

    def test_denied(self) -> None:
        """A refusal keeps its reason, decision and policies on its way to the person."""
        details = {"decision_id": DECISION, "policies": "ops-only,office-hours"}
        self.gate.refuse = Denied("access denied", reason="denied", details=details)
        refusal = self.refusal()
        told = dict(refusal.details)
        self.assertEqual(told.pop("session_uid"), self.gate.requests[-1].session_uid)
        self.assertEqual((refusal.reason, told), ("denied", details))
        self.assertEqual(policies_of(refusal), ("ops-only", "office-hours"))
        line = refused_text("db1", refusal)
        for part in ("db1", "denied", "ops-only"):
            self.assertIn(part, line)
        self.assertTrue(line.endswith(f"; to see why: svc why {DECISION}"), line)
        at = refused_text("db1", refusal, " --dir b")
        self.assertTrue(at.endswith(f"; to see why: svc why {DECISION} --dir b"), at)
        made_up = Denied("no", details={"decision_id": "1; true"})
        self.assertEqual(refused_text("db1", made_up), "db1: no; reason denied")

    def test_what_next(self) -> None:
        """A resource that is not there, or of another kind, is refused with what to type."""
        absent = SvcError("db9: no such resource is connected", reason="unknown")
        self.assertIn("see what you may use: svc resources list", refused_text("db9", absent))
        told = SvcError("db9: check the name with `svc resources list`", reason="unknown")
        at = refused_text("db9", told, " --dir b")
        self.assertEqual(at.count("svc resources list --dir b"), 1)
        for found, said in (
            ("web", "use `svc open x`, or run this with --kind web"),
            ("postgres", "use `svc db x`, or run this with --kind postgres"),
            ("tcp", "x: is a tcp resource; run this with --kind tcp"),
        ):
            self.assertIn(said, wrong_kind("x", "ssh", found, absent).text)

    def test_without_an_account(self) -> None:
        """Where SSH ends at the Connector, whoever names no account is told how to."""
        text = "ssh: parameter login_user must be given: it has no default"
        told = refused_text("web1", Malformed(text, reason="missing_parameter"), " --dir b")
        self.assertIn("ssh ACCOUNT@web1, with the fragment that svc up writes", told)
        self.assertIn("or svc proxy-ssh --dir b --user ACCOUNT web1", told)
        other = Malformed("five: parameter port must be given", reason="missing_parameter")
        self.assertNotIn("ACCOUNT", refused_text("five1", other))

    def test_a_proxy_that_says_something_else(self) -> None:
        """A first frame that does not open ends the session, on both sides."""
        self.gate.raw_answer = data_head(1) + b"x"
        self.assertEqual(self.refusal().reason, "malformed")
        self.gate.turn()
        self.assertEqual(self.gate.pair.channel.open_streams, 0)

    def test_a_proxy_that_says_nothing(self) -> None:
        """A Proxy that never answers is given up, and its call with it."""
        self.gate.silent = True
        _, got = self.open()
        self.assertEqual(got, [])
        self.gate.clock.advance(46)
        self.gate.turn()
        self.assertEqual(got[0].value.reason, "deadline")
        self.assertEqual(self.gate.pair.channel.open_streams, 0)

    def test_begins_to_shake_hands_at_once(self) -> None:
        """The ClientHello goes with the request; it waits for no grant, and nothing follows it."""
        self.gate.silent = True
        connecting = self.gate.dialer.endpoint(SessionIntent("db1", tcp)).connect(
            Factory.forProtocol(Talker)
        )
        self.addCleanup(connecting.addErrback(lambda _: None).cancel)
        self.gate.turn()
        kind, hello = parse_frame(self.gate.asked[0].take())
        self.assertEqual((kind, hello[:1]), (FrameKind.DATA, b"\x16"))
        self.assertIsNone(self.gate.asked[0].take())

    def test_given_up(self) -> None:
        """A session nobody waits for any more leaves no call behind."""
        self.gate.silent = True
        session = self.gate.dialer.endpoint(SessionIntent("db1", tcp))
        connecting = session.connect(Factory.forProtocol(Talker))
        self.gate.turn()
        connecting.cancel()
        self.gate.turn()
        self.failureResultOf(connecting)
        self.assertEqual(self.gate.pair.channel.open_streams, 0)

    def test_expired(self) -> None:
        """Past the end of our certificate nothing is signed and nothing sent."""
        self.gate.clock.advance(86401)
        self.assertIn("certificate", self.refusal().reason)
        self.assertEqual(self.gate.requests, [])

    def test_why(self) -> None:
        """A question about a decision is signed, and asked through this Proxy."""
        (told,) = self.gate.pair.settle(self.gate.dialer.why(DECISION))
        self.assertEqual((told.decision, told.policies), ("deny", ("p1",)))
        (question,) = self.gate.questions
        self.assertEqual(question.proxy_id, self.gate.cluster.proxy_id)
        self.assertEqual(question.decision_id, DECISION)


class RefusalTests(SynchronousTestCase):
    at = 0.0

    def test_newest_are_kept(self) -> None:
        """The newest refusals are kept, however many there were."""
        refusals = RecentRefusals(lambda: 5.0)
        for number in range(100):
            refusals.note(f"r{number}", Unavailable("no", reason="departed"))
        self.assertEqual(len(refusals.kept), 64)
        self.assertEqual(refusals.kept[-1].resource, "r99")

    def test_the_same_again_and_again(self) -> None:
        """A client that tries again every second is one entry and one line a minute."""
        told: list[LogEvent] = []
        observer = cast("ILogObserver", told.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        times = iter([float(second) for second in range(1000, 1200)])
        refusals = RecentRefusals(lambda: self.at)
        for self.at in times:
            decision = {"decision_id": f"{int(self.at):032x}"}
            refusals.note("db1", Denied("no", details=decision))
        refusals.note("db2", Denied("no"))
        first, second = refusals.kept
        self.assertEqual((first.count, first.first_at, first.at), (200, 1000.0, 1199.0))
        self.assertEqual(first.decision_id, f"{1199:032x}")
        self.assertEqual((second.resource, second.count), ("db2", 1))
        lines = [one for one in told if one.get("resource") == "db1"]
        self.assertEqual([one.get("times") for one in lines], [None, 60, 60, 60])
        self.assertEqual(lines[-1]["since"], "1970-01-01T00:16:40.000000Z")

"""A Connector opens nothing that Authority and the person did not both ask for, here and now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve
from cryptography.x509 import InvalidVersion, load_der_x509_certificate
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.connector.admission import Admission, SeenSessions
from svc.connector.inventories import ProxyInventories
from svc.interfaces.kinds import ServedKind
from svc.kinds.web.dialer import DIALER as WEB
from svc.messages.session import encode_grant, encode_request
from svc.messages.tunnel import OpenNotice
from svc.model.cluster.registration import Inventory
from svc.model.cluster.resource import Assigned
from svc.model.principal import Role
from svc.model.session.parameters import Parameter
from svc.model.signing import Purpose, Signed
from svc.tunnel.refusals import CONNECTOR_WORDS, OpenRefusedHere
from tests.connector.pieces import UID, Cluster
from tests.kinds.served import ssh, tcp
from tests.pki.support import World
from tests.support.examples import examples

OTHER_UID = "ff" * 16
KINDS: Mapping[str, ServedKind] = {"tcp": tcp, "ssh": ssh}


class AdmissionCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.world = self.cluster.world
        self.inventories = ProxyInventories()
        self.admission = self.fresh()

    def fresh(self) -> Admission:
        cluster = self.cluster
        return Admission(
            node_id=cluster.connector.facts.principal.id,
            verifier=self.world.verifier,
            targets=cluster.targets,
            kinds=KINDS,
            now=self.world.now,
            inventories=self.inventories,
        )

    def refusal(self, notice: OpenNotice, proxy_id: str = "") -> str:
        error: OpenRefusedHere = self.assertRaises(
            OpenRefusedHere, self.admission.admit, notice, proxy_id or self.cluster.proxy_id
        )
        self.assertIn(error.reason, CONNECTOR_WORDS)
        return error.reason


class AdmissionTests(AdmissionCase):
    def test_good(self) -> None:
        """What Authority granted and the person signed is admitted, with its target."""
        admitted = self.admission.admit(self.cluster.notice(), self.cluster.proxy_id)
        self.assertEqual(admitted.target, self.cluster.targets["db1"])
        self.assertEqual(admitted.person.sha256, self.cluster.person.facts.sha256)
        self.assertEqual(admitted.grant.session_uid, UID)

    def test_assigned_otherwise(self) -> None:
        """Once told what to serve, only a grant of that very assignment opens."""
        proxy = self.cluster.proxy_id
        meant = {"resource_identity": "i1", "assignment_revision": 2}

        def notice(number: int, **changed: Any) -> OpenNotice:
            uid = f"{number:032x}"
            fields = {"session_uid": uid, **meant, **changed}
            notice = self.cluster.notice({"session_uid": uid}, **fields)
            return evolve(notice, session_uid=uid)

        self.inventories.receive(proxy, Inventory(3, frozenset({Assigned("db1", "i1", 2)})))
        self.assertEqual(self.inventories.generation(proxy), 3)
        self.admission.admit(notice(1), proxy)
        for other in ({"resource_identity": "i2"}, {"assignment_revision": 1}):
            self.assertEqual(self.refusal(notice(2, **other)), "assignment_changed")
        self.admission.admit(notice(2), proxy)  # what was refused was not seen
        self.inventories.receive("another", Inventory(4))
        self.admission.admit(notice(3), proxy)  # another Proxy's word counts over that Proxy
        self.inventories.receive(proxy, Inventory(4))
        self.assertEqual(self.refusal(notice(4)), "assignment_changed")

    def test_every_field_signed_anew(self) -> None:
        """A grant that Authority signed for anything but this session here is refused."""
        now = int(self.world.now() * 1000)
        nobody = "q" * 26
        changes: list[tuple[str, Any, str]] = [
            ("cluster", "other.example.test", "grant_cluster"),
            ("session_uid", OTHER_UID, "grant_session"),
            ("request_sha256", bytes(32), "request_mismatch"),
            ("person_id", nobody, "person_mismatch"),
            ("person_certificate_sha256", bytes(32), "person_mismatch"),
            ("resource", "host1", "request_mismatch"),
            ("resource", "nowhere", "request_mismatch"),
            ("kind", "ssh", "request_mismatch"),
            ("connector_id", nobody, "grant_not_for_us"),
            ("proxy_id", nobody, "grant_other_proxy"),
            ("issued_at_ms", now - 1, "grant_before_start"),
            ("issued_at_ms", now + 30_001, "grant_times"),
            ("open_before_ms", now - 1, "grant_too_old"),
            ("open_before_ms", now + 30_001, "grant_times"),
            ("open_before_ms", 0, "grant_too_old"),
            ("end_before_ms", now, "grant_times"),
            ("end_before_ms", 0, "grant_times"),
            ("end_before_ms", now + 400 * 86_400_000, "grant_times"),
        ]
        for name, value, word in changes:
            self.assertEqual(self.refusal(self.cluster.notice(**{name: value})), word, name)

    def test_every_field_unsigned(self) -> None:
        """A grant of which any field was altered after the signature is refused."""
        notice = self.cluster.notice()
        good = self.cluster.grant(notice.request)
        other: dict[str, Any] = {
            "resource_revision": 8,
            "policy_version": 4,
            "audit_hash": b"\x01" * 32,
            "ceiling": {"login_user": "root"},
        }
        for name, value in {
            **dict.fromkeys(("person_id", "connector_id", "proxy_id"), "q" * 26),
            **dict.fromkeys(("request_sha256", "person_certificate_sha256"), b"\x02" * 32),
            **dict.fromkeys(("issued_at_ms", "open_before_ms", "end_before_ms"), 1),
            **dict.fromkeys(("resource", "kind", "cluster"), "host1"),
            "session_uid": OTHER_UID,
            **other,
        }.items():
            payload = encode_grant(evolve(good, **{name: value}))
            forged = evolve(notice, grant=evolve(notice.grant, payload=payload))
            self.assertEqual(self.refusal(forged), "grant_refused", name)

    def test_every_field_of_the_request(self) -> None:
        """A request that the person signed for something else opens nothing by this grant."""
        for name, value in {
            "cluster": "other.example.test",
            "session_uid": OTHER_UID,
            "resource": "host1",
            "kind": "ssh",
            "proxy_id": "q" * 26,
        }.items():
            self.assertEqual(
                self.refusal(self.cluster.notice({name: value})), "request_mismatch", name
            )
        wrong = self.cluster.notice({"certificate_sha256": bytes(32)})
        self.assertEqual(self.refusal(wrong), "person_mismatch")

    def test_request_altered_or_swapped(self) -> None:
        """The grant is for one request: no other, however well signed, goes with it."""
        notice = self.cluster.notice()
        other = encode_request(self.cluster.request(action="sshConnect"))
        signature = self.cluster.person.sign(Purpose.SESSION_REQUEST, other).signature
        swapped = evolve(notice, request=other, signature=signature)
        self.assertEqual(self.refusal(swapped), "request_mismatch")
        garbage = b"\xff" * 40
        grant = self.cluster.sign_grant(self.cluster.grant(garbage))
        self.assertEqual(
            self.refusal(evolve(notice, request=garbage, grant=grant)), "request_refused"
        )

    def test_signatures_of_others(self) -> None:
        """A request signed by a Proxy, by another person or for another purpose is refused."""
        for signer in (self.cluster.proxy, self.world.identity(Role.USER)):
            self.assertEqual(self.refusal(self.cluster.notice(signer=signer)), "request_refused")
        notice = self.cluster.notice()
        for purpose in (Purpose.WHY_REQUEST, Purpose.REGISTRATION):
            signature = self.cluster.person.sign(purpose, notice.request).signature
            self.assertEqual(self.refusal(evolve(notice, signature=signature)), "request_refused")
        self.assertEqual(self.refusal(evolve(notice, signature=b"")), "request_refused")

    def test_persons_of_others(self) -> None:
        """A chain that is no person's, another person's, or another cluster's is refused."""
        notice = self.cluster.notice()
        stranger = World("other.example.test").identity(Role.USER)
        for chain, word in (
            (self.cluster.proxy.chain, "person_refused"),
            (self.cluster.connector.chain, "person_refused"),
            (stranger.chain, "person_refused"),
            ((), "person_refused"),
            ((b"junk",), "person_refused"),
            (self.world.identity(Role.USER).chain, "person_mismatch"),
        ):
            self.assertEqual(self.refusal(evolve(notice, person_chain=chain)), word)

    def test_grants_of_others(self) -> None:
        """A grant of another root, another purpose key, or a node's own making is refused."""
        notice = self.cluster.notice()
        payload = notice.grant.payload
        elsewhere = self.cluster.sign_grant(
            self.cluster.grant(notice.request), World("c1.example.test")
        )
        snapshot = self.world.keys.signer(Purpose.SNAPSHOT)(payload)
        mixed = Signed(payload, notice.grant.signature, snapshot.chain)
        for grant in (
            elsewhere,
            snapshot,
            mixed,
            self.cluster.proxy.sign(Purpose.GRANT, payload),
            self.cluster.person.sign(Purpose.GRANT, payload),
            evolve(notice.grant, chain=()),
            evolve(notice.grant, signature=b""),
        ):
            self.assertEqual(self.refusal(evolve(notice, grant=grant)), "grant_refused")
        junk = self.world.keys.signer(Purpose.GRANT)(b"\xff" * 20)
        self.assertEqual(self.refusal(evolve(notice, grant=junk)), "grant_malformed")

    def test_unreadable_certificates(self) -> None:
        """A certificate that trips its reader in whatever way is refused like any other."""
        notice = self.cluster.notice()
        for place in range(60):
            for flip in (0x01, 0x80):
                leaf = bytearray(notice.grant.chain[0])
                leaf[place] ^= flip
                grant = evolve(notice.grant, chain=(bytes(leaf),))
                self.assertEqual(self.refusal(evolve(notice, grant=grant)), "grant_refused")
                leaf = bytearray(notice.person_chain[0])
                leaf[place] ^= flip
                chain = (bytes(leaf), *notice.person_chain[1:])
                self.assertEqual(self.refusal(evolve(notice, person_chain=chain)), "person_refused")

    def test_notice_for_another_session(self) -> None:
        """A notice that names another session than its grant is refused."""
        self.assertEqual(
            self.refusal(evolve(self.cluster.notice(), session_uid=OTHER_UID)), "grant_session"
        )

    def test_another_tunnel(self) -> None:
        """A good notice that came over another Proxy's tunnel is refused."""
        other = self.world.identity(Role.PROXY).facts.principal.id
        self.assertEqual(self.refusal(self.cluster.notice(), other), "grant_other_proxy")

    def test_relayed(self) -> None:
        """A relayed session's notice comes over the tunnel that its grant names, and no other."""
        other = self.world.identity(Role.PROXY).facts.principal.id
        notice = self.cluster.notice(egress_proxy_id=other)
        self.assertEqual(self.refusal(notice), "grant_other_proxy")
        admitted = self.admission.admit(notice, other)
        self.assertEqual(admitted.grant.tunnel_proxy_id, other)

    def test_replay(self) -> None:
        """A session opens once, and a refused notice does not use it up."""
        notice = self.cluster.notice()
        self.refusal(evolve(notice, signature=b"wrong"))
        self.admission.admit(notice, self.cluster.proxy_id)
        self.assertEqual(self.refusal(notice), "session_replayed")
        self.world.clock.advance(29)
        self.assertEqual(self.refusal(notice), "session_replayed")
        self.world.clock.advance(2)
        self.assertEqual(self.refusal(notice), "grant_too_old")

    def test_refused_for_good(self) -> None:
        """The grant of a gated session that was refused opens nothing later; no other is spent."""
        gated = self.cluster.notice(is_gated=True)
        proxy_id = self.cluster.proxy_id
        self.assertEqual(self.refusal(gated), "kind_mismatch")
        grant = self.admission.spend(gated, proxy_id)
        assert grant is not None
        self.assertEqual(grant.session_uid, gated.session_uid)
        self.assertIsNone(self.admission.spend(gated, proxy_id))
        self.assertEqual(self.refusal(self.cluster.notice()), "session_replayed")
        for notice, of in (
            (self.cluster.notice(), proxy_id),
            (gated, "another"),
            (evolve(gated, session_uid="5" * 32), proxy_id),
            (self.cluster.notice(is_gated=True, open_before_ms=2**53), proxy_id),
        ):
            self.admission = self.fresh()
            self.assertIsNone(self.admission.spend(notice, of))

    def test_restart(self) -> None:
        """A Connector that was restarted opens no session granted before its start."""
        notice = self.cluster.notice()
        self.admission.admit(notice, self.cluster.proxy_id)
        self.world.clock.advance(1)
        self.admission = self.fresh()
        self.assertEqual(self.refusal(notice), "grant_before_start")

    def test_expired_person(self) -> None:
        """A person whose certificate has ended opens nothing by a grant still in date."""
        self.cluster.person = self.world.identity(Role.USER, lifetime=20)
        notice = self.cluster.notice(end_before_ms=int(self.world.now() * 1000) + 19_000)
        self.world.clock.advance(21)
        self.assertIn(self.refusal(notice), ("person_refused", "grant_times"))

    def test_resource_of_ours(self) -> None:
        """A resource that is not in our configuration, or of another kind there, is refused."""
        elsewhere = self.cluster.notice({"resource": "db2"}, resource="db2")
        self.assertEqual(self.refusal(elsewhere), "resource_not_here")
        as_ssh = self.cluster.notice({"kind": "ssh"}, kind="ssh")
        self.assertEqual(self.refusal(as_ssh), "kind_mismatch")


class CeilingTests(AdmissionCase):
    """A kind that takes a database, holds the session to it, and a name that it only claims."""

    def setUp(self) -> None:
        super().setUp()
        terms = evolve(
            tcp.terms,
            parameters={
                "claim": Parameter(fact="public"),
                "database": Parameter(form="[a-z]+", enforced=True, default="main"),
            },
        )
        self.kind = evolve(tcp, terms=terms)

    def fresh(self) -> Admission:
        admission = super().fresh()
        admission._kinds = {"tcp": getattr(self, "kind", tcp)}
        return admission

    def asked(self, ceiling: Mapping[str, str], **parameters: str) -> OpenNotice:
        return self.cluster.notice({"parameters": parameters}, ceiling=ceiling)

    def test_what_was_asked_for(self) -> None:
        """The ceiling of the grant comes with the session: as asked, or Authority's default."""
        for ceiling, asked in (("main", ()), ("other", ()), ("mine", ("mine",))):
            with self.subTest(ceiling):
                parameters = dict(zip(("database",), asked, strict=False)) | {"claim": "x"}
                notice = self.asked({"database": ceiling}, **parameters)
                admitted = self.fresh().admit(notice, self.cluster.proxy_id)
                self.assertEqual(admitted.grant.ceiling, {"database": ceiling})

    def test_not_what_was_asked_for(self) -> None:
        """A ceiling that differs by a byte, lacks a limit or adds one opens nothing."""
        for word, notice in (
            ("request_mismatch", self.asked({"database": "mine"}, database="min")),
            ("ceiling_unenforced", self.asked({}, database="mine")),
            ("ceiling_unenforced", self.asked({"database": "mine", "role": "r"}, database="mine")),
            ("ceiling_unenforced", self.asked({"database": "main", "claim": "x"}, claim="x")),
            ("ceiling_unenforced", self.asked({"database": "MAIN"})),
            ("request_refused", self.asked({"database": "M"}, database="M")),
            ("request_refused", self.asked({"database": "main"}, role="r")),
            ("kind_mismatch", self.cluster.notice(ceiling={"database": "main"}, is_gated=True)),
        ):
            with self.subTest(word):
                self.admission = self.fresh()
                self.assertEqual(self.refusal(notice), word)

    def test_operations(self) -> None:
        """A limit to operations opens nothing where the dialer does not tell them apart."""
        notice = self.cluster.notice(ceiling={"database": "main"}, operations=frozenset({"GET"}))
        self.admission = self.fresh()
        self.assertEqual(self.refusal(notice), "ceiling_unenforced")
        self.kind = evolve(self.kind, dialer=WEB)
        notice = self.cluster.notice(ceiling={"database": "main"}, operations=frozenset({"GET"}))
        admitted = self.fresh().admit(notice, self.cluster.proxy_id)
        self.assertEqual(admitted.grant.operations, {"GET"})


class AnyAlterationTests(AdmissionCase):
    @given(st.data())
    @settings(deadline=None, max_examples=examples(150))
    def test_any_byte(self, data: st.DataObject) -> None:
        """A notice with any one byte altered, in any part, is refused or means the same."""
        notice = self.cluster.notice()
        part = data.draw(st.sampled_from(("payload", "grant", "chain", "request", "sig", "person")))
        old = {
            "payload": notice.grant.payload,
            "grant": notice.grant.signature,
            "chain": notice.grant.chain[0],
            "request": notice.request,
            "sig": notice.signature,
            "person": notice.person_chain[0],
        }[part]
        place = data.draw(st.integers(0, 1 << 16)) % len(old)
        flip = data.draw(st.integers(1, 255))
        new = old[:place] + bytes([old[place] ^ flip]) + old[place + 1 :]
        grant = notice.grant
        altered = {
            "payload": lambda: evolve(notice, grant=evolve(grant, payload=new)),
            "grant": lambda: evolve(notice, grant=evolve(grant, signature=new)),
            "chain": lambda: evolve(notice, grant=evolve(grant, chain=(new, *grant.chain[1:]))),
            "request": lambda: evolve(notice, request=new),
            "sig": lambda: evolve(notice, signature=new),
            "person": lambda: evolve(notice, person_chain=(new, *notice.person_chain[1:])),
        }[part]()
        self.admission = self.fresh()
        if part in ("chain", "person") and _same_certificate(old, new):
            return  # a bit beside the signature's own bits: it says the same of the same key
        self.refusal(altered)


def _same_certificate(old: bytes, new: bytes) -> bool:
    try:
        one, other = load_der_x509_certificate(old), load_der_x509_certificate(new)
        return one.tbs_certificate_bytes + one.signature == (
            other.tbs_certificate_bytes + other.signature
        )
    except (ValueError, InvalidVersion):
        return False


class SeenTests(SynchronousTestCase):
    def take(self, seen: SeenSessions, uid: str, until: int, now: int) -> str:
        try:
            seen.take(uid, until, now)
        except OpenRefusedHere as error:
            return error.reason
        return ""

    def test_bounded(self) -> None:
        """The memory of sessions is bounded: what can open nothing any more makes room."""
        seen = SeenSessions(most=2)
        self.assertEqual(self.take(seen, "a", 10, 0), "")
        self.assertEqual(self.take(seen, "b", 20, 0), "")
        self.assertEqual(self.take(seen, "c", 30, 10), "too_many_sessions")
        self.assertEqual(self.take(seen, "c", 30, 11), "")
        self.assertEqual(self.take(seen, "b", 20, 11), "session_replayed")
        self.assertEqual(len(seen), 2)

    def test_clock_set_back(self) -> None:
        """A session dropped from the memory opens no more, whatever the clock says later."""
        seen = SeenSessions(most=2)
        for uid, until in (("a", 10), ("b", 20)):
            self.take(seen, uid, until, 0)
        self.assertEqual(self.take(seen, "c", 30, 15), "")
        self.assertEqual(self.take(seen, "a", 10, 5), "session_replayed")
        self.assertEqual(self.take(seen, "d", 14, 5), "session_replayed")

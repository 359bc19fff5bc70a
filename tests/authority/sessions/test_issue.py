"""Deciding a session: who is believed, what is written down, what is told."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.checkpoint.signer import HeadsUnsigned
from svc.errors import Fault
from svc.messages.control import AuthorizeAnswer, answer_message
from svc.messages.session import decode_grant, decode_request
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource
from svc.model.principal import Role
from svc.model.session.parameters import Parameter
from svc.model.session.session import SessionState
from svc.model.signing import Purpose
from svc.policy.words import OPERATORS_POLICY
from tests.authority.house import ADA, House, outcome, refusal_of, value_of
from tests.kinds.served import ssh, tcp
from tests.support.proof import proves

AS_ROOT: dict[str, Any] = {
    "kind": "ssh",
    "action": "sshConnect",
    "parameters": {"login_user": "root"},
}


class IssuanceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House()
        self.issuance = self.house.issuance()
        self.proxy = self.house.row(self.house.proxy)

    def authorize(self, *args: Any, **fields: Any) -> AuthorizeAnswer:
        ask = self.house.ask(*args, **fields)
        answer = value_of(self.issuance.authorize(ask, self.proxy))
        assert isinstance(answer, AuthorizeAnswer)
        return answer

    def refused(self, ask: Any) -> str:
        return refusal_of(self.issuance.authorize(ask, self.proxy)).reason

    def hidden(self, *args: Any, **fields: Any) -> bytes:
        """The answer's bytes but for its id."""
        answer = evolve(self.authorize(*args, **fields), decision_id="-")
        return answer_message(answer).SerializeToString()

    def test_grant_after_both_records(self) -> None:
        """An allowed session is granted once both decisions and its row are in the store."""
        self.house.serve("db1")
        answer = self.authorize(self.house.ada)
        assert answer.grant is not None
        self.house.world.verifier.verify_signed(answer.grant, Purpose.GRANT)
        grant = decode_grant(answer.grant.payload)
        proxys, ours = self.house.records()
        self.assertEqual((proxys["event"], ours["event"]), ("request.decision", "session.start"))
        self.assertEqual((ours["decision_id"], ours["decision"]), (answer.decision_id, "allow"))
        self.assertEqual((ours["cedar_action"], ours["policies"]), ("tcpConnect", ["dev-uses-tcp"]))
        session = self.house.run(lambda tx: tx.sessions.get(grant.session_uid))
        self.assertEqual((session.person_id, session.decision_id), (ADA, answer.decision_id))
        row = self.house.run(lambda tx: tx.audit.tail(1)[0])
        self.assertNotIn("proxy_decision", ours["details"])
        self.assertEqual(grant.audit_hash, row.hash)
        self.assertEqual(self.house.told, [("connect", "allow")])

    def test_no_head_can_be_signed(self) -> None:
        """Nobody is let in meanwhile, and nothing is written; who is denied is denied as ever."""
        self.house.serve("db1")
        self.house.may_grant = self.unsigned  # type: ignore[method-assign]
        refusal = refusal_of(self.issuance.authorize(self.house.ask(self.house.ada), self.proxy))
        self.assertEqual(refusal.reason, "audit_head_unsigned")
        self.assertEqual((refusal.fault, self.house.records()), (Fault.UNAVAILABLE, []))
        self.assertEqual(self.authorize(self.house.ada, said="deny").reason, "denied")
        del self.house.may_grant
        self.assertIsNotNone(self.authorize(self.house.ada).grant)

    def test_no_head_can_be_signed_since_the_commit(self) -> None:
        """What is found while the records are written holds the grant back; its row is ended."""
        for mood in ("well", "down"):
            self.setUp()
            self.house.serve("db1")
            refusals = [None, HeadsUnsigned("not now")]

            def asked(refusals: Any = refusals, mood: str = mood) -> None:
                refusal = refusals.pop(0)
                if refusal is not None:
                    self.house.store.mood = mood
                    raise refusal

            self.house.may_grant = asked  # type: ignore[method-assign]
            ask = self.house.ask(self.house.ada)
            refusal = refusal_of(self.issuance.authorize(ask, self.proxy))
            self.assertEqual(refusal.reason, "audit_head_unsigned")
            self.assertEqual(self.house.told, [])
            self.house.store.mood = "well"
            uid = decode_request(ask.request).session_uid
            session = self.session_of(uid)
            if mood == "down":
                self.assertEqual(session.state, SessionState.OPEN)  # until the Proxy reports it
                continue
            self.assertEqual(
                (session.state, session.end_reason), (SessionState.ENDED, "not_opened")
            )
            start, end = self.house.records()[1:]
            self.assertEqual((start["event"], end["event"]), ("session.start", "session.end"))
            self.assertEqual((end["reason"], end["session_uid"]), ("not_opened", uid))

    def session_of(self, uid: str) -> Any:
        """Its row."""
        return self.house.run(lambda tx: tx.sessions.get(uid))

    def unsigned(self) -> None:
        raise HeadsUnsigned("not now")

    def test_record_holds_the_request_and_hides_what_is_personal(self) -> None:
        """The record names the whole Cedar request; address and login stand as hashes."""
        self.gated_host()
        self.authorize(self.house.ada, "gated1", **AS_ROOT)
        record = self.house.records("session.start")[0]
        self.assertEqual(record["request"]["principal"], {"id": ADA, "type": "User"})
        self.assertEqual(list(record["request"]["context"]["login_user"]), ["personal"])
        self.assertNotIn(b"root", self.house.run(lambda tx: tx.audit.rows(1, 1)[0]).canonical)

    def gated_host(
        self, mode: OnwardAuth | None = OnwardAuth.STORED_KEY, onward_key: bytes = b""
    ) -> None:
        """A host in the catalog; its SSH ends at the Connector, unless another mode is given."""
        node = self.house.connector.id
        host = Resource(id="gated1", kind="ssh", assigned_to=node, onward_auth=mode)
        self.house.run(lambda tx: tx.catalog.add(host, 5.0))
        self.house.refresh()
        served = self.house.serve("gated1")
        self.house.registrations.add(evolve(served, onward_key=onward_key))

    def granted(self, policy: str, **fields: Any) -> Any:
        """The grant of a session of the host, by a policy of ada's alone."""
        house = self.house = House(policy=f"{OPERATORS_POLICY}{policy}")
        self.issuance, self.proxy = house.issuance(), house.row(house.proxy)
        self.gated_host(**fields)
        answer = self.authorize(house.ada, "gated1", **AS_ROOT)
        assert answer.grant is not None, answer
        return answer, decode_grant(answer.grant.payload)

    @proves("G-OPEN-61")
    def test_rights(self) -> None:
        """A session that ends at its Connector is granted what policy allows it, and no more."""
        answer, grant = self.granted(
            '@id("opens") permit (principal, action in [Action::"view", Action::"sshConnect",'
            ' Action::"sshShell", Action::"sshExec"], resource);'
            '@id("no-root") forbid (principal, action == Action::"sshExec", resource)'
            ' when { context has login_user && context.login_user == "root" };'
        )
        self.assertEqual(grant.operations, {"shell"})
        self.assertEqual((grant.ceiling, grant.is_gated), ({"login_user": "root"}, False))
        self.assertEqual(grant.decision_id, answer.decision_id)
        details = self.house.records("session.start")[0]["details"]
        self.assertEqual(details["rights"], ["shell"])
        self.assertIn("exec: no-root", details["rights_denied"])
        self.assertIn("sftp_read", details["rights_denied"])

    def test_no_rights(self) -> None:
        """A session may open that may do nothing: the grant says so, and is not taken for more."""
        _, grant = self.granted(
            '@id("opens") permit (principal, action in [Action::"view", Action::"sshConnect"],'
            " resource);"
        )
        self.assertEqual(grant.operations, frozenset())

    def test_what_leads_out(self) -> None:
        """The group of all use has no forwarding in it."""
        _, grant = self.granted(
            '@id("uses") permit (principal, action in [Action::"view", Action::"use"], resource);'
        )
        self.assertEqual(
            grant.operations, {"shell", "exec", "pty", "env", "sftp_read", "sftp_write"}
        )

    def test_as_bytes(self) -> None:
        """Where SSH passes through nothing is held, and the account claimed decides nothing."""
        for mode in (None, OnwardAuth.PASSTHROUGH):
            _, grant = self.granted(
                '@id("uses") permit (principal, action, resource);'
                '@id("no-root") forbid (principal, action, resource)'
                ' when { context has login_user && context.login_user == "root" };',
                mode=mode,
            )
            self.assertEqual((grant.operations, grant.ceiling, grant.decision_id), (None, {}, ""))

    def test_certificate(self) -> None:
        """A grant has a certificate for the Connector's key, and its record says what it says."""
        key = Ed25519PrivateKey.generate().public_key()
        _, grant = self.granted(
            '@id("opens") permit (principal, action in [Action::"view", Action::"sshConnect",'
            ' Action::"sshSftpRead", Action::"sshForwardLocal"], resource);',
            mode=OnwardAuth.CERTIFICATE,
            onward_key=key.public_bytes_raw(),
        )
        found = load_ssh_public_identity(
            b"ssh-ed25519-cert-v01@openssh.com "
            + b2a_base64(grant.onward_certificate, newline=False)
        )
        assert isinstance(found, SSHCertificate)
        found.verify_cert_signature()
        self.assertEqual(found.public_key(), key)
        self.assertEqual(found.valid_principals, [b"root"])
        self.assertEqual(found.critical_options, {b"force-command": b"internal-sftp -R"})
        self.assertEqual(found.extensions, {b"permit-port-forwarding": b""})
        self.assertEqual(found.valid_before - found.valid_after, 300)
        self.assertEqual(found.serial, int(grant.decision_id[:16], 16))
        [record] = self.house.records("credential.issue")
        self.assertEqual(record["details"]["key_id"].encode(), found.key_id)
        self.assertEqual(int(record["details"]["serial"], 16), found.serial)
        self.assertEqual(record["session_uid"], grant.session_uid)

    def test_no_certificate(self) -> None:
        """Without a key at either end nothing is granted, and the person is told what it is."""
        for onward_key, takes in ((b"", False), (b"k" * 32, True)):
            permitted = '@id("all") permit (principal, action, resource);'
            self.house = House(policy=f"{OPERATORS_POLICY}{permitted}")
            self.issuance, self.proxy = self.house.issuance(), self.house.row(self.house.proxy)
            if takes:
                del self.house.world.keys.purposes["onward-ssh"]
            self.gated_host(mode=OnwardAuth.CERTIFICATE, onward_key=onward_key)
            answer = self.authorize(self.house.ada, "gated1", **AS_ROOT)
            self.assertIsNone(answer.grant)
            self.assertEqual(answer.reason, "onward_unavailable")
            self.assertIn("gated1: the policy allows it, but the cluster has no", answer.text)
            self.assertEqual(self.house.records("credential.issue"), [])

    def test_no_account(self) -> None:
        """Whoever names no account gets no session that would be held to one."""
        self.gated_host()
        asked = {name: value for name, value in AS_ROOT.items() if name != "parameters"}
        ask = self.house.ask(self.house.ada, "gated1", **asked)
        self.assertEqual(self.refused(ask), "missing_parameter")

    def test_entities_are_kept_once(self) -> None:
        """What a decision looked at is kept beside the log under its digest."""
        self.authorize(self.house.ada)
        digest = self.house.records("session.refused")[0]["entities_digest"]
        (kept,) = self.house.run(lambda tx: tx.audit.slices("", 9))
        self.assertEqual(kept.digest, digest)
        self.assertIn(ADA, kept.text)
        self.assertIn('"id":"db1"', kept.text)
        self.authorize(self.house.ada)
        self.assertEqual(self.house.run(lambda tx: tx.audit.slices("", 9)), (kept,))

    def test_policies_are_told_to_who_may_view(self) -> None:
        """A denied person who may view the resource hears which policy it was."""
        answer = self.authorize(self.house.ada, "prod1")
        self.assertEqual((answer.reason, answer.policies), ("denied", ("nobody-production",)))
        self.assertEqual(self.house.records("session.refused")[0]["decision"], "deny")

    def test_hidden_and_invented_names_are_answered_alike(self) -> None:
        """Who may not view hears the same bytes for what is there and what never was."""
        self.house.serve("db1", "vault1", "host1")
        eve = self.house.eve
        bytes_for = {self.hidden(eve, name) for name in ("db1", "vault1", "nope", "Not a name!")}
        bytes_for.add(self.hidden(eve, "db1", kind="ssh", action="sshConnect"))
        bytes_for.add(self.hidden(eve, "db1", said="deny"))
        bytes_for.add(self.hidden(self.house.ada, "vault1"))
        self.assertEqual(len(bytes_for), 1)

    def test_words_of_a_denial(self) -> None:
        """A policy is named beside no doubt that there is such a resource, and the other way."""
        policy = f"""{OPERATORS_POLICY}
@id("all-see") permit (principal, action == Action::"view", resource);
@id("closed") forbid (principal, action == Action::"tcpConnect", resource);
"""
        self.house = House(policy=policy)
        self.issuance, self.proxy = self.house.issuance(), self.house.row(self.house.proxy)
        there, absent = self.authorize(self.house.ada), self.authorize(self.house.ada, "nope")
        self.assertEqual((there.text, there.policies), ("access denied", ("closed",)))
        self.assertEqual((absent.text, absent.policies), ("access denied, or no such resource", ()))

    def test_unserved_is_told_to_who_may_view_only(self) -> None:
        """Who may open but not view a resource nobody serves hears the common refusal."""
        ssh = {"kind": "ssh", "action": "sshConnect"}
        there = self.hidden(self.house.ada, "host1", **ssh)
        self.assertEqual(there, self.hidden(self.house.ada, "nohost", **ssh))
        self.assertEqual(there, self.hidden(self.house.eve, "db1"))

    def test_no_grant_for_another_kind(self) -> None:
        """A right to every host opens no database that a Connector serves under that name."""
        self.house.serve("db1")
        answer = self.authorize(self.house.ada, "db1", kind="ssh", action="sshConnect")
        self.assertIsNone(answer.grant)
        self.assertEqual(self.house.run(lambda tx: tx.sessions.open()), ())

    def test_departed_or_unknown(self) -> None:
        """A resource served before is departed, over restarts too; one never served unknown."""
        self.assertEqual(self.authorize(self.house.ada).reason, "unknown")
        node = self.house.connector.id
        self.house.run(lambda tx: tx.catalog.registered(node, ["db1"], [], 5.0))
        self.house.refresh()
        self.assertEqual(self.authorize(self.house.ada).reason, "departed")
        self.assertEqual(self.house.told[-1], ("connect", "not_served"))

    def test_proxys_denial_stands(self) -> None:
        """What the Proxy denied is refused here too, and not recorded as allowed."""
        self.house.serve("db1")
        answer = self.authorize(self.house.ada, said="deny")
        self.assertEqual((answer.grant, answer.reason), (None, "denied"))
        record = self.house.records("session.refused")[0]
        self.assertEqual((record["decision"], record["reason"]), ("deny", "proxy_denied"))

    def test_a_refused_session_has_one_record(self) -> None:
        """It is the one whose id the person is told, and says too what the Proxy decided."""
        self.house.serve("db1")
        for said, resource, reason in (
            ("allow", "prod1", "denied"),
            ("deny", "prod1", "denied"),
            ("error", "prod1", "denied"),
            ("deny", "db1", "proxy_denied"),
            ("error", "db1", "proxy_denied"),
            ("allow", "db2", "unknown"),
        ):
            ask = self.house.ask(self.house.ada, resource)
            claimed = evolve(
                ask.proxy_decision,
                decision=said,
                policies=("p1", "p2"),
                policy_version=7,
                entities_digest="f" * 64,
            )
            before = len(self.house.records())
            answer = value_of(
                self.issuance.authorize(evolve(ask, proxy_decision=claimed), self.proxy)
            )
            (record,) = self.house.records()[before:]
            self.assertEqual(
                (record["event"], record["decision_id"]), ("session.refused", answer.decision_id)
            )
            self.assertEqual(record["reason"], reason)
            told = record["details"]
            self.assertEqual(told["proxy_decision_id"], claimed.decision_id)
            self.assertEqual((told["proxy_decision"], told["proxy_policies"]), (said, ["p1", "p2"]))
            self.assertEqual(
                (told["proxy_policy_version"], told["proxy_entities_digest"]), (7, "f" * 64)
            )
            self.assertEqual(list(told["source_address"]), ["personal"])

    def test_a_grant_names_the_assignment(self) -> None:
        """A grant says which resource it is for, and by which assignment of it."""
        self.house.serve("db1")
        answer = self.authorize(self.house.ada)
        assert answer.grant is not None
        grant = decode_grant(answer.grant.payload)
        self.assertEqual((grant.resource_identity, grant.assignment_revision), ("first.db1", 1))

    def test_a_ceiling(self) -> None:
        """A grant holds the session to all that the kind enforces, as asked or by default."""
        known = {
            "claim": Parameter(),
            "database": Parameter(form="[a-z]+", enforced=True, default="main"),
        }
        kind = evolve(tcp, terms=evolve(tcp.terms, parameters=known))
        self.issuance.kinds = {"tcp": kind, "ssh": ssh}
        self.house.serve("db1")
        for asked, ceiling in (
            ({}, {"database": "main"}),
            ({"claim": "x", "database": "mine"}, {"database": "mine"}),
        ):
            answer = self.authorize(self.house.ada, parameters=asked)
            assert answer.grant is not None
            grant = decode_grant(answer.grant.payload)
            self.assertEqual((grant.ceiling, grant.is_gated), (ceiling, False))
        self.issuance.kinds = {"tcp": evolve(kind, opaque=False)}
        answer = self.authorize(self.house.ada, half=bytes(32))
        assert answer.grant is not None
        self.assertTrue(decode_grant(answer.grant.payload).is_gated)

    def test_a_half_where_none_belongs(self) -> None:
        """A key of frames is of gated kinds alone, and no gated kind opens without one."""
        self.house.serve("db1")
        self.assertEqual(
            self.refused(self.house.ask(self.house.ada, half=bytes(32))), "unknown_kind"
        )
        self.issuance.kinds = {"tcp": evolve(tcp, opaque=False)}
        self.assertEqual(self.refused(self.house.ask(self.house.ada)), "unknown_kind")

    def test_parameters_that_the_kind_does_not_take(self) -> None:
        """Whatever a Proxy let through, Authority refuses by itself, and records it."""
        ask = self.house.ask(self.house.ada, parameters={"login_user": "root"})
        self.assertEqual(self.refused(ask), "unknown_parameter")
        last = self.house.records()[-1]
        self.assertEqual((last["event"], last["reason"]), ("session.refused", "unknown_parameter"))
        self.assertNotIn("request", last)

    def test_a_registration_of_an_earlier_assignment(self) -> None:
        """Who was unassigned and assigned again is granted nothing before registering again."""
        self.house.serve("db1")
        node = self.house.connector.id
        self.house.run(lambda tx: tx.catalog.assign("db1", None, 5.0))
        self.house.refresh()
        self.assertEqual(self.authorize(self.house.ada).reason, "unknown")
        self.house.run(lambda tx: tx.catalog.assign("db1", node, 6.0))
        self.house.refresh()
        self.assertEqual(self.authorize(self.house.ada).reason, "unknown")
        self.house.serve("db1")
        self.assertIsNotNone(self.authorize(self.house.ada).grant)

    def test_a_registration_of_a_former_resource(self) -> None:
        """Who served a resource that was removed does not serve the one added in its place."""
        self.house.serve("db1")
        self.house.run(lambda tx: tx.catalog.remove("db1", 5.0))
        again = Resource(
            id="db1", kind="tcp", labels={}, assigned_to=self.house.connector.id, identity="another"
        )
        self.house.run(lambda tx: tx.catalog.add(again, 6.0))
        self.house.refresh()
        self.assertEqual(self.authorize(self.house.ada).reason, "unknown")

    def test_assigned_anew_while_it_was_decided(self) -> None:
        """What was changed since the facts were read is granted to nobody by them."""
        self.house.serve("db1", "prod1")
        other = self.house.node(Role.CONNECTOR, "conn2")
        for change in (
            lambda tx: tx.catalog.assign("db1", other.id, 5.0),
            lambda tx: tx.catalog.remove("db1", 6.0),
        ):
            self.house.run(change)
            self.assertEqual(self.refused(self.house.ask(self.house.ada)), "resource_changed")
        self.assertEqual(self.house.run(lambda tx: tx.sessions.open()), ())
        self.assertEqual(self.house.records()[-1]["reason"], "resource_changed")

    def test_replay_is_refused_and_recorded(self) -> None:
        """A request is good once: the second time it is refused and on record."""
        self.house.serve("db1")
        ask = self.house.ask(self.house.ada)
        value_of(self.issuance.authorize(ask, self.proxy))
        self.assertEqual(self.refused(ask), "request_replayed")
        self.assertEqual(self.house.records()[-1]["reason"], "request_replayed")

    def test_replay_after_a_restart(self) -> None:
        """A granted request stays used when the process that granted it is gone."""
        self.house.serve("db1")
        ask = self.house.ask(self.house.ada)
        value_of(self.issuance.authorize(ask, self.proxy))
        again = self.house.issuance()
        self.assertEqual(refusal_of(again.authorize(ask, self.proxy)).reason, "request_replayed")
        last = self.house.records()[-1]
        self.assertEqual((last["event"], last["reason"]), ("session.refused", "request_replayed"))
        self.assertEqual(len(self.house.records("session.start")), 1)

    def test_session_uid_is_good_once(self) -> None:
        """Another request under a session uid used before is refused as a replay."""
        self.house.serve("db1")
        self.authorize(self.house.ada, session_uid="ab" * 16)
        ask = self.house.ask(self.house.ada, session_uid="ab" * 16)
        self.house.clock.advance(1)
        ask = self.house.ask(self.house.ada, session_uid="ab" * 16)
        self.assertEqual(self.refused(ask), "request_replayed")

    def test_age_of_a_request(self) -> None:
        """A request of 30 seconds is taken; an older or a later one is stale."""
        ms = int(self.house.now() * 1000)
        self.authorize(self.house.ada, issued_at_ms=ms - 30_000)
        for at in (ms - 30_001, ms + 30_001):
            ask = self.house.ask(self.house.ada, issued_at_ms=at)
            self.assertEqual(self.refused(ask), "request_stale")

    def test_request_for_another(self) -> None:
        """A request made for another Proxy, cluster or certificate opens nothing."""
        ask = self.house.ask
        ada = self.house.ada
        self.assertEqual(self.refused(ask(ada, proxy_id="z" * 26)), "request_wrong_proxy")
        self.assertEqual(self.refused(ask(ada, cluster="c2.test")), "request_wrong_proxy")
        self.assertEqual(
            self.refused(ask(ada, certificate_sha256=self.house.eve.sha256)), "request_unsigned"
        )

    def test_unsigned_request(self) -> None:
        """A request whose signature or signer is not the person's opens nothing."""
        ask, eve = self.house.ask(self.house.ada), self.house.eve
        self.assertEqual(self.refused(evolve(ask, signature=b"x")), "bad_signature")
        self.assertEqual(self.refused(evolve(ask, person_chain=eve.chain)), "bad_signature")
        self.assertEqual(
            self.refused(evolve(ask, person_chain=self.house.connector.chain)), "certificate_role"
        )
        self.assertEqual(len(self.house.records("session.refused")), 3)

    def test_kind_not_enabled(self) -> None:
        """A kind not enabled is refused alike for names that are there and invented ones."""
        texts = set()
        for name in ("db1", "nope"):
            ask = self.house.ask(self.house.ada, name, kind="kube", action="k8sAccess")
            refusal = refusal_of(self.issuance.authorize(ask, self.proxy))
            texts.add((refusal.reason, refusal.fault, refusal.text))
        self.assertEqual(len(texts), 1)

    def test_revoked_meanwhile(self) -> None:
        """A person or certificate revoked between TLS and commit gets no grant, and a record."""
        self.house.serve("db1")
        self.house.run(lambda tx: tx.people.revoke(ADA, 9.0))
        self.assertEqual(self.refused(self.house.ask(self.house.ada)), "revoked_person")
        self.house.refresh()
        self.assertEqual(self.refused(self.house.ask(self.house.ada)), "revoked_person")
        eve = self.house.eve
        self.house.run(lambda tx: tx.certificates.revoke(eve.sha256, 9.0))
        self.assertEqual(self.refused(self.house.ask(eve)), "revoked_certificate")
        self.assertEqual(len(self.house.records("session.refused")), 3)

    def test_certificate_nobody_issued(self) -> None:
        """A certificate that the table does not hold is refused although its chain is good."""
        stranger = self.house.holder(Role.USER, ADA)
        self.assertEqual(self.refused(self.house.ask(stranger)), "revoked_certificate")

    def test_store_that_fails_or_stalls_grants_nothing(self) -> None:
        """Without a durable record there is no grant: not when it fails, nor while it waits."""
        self.house.serve("db1")
        for mood in ("down", "commits, then down"):
            self.house.store.mood = mood
            ask = self.house.ask(self.house.ada)
            self.assertEqual(self.refused(ask), "store_unavailable")
        self.house.store.mood = "silent"
        waiting = outcome(self.issuance.authorize(self.house.ask(self.house.ada), self.proxy))
        self.house.clock.advance(100)
        self.assertEqual(waiting, [])

    def test_no_policy_is_no_grant(self) -> None:
        """While no policy is in force nothing is granted."""
        self.house.serve("db1")
        self.house.policy.engine = None
        self.assertEqual(self.refused(self.house.ask(self.house.ada)), "policy_unavailable")

    def test_hostile_proxy_cannot_fill_the_log(self) -> None:
        """Past its share a Proxy's refused requests are counted and summed up in one record."""
        ask = evolve(self.house.ask(self.house.ada), signature=b"x")
        for _ in range(100):
            self.refused(ask)
        self.assertEqual(len(self.house.records()), 60)
        self.house.clock.advance(60)
        value_of(self.issuance.refusals.summarise())
        value_of(self.issuance.refusals.summarise())
        (summary,) = self.house.records("refusals.summary")
        self.assertEqual(summary["details"]["count"], 40)
        self.assertEqual((summary["actor"]["id"], summary["reason"]), (self.proxy.id, "records"))
        self.refused(ask)
        self.assertEqual(len(self.house.records()), 62)

    def test_summary_survives_a_store_that_was_away(self) -> None:
        """A count that the store did not take is owed until it does."""
        ask = evolve(self.house.ask(self.house.ada), signature=b"x")
        for _ in range(61):
            self.refused(ask)
        self.house.clock.advance(60)
        self.house.store.mood = "down"
        refusal_of(self.issuance.refusals.summarise())
        self.house.store.mood = "well"
        value_of(self.issuance.refusals.summarise())
        self.assertEqual(self.house.records("refusals.summary")[0]["details"]["count"], 1)

    def test_every_decision_id_is_on_record(self) -> None:
        """Each id that an answer names is found in the log."""
        self.house.serve("db1")
        for who, name in ((self.house.ada, "db1"), (self.house.eve, "db1"), (self.house.ada, "x")):
            answer = self.authorize(who, name)
            found = [one["decision_id"] for one in self.house.records()]
            self.assertEqual(found.count(answer.decision_id), 1)

"""Whoever changes the tables by SQL changes nothing but a copy (rule R8)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ed25519
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.state.anchor import StateAnchor, StateKeeper
from svc.audit.state.in_force import StateLedger
from svc.authority.policy.activate import NewPolicy
from svc.authority.state.adopt import AdoptionRequest, adoption_request_file, fingerprint
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.cluster import ClusterState
from svc.authority.state.recorder import operator
from svc.authority.state.tables import rows_now
from svc.authority.state.unsigned import UnsignedRows
from svc.compose.authority.state import StateStartup
from svc.model.audit.spool import prove_audit_key
from svc.model.cluster.node import TokenRecord, TokenRole
from svc.model.cluster.token import make_token
from svc.model.distribution import RotationPause
from svc.model.principal import Role
from svc.pki.audit_signatures import origin_verifier
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import admin_pb2
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from svc.runtime.services import BackgroundTasks
from tests.authority.house import ADA, EVE, POLICY, Call, House, refusal_of, value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing
from tests.support.proof import proves

OPEN = POLICY + '@id("all") permit (principal, action, resource);\n'
ROOT = operator(0)
FAR = 9e9


class StateCase(SynchronousTestCase):
    """A house whose reload pass names what it finds."""

    def setUp(self) -> None:
        self.house = House()
        self.gauge: list[int] = []
        self.rows = UnsignedRows(self.house.store, self.house.recorder, self.gauge.append)
        self.anchor = StateAnchor(Path(self.mktemp()))
        self.keeper = StateKeeper(self.house.ledger, self.anchor, BackgroundTasks())
        self.house.state_cache.advanced = self.keeper.advanced
        self.reload()

    def reload(self) -> None:
        """The reload pass of a running Authority."""
        reading = value_of(self.house.state_cache.reload())
        value_of(self.house.policy.follow(self.house.state_cache.state))
        value_of(self.rows.name(reading.unsigned))

    def named(self) -> list[str]:
        return sorted(one.subject for one in self.rows.now)

    def recorded(self) -> list[str]:
        return [one["details"]["subject"] for one in self.house.records("state.unsigned")]

    def restarted(self) -> ClusterStateCache:
        """Another process over the same store and the same anchor."""
        value_of(self.keeper.stop())
        beginning, state_cache = self.house.restart(self.anchor)
        value_of(beginning.begin())
        return state_cache

    def facts_after_restart(self) -> tuple[ClusterState, list[str]]:
        state_cache = self.restarted()
        reading = value_of(state_cache.reload())
        return state_cache.state, sorted(one.subject for one in reading.unsigned)


class RunningTests(StateCase):
    """By SQL under a running Authority: what it knew stays, and each change is named."""

    def untouched(self, *statements: str, named: list[str], undo: tuple[str, ...] = ()) -> None:
        """These statements change nothing that is in force, are named once, and heal."""
        before = self.house.state_cache.state
        engine = self.house.policy.engine
        self.house.by_sql(*statements)
        self.reload()
        self.assertEqual(self.house.state_cache.state, before)
        self.assertIs(self.house.policy.engine, engine)
        self.assertEqual(self.named(), named)
        self.reload()
        self.assertEqual(sorted(self.recorded()), named)
        self.assertEqual(self.gauge[-1], len(named))
        if undo:
            self.house.by_sql(*undo)
            self.reload()
            self.assertEqual((self.named(), self.gauge[-1]), ([], 0))
            self.assertEqual(sorted(self.recorded()), named)

    def test_policy_text(self) -> None:
        """Another text under the version in force is not decided by."""
        digest = sha256(OPEN.encode()).hexdigest()
        text, old = OPEN.replace("'", "''"), POLICY.replace("'", "''")
        old_digest = sha256(POLICY.encode()).hexdigest()
        change = "UPDATE policy_versions SET text = '{}', sha256 = x'{}'"
        self.untouched(
            change.format(text, digest),
            named=["policy:1"],
            undo=(change.format(old, old_digest),),
        )

    def test_policy_inserted(self) -> None:
        """A newer version that nobody set is not decided by, and no version follows it."""
        self.untouched(
            "INSERT INTO policy_versions SELECT 2, text, sha256, author, 1.0, 1.0"
            " FROM policy_versions",
            named=["policy:2"],
            undo=("DELETE FROM policy_versions WHERE version = 2",),
        )

    def test_policy_deleted(self) -> None:
        """The version in force stays although its row is gone."""
        self.untouched("DELETE FROM policy_versions", named=["policy:1"])
        self.assertEqual(self.setting(), "state_unsigned")

    def test_policy_put_out_of_force(self) -> None:
        """A version whose mark of being in force was taken away stays in force."""
        self.untouched("UPDATE policy_versions SET activated_at = NULL", named=["policy:1"])

    def setting(self) -> str:
        activation = self.house.activation()
        new = NewPolicy(text=POLICY, base=1, author="test")
        run = self.house.store.run
        return refusal_of(run("set", lambda tx: activation.write(tx, new, ROOT))).reason

    def test_membership_added(self) -> None:
        """Whoever is written into a group is not in it."""
        self.untouched(
            f"INSERT INTO memberships VALUES ('{EVE}', 'dev')",
            named=[f"person:{EVE}"],
            undo=(f"DELETE FROM memberships WHERE person_id = '{EVE}'",),
        )

    def test_membership_removed(self) -> None:
        """Whoever is taken out of a group by SQL is still in it while we know."""
        self.untouched("DELETE FROM memberships", named=[f"person:{ADA}"])

    def test_person_and_group_inserted(self) -> None:
        """A person and a group that nobody added are not there."""
        stranger = "z" * 26
        self.untouched(
            "INSERT INTO person_groups VALUES ('root', 1.0)",
            f"INSERT INTO persons VALUES ('{stranger}', 'mallory', 'active', 1.0, NULL, x'')",
            f"INSERT INTO memberships VALUES ('{stranger}', 'root')",
            named=["group:root", f"person:{stranger}"],
        )
        self.assertEqual(self.adding_group("root"), "state_unsigned")

    def adding_group(self, name: str) -> str:
        return refusal_of(
            self.house.groups().add_group(admin_pb2.AddGroupRequest(name=name), ROOT)
        ).reason

    def test_person_renamed(self) -> None:
        """A name is part of the row that was signed for."""
        self.untouched(
            f"UPDATE persons SET name = 'root' WHERE id = '{ADA}'",
            named=[f"person:{ADA}"],
            undo=(f"UPDATE persons SET name = 'ada' WHERE id = '{ADA}'",),
        )

    def test_resource_reassigned(self) -> None:
        """A resource stays with its Connector, its labels stay what they are."""
        self.untouched(
            f"UPDATE manual_bindings SET node_id = '{self.house.proxy.id}'"
            " WHERE identity = 'first.db1'",
            "UPDATE resource_labels SET value = 'open' WHERE resource_id = 'vault1'",
            named=["resource:db1", "resource:vault1"],
            undo=(
                (
                    f"UPDATE manual_bindings SET node_id = '{self.house.connector.id}'"
                    " WHERE identity = 'first.db1'"
                ),
                "UPDATE resource_labels SET value = 'secret' WHERE resource_id = 'vault1'",
            ),
        )

    def test_binding_and_identity_changed(self) -> None:
        """A binding made current again, or an identity given another name, changes nothing."""
        house = self.house
        other = house.node(Role.CONNECTOR, "conn2").id
        house.run(lambda tx: tx.catalog.assign("db1", other, 5.0))
        self.reload()
        self.untouched(
            "UPDATE manual_bindings SET state = 'past' WHERE assignment_revision = 2",
            "UPDATE manual_bindings SET state = 'current'"
            " WHERE identity = 'first.db1' AND assignment_revision = 1",
            "DELETE FROM manual_bindings WHERE identity = 'first.prod1'",
            "UPDATE resource_identities SET resource_id = 'host2' WHERE identity = 'first.host1'",
            named=["resource:db1", "resource:host1", "resource:prod1"],
        )

    def test_node_changed_and_inserted(self) -> None:
        """A node's audit key and role are those that were signed for; a new one is nobody."""
        node, other = self.house.connector.id, "y" * 26
        self.untouched(
            f"UPDATE nodes SET audit_key = x'01' WHERE id = '{node}'",
            f"INSERT INTO nodes SELECT '{other}', 'new', role, key_sha256, x'02', state,"
            " generation, leaf_serial, leaf_key_sha256, leaf_expires, enrolled_at, revoked_at,"
            f" last_seen, version, public_names FROM nodes WHERE id = '{node}'",
            named=sorted([f"node:{node}", f"node:{other}"]),
        )
        self.house.by_sql(
            f"UPDATE nodes SET audit_key = zeroblob(32), role = 'proxy' WHERE id = '{node}'"
        )
        self.reload()
        self.assertEqual(self.recorded().count(f"node:{node}"), 2)

    def test_publication_switched(self) -> None:
        """A Connector that somebody made publish by itself is as it was signed for."""
        node = self.house.connector.id
        self.untouched(
            f"UPDATE connector_publication SET mode = 'automatic' WHERE node_id = '{node}'",
            named=[f"node:{node}"],
            undo=("UPDATE connector_publication SET mode = 'manual'",),
        )

    def test_revocations_cleared(self) -> None:
        """A person, a node and a certificate that were revoked stay revoked."""
        eve = self.house.eve
        self.house.run(
            lambda tx: (
                tx.people.revoke(EVE, 5.0),
                tx.nodes.revoke(self.house.connector.id, 5.0),
                tx.certificates.revoke(self.house.ada.sha256, 5.0),
            )
        )
        self.reload()
        self.untouched(
            "UPDATE persons SET state = 'active', revoked_at = NULL",
            "UPDATE nodes SET state = 'active', revoked_at = NULL",
            "UPDATE person_certificates SET revoked_at = NULL",
            named=sorted(
                [
                    f"person:{EVE}",
                    f"node:{self.house.connector.id}",
                    f"certificate:{self.house.ada.sha256.hex()}",
                ]
            ),
        )
        published = self.house.publisher.published
        assert published is not None
        self.assertEqual(published.certificates, (self.house.ada.sha256,))
        issuance, proxy = self.house.issuance(), self.house.row(self.house.proxy)
        self.house.serve("db1")
        for holder, word in ((self.house.ada, "state_unsigned"), (eve, "revoked_person")):
            refusal = refusal_of(issuance.authorize(self.house.ask(holder), proxy))
            self.assertEqual(refusal.reason, word)

    def test_enabled_by_sql(self) -> None:
        """A disabled person is enabled by an operator's record only; nor is anybody disabled."""
        house = self.house
        issuance, proxy = house.issuance(), house.row(house.proxy)
        house.serve("db1")
        change = admin_pb2.ChangePersonRequest(person="ada")
        told = value_of(house.people().disable(change, ROOT))
        self.assertEqual((told.id, told.changed), (ADA, True))
        self.reload()
        self.untouched(
            f"UPDATE persons SET state = 'active' WHERE id = '{ADA}'",
            f"UPDATE persons SET state = 'disabled' WHERE id = '{EVE}'",
            named=[f"person:{ADA}", f"person:{EVE}"],
        )
        refusal = refusal_of(issuance.authorize(house.ask(house.ada), proxy))
        self.assertEqual(refusal.reason, "disabled_person")
        published = house.publisher.published
        assert published is not None
        self.assertEqual(
            [(one.principal, one.reason) for one in published.revocations],
            [(f"spiffe://{CLUSTER}/user/{ADA}", "disabled_person")],
        )
        again = refusal_of(house.people().enable(change, ROOT))
        self.assertEqual(again.reason, "state_unsigned")

    def test_revocation_cleared_before_we_looked(self) -> None:
        """A revocation taken back at once does not let the older row in memory stay in force."""
        self.house.run(lambda tx: tx.people.revoke(EVE, 5.0))
        self.house.by_sql("UPDATE persons SET state = 'active', revoked_at = NULL")
        self.reload()
        self.assertNotIn(EVE, self.house.state_cache.state.people)
        published = self.house.publisher.published
        assert published is not None
        self.assertIn(
            f"spiffe://{CLUSTER}/user/{EVE}", {one.principal for one in published.revocations}
        )

    def test_catalog_counter(self) -> None:
        """A counter that was put back neither hides the next change nor lets it pass unseen."""
        revision = self.house.state_cache.state.revision
        self.untouched(
            "UPDATE revisions SET value = 1",
            named=["catalog:revision"],
        )
        self.assertEqual(self.adding_group("ops"), "state_unsigned")
        self.house.by_sql(f"UPDATE revisions SET value = {revision}")
        self.reload()
        value_of(self.house.groups().add_group(admin_pb2.AddGroupRequest(name="ops"), ROOT))
        self.assertEqual(self.house.state_cache.state.revision, revision + 1)

    def test_yesterdays_row(self) -> None:
        """A row of before is refused although its own record is genuine."""
        self.house.run(lambda tx: tx.people.set_groups(ADA, []))
        self.reload()
        self.untouched(f"INSERT INTO memberships VALUES ('{ADA}', 'dev')", named=[f"person:{ADA}"])

    def test_changing_what_deviates(self) -> None:
        """A change signs for nothing that somebody else did to the row before."""
        self.house.by_sql(f"INSERT INTO memberships VALUES ('{EVE}', 'dev')")
        refusal = refusal_of(
            self.house.people().add_person(
                admin_pb2.AddPersonRequest(name="eve", groups=["dev"]), ROOT
            )
        )
        self.assertEqual(refusal.reason, "state_unsigned")
        node = self.house.connector.id
        self.house.by_sql(f"UPDATE nodes SET role = 'proxy' WHERE id = '{node}'")
        revoking = self.house.members().revoke_node(admin_pb2.RevokeNodeRequest(node=node), ROOT)
        self.assertEqual(refusal_of(revoking).reason, "state_unsigned")


class TokenTests(StateCase):
    """Join tokens by SQL."""

    def setUp(self) -> None:
        super().setUp()
        self.enrollment = self.house.enrollment(CertificateIssuer(self.house.world.keys))
        self.members = self.house.members()

    def token(self, name: str) -> str:
        request = admin_pb2.AddNodeRequest(name=name, role="proxy", ttl_secs=60)
        return str(value_of(self.members.add_node(request, ROOT)).token)

    def joining(self, token: str) -> Any:
        csr, audit = make_request(new_key()), ed25519.Ed25519PrivateKey.generate()
        request = pb.EnrollRequest(
            token=token,
            csr=csr,
            audit_public_key=audit.public_key().public_bytes_raw(),
            audit_proof=prove_audit_key(audit, csr),
            version="1",
        )
        call = Call()
        call.give(request.SerializeToString(), None)
        return self.enrollment.service().methods["Enroll"](call)

    def test_unspent_again(self) -> None:
        """A spent token that is marked unspent lets nobody in."""
        token = self.token("edge2")
        value_of(self.joining(token))
        self.house.by_sql("UPDATE join_tokens SET spent_at = NULL")
        self.assertEqual(refusal_of(self.joining(token)).reason, "state_unsigned")
        self.reload()
        self.assertEqual(len(self.named()), 1)
        self.assertTrue(self.named()[0].startswith("token:"))

    def test_extended(self) -> None:
        """A token whose time was lengthened lets nobody in, however long it has been over."""
        for wait in (120.0, 3 * 86400.0):
            token = self.token(f"edge{wait:.0f}")
            self.house.clock.advance(wait)
            self.reload()
            self.assertEqual(self.named(), [])
            end = self.house.now() + 60
            self.house.by_sql(f"UPDATE join_tokens SET expires_at = {end} WHERE spent_at IS NULL")
            self.assertEqual(refusal_of(self.joining(token)).reason, "state_unsigned")
            self.reload()
            self.assertEqual(len(self.named()), 1)
            self.house.by_sql("DELETE FROM join_tokens")
            self.reload()

    def test_inserted(self) -> None:
        """A token that no operator made lets nobody in."""
        token = make_token(self.house.entropy)
        row = TokenRecord(
            id=token.id,
            secret_sha256=token.secret_sha256,
            role=TokenRole.PROXY,
            expires_at=FAR,
            bound_to="edge9",
        )
        value_of(self.house.store.store.run("sql", lambda tx: tx.tokens.add(row, self.house.now())))
        self.assertEqual(refusal_of(self.joining(token.text)).reason, "state_unsigned")
        self.reload()
        self.assertEqual(self.named(), [f"token:{token.id}"])
        self.assertNotIn("edge9", {n.name for n in self.house.state_cache.state.nodes.values()})

    def test_wasted_on_a_revoked_person(self) -> None:
        """A token spent on somebody revoked is spent on record too."""
        given = value_of(
            self.house.people().add_person(admin_pb2.AddPersonRequest(name="ada"), ROOT)
        )
        self.house.run(lambda tx: tx.people.revoke(ADA, 1.0))
        self.assertEqual(refusal_of(self.joining(given.token)).reason, "token_refused")
        self.reload()
        self.assertEqual(self.named(), [])


class RestartedTests(StateCase):
    """By SQL under a stopped Authority: at the next start nothing of it is in force."""

    def absent(self, *statements: str, named: list[str]) -> ClusterState:
        self.house.by_sql(*statements)
        facts, found = self.facts_after_restart()
        self.assertEqual(found, named)
        return facts

    def test_policy(self) -> None:
        """A policy that deviates leaves nothing in force, and no first one takes its place."""
        facts = self.absent(
            "UPDATE policy_versions SET author = 'me'",
            named=["policy:1"],
        )
        self.assertIsNone(facts.policy)

    def test_pause(self) -> None:
        """Whoever takes the row of a pause away, or changes it, ends no pause."""
        pause = RotationPause(is_paused=True, since=1.0, by="ada")
        self.house.run(lambda tx: tx.keyrings.pause(pause))
        self.assertEqual(self.facts_after_restart()[0].pause, pause)
        for statement in (
            "UPDATE rotation_pauses SET is_paused = 0",
            "DELETE FROM rotation_pauses",
        ):
            facts = self.absent(statement, named=["pause:rotation"])
            assert facts.pause is not None
            self.assertTrue(facts.pause.is_paused)

    def test_inserted_policy(self) -> None:
        """Beside a version that nobody set the one that was set is in force."""
        facts = self.absent(
            "INSERT INTO policy_versions SELECT 2, text, sha256, author, 1.0, 1.0"
            " FROM policy_versions",
            named=["policy:2"],
        )
        assert facts.policy is not None
        self.assertEqual(facts.policy.version, 1)

    def test_people(self) -> None:
        """Whoever deviates is absent, whoever is gone is named, the others are there."""
        facts = self.absent(
            f"INSERT INTO memberships VALUES ('{EVE}', 'dev')",
            f"DELETE FROM memberships WHERE person_id = '{ADA}'",
            "DELETE FROM resource_labels",
            "DELETE FROM resources WHERE id = 'db1'",
            named=[f"person:{ADA}", f"person:{EVE}", "resource:db1", "resource:vault1"],
        )
        self.assertEqual((facts.people, facts.groups), ({}, ("dev",)))
        self.assertEqual(sorted(facts.catalog), ["host1", "prod1"])
        self.assertEqual(
            facts.absent,
            {
                f"person:{ADA}",
                f"person:{EVE}",
                "resource:db1",
                "resource:vault1",
            },
        )

    def test_put_right_again(self) -> None:
        """Once a row is put right it is in force again, and the policy sees it."""
        self.house.by_sql(f"DELETE FROM memberships WHERE person_id = '{ADA}'")
        self.house.state_cache = state_cache = self.restarted()
        self.house.policy.engine = None
        self.reload()
        self.assertNotIn(ADA, self.seen_by_the_policy())
        self.house.by_sql(f"INSERT INTO memberships VALUES ('{ADA}', 'dev')")
        self.reload()
        self.assertIn(ADA, self.seen_by_the_policy())
        self.assertEqual(state_cache.state.absent, frozenset())

    def seen_by_the_policy(self) -> set[str]:
        engine = self.house.policy.engine
        assert engine is not None
        return {entity.uid.id for entity in engine.entities}

    def test_an_intact_store(self) -> None:
        """A store that nobody touched is in force as it was, with and without a checkpoint."""
        before = self.house.state_cache.state
        for lost in ((), ("state-rows.json",), ("state-rows.json", "state.json")):
            value_of(self.keeper.stop())
            for name in lost:
                (self.anchor.path / name).unlink()
            self.assertEqual(self.facts_after_restart(), (before, []))


class OlderStoreTests(SynchronousTestCase):
    """A store of before there were records of state."""

    def setUp(self) -> None:
        self.house = House()
        self.house.by_sql("DELETE FROM state_changes", "DELETE FROM state_signers")
        self.anchor = StateAnchor(Path(self.mktemp()))
        self.request = adoption_request_file(self.anchor.path / "request.json")
        self.ledger = StateLedger(origin_verifier(self.house.world.keys.root_der, CLUSTER))

    def beginning(self) -> StateStartup:
        keeper = StateKeeper(self.ledger, self.anchor, BackgroundTasks())
        recorder = evolve(self.house.recorder, ledger=self.ledger)
        return StateStartup(
            store=self.house.store,
            ledger=self.ledger,
            anchor=self.anchor,
            keeper=keeper,
            recorder=recorder,
            request=self.request,
        )

    def begin(self) -> Any:
        return self.beginning().begin()

    def requested(self) -> AdoptionRequest:
        at = self.house.now()
        rows = value_of(self.house.store.read("rows", lambda tx: rows_now(tx, at)))
        return AdoptionRequest(fingerprint(rows.values()), at, 7)

    def test_another_took_it_over(self) -> None:
        """Who stood by over an older store, and leads after another took it over, asks nobody."""
        beginning = self.beginning()
        value_of(beginning.follow())
        self.assertEqual(self.ledger.view.n, 0)
        ours, self.ledger = self.ledger, StateLedger(self.ledger.verify)
        mine, self.anchor = self.anchor, StateAnchor(Path(self.mktemp()))
        self.request = adoption_request_file(self.anchor.path / "request.json")
        self.request.write(self.requested())
        value_of(self.begin())
        self.assertGreater(self.ledger.view.n, 0)
        value_of(beginning.begin())
        self.assertEqual((ours.view.n, ours.view.hash), (self.ledger.view.n, self.ledger.view.hash))
        self.assertFalse((mine.path / "request.json").exists())

    @proves("U-PHA-21")
    def test_nothing_is_taken_over_by_itself(self) -> None:
        """It is refused until an operator takes over exactly what it holds; then it goes on."""
        self.assertEqual(refusal_of(self.begin()).reason, "state_unadopted")
        self.request.write(self.requested())
        self.house.by_sql(f"INSERT INTO memberships VALUES ('{EVE}', 'dev')")
        self.assertEqual(refusal_of(self.begin()).reason, "state_unadopted")
        self.assertEqual(self.ledger.view.n, 0)
        self.house.by_sql(f"DELETE FROM memberships WHERE person_id = '{EVE}'")
        before = self.house.state_cache.state
        value_of(self.begin())
        state_cache = ClusterStateCache(
            self.house.store, self.ledger, self.house.now, advanced=nothing
        )
        self.assertEqual(value_of(state_cache.reload()).unsigned, ())
        self.assertEqual(state_cache.state, before)
        self.assertIsNone(self.request.read())

    def test_rows_in_a_new_store(self) -> None:
        """Rows that somebody put into a store before its first start are not in force."""
        self.house.by_sql("DELETE FROM personal_values", "DELETE FROM audit_log")
        value_of(self.begin())
        state_cache = ClusterStateCache(
            self.house.store, self.ledger, self.house.now, advanced=nothing
        )
        reading = value_of(state_cache.reload())
        self.assertEqual((state_cache.state.people, state_cache.state.policy), ({}, None))
        self.assertIn("policy:1", {row.subject for row in reading.unsigned})

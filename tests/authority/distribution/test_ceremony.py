"""Owners agree on a root: every one of them signs, none is left out, and none leaves by time."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.state.key_tables import KEY_SETS
from svc.authority.distribution.ceremony import RootCeremony
from svc.authority.distribution.own import OwnRoots
from svc.authority.distribution.owners import ReceiverRegistry
from svc.authority.distribution.pause import RotationAdmin
from svc.authority.state.recorder import node, operator
from svc.authority.state.writer import StateWriter
from svc.errors import SvcError
from svc.messages.forward import ReceiverReport, RootWord
from svc.model.audit.events import KEY_SET_ENTER
from svc.model.cluster.lease import Member
from svc.model.distribution import (
    MOST_FORMER_NODES,
    KeySet,
    OwnerState,
    RootState,
    ack_text,
    in_force,
    pending,
    receiver_key_digest,
    root_digest,
)
from svc.model.signing import Purpose, sign
from svc.pki.distribution import RootFiles
from svc.pki.receiver import ReceiverCredential, load_receiver, registration_text
from svc.proto.gate.v1 import root_pb2 as pb
from svc.runtime.threads import inline
from tests.authority.house import House, value_of
from tests.pki.support import CLUSTER
from tests.support.proof import proves

ADMIN = operator(0)
KEYS, OTHER_KEYS = b"k" * 32, b"o" * 32
NAMES = ("a1", "a2", "a3")


class Owner:
    """One Authority, as it registers and gives its word."""

    def __init__(self, case: RootCase, name: str) -> None:
        self.case, self.name, self.node_id = case, name, f"node-{name}"
        self.state = Path(case.mktemp())
        self.state.mkdir(mode=0o700)
        self.credential = load_receiver(self.state, CLUSTER, name, case.house.now())
        self.kept = RootFiles(self.state / "distribution")
        self.keys = KEYS
        self.own = OwnRoots(
            cluster=CLUSTER,
            credential=self.credential,
            kept=self.kept,
            state_cache=case.house.state_cache,
            loaded=lambda: self.keys,
            in_thread=inline,
            deliver=case.ceremony.take,
        )

    def report(self, credential: ReceiverCredential | None = None) -> ReceiverReport:
        """What it registers."""
        own = credential or self.credential
        text = registration_text(CLUSTER, self.name, own.receiver_key, own.sealing_key)
        return ReceiverReport(
            owner=self.name,
            receiver_key=own.receiver_key,
            sealing_key=own.sealing_key,
            signature=sign(own.key, Purpose.RECEIVER, text),
            key_set=self.keys,
        )

    def register(self, credential: ReceiverCredential | None = None) -> None:
        """Register, or say again what it has loaded."""
        value_of(self.case.registry.take(self.report(credential), self.node_id))


class RootCase(SynchronousTestCase):
    """Three Authorities that have registered, and the leader's key set."""

    def setUp(self) -> None:
        self.house = House()
        self.writer = StateWriter(
            cache=self.house.state_cache,
            store=self.house.store,
            recorder=self.house.recorder,
            now=self.house.now,
            entropy=self.house.entropy,
        )
        self.registry = ReceiverRegistry(CLUSTER, self.writer)
        self.ceremony = RootCeremony(CLUSTER, self.writer, self.house.entropy)
        self.rotation = RotationAdmin(self.writer)
        self.owners = {name: Owner(self, name) for name in NAMES}
        for one in self.owners.values():
            one.register()
        self.enter(KEYS)

    def enter(self, digest: bytes) -> None:
        """The leader's key set, as its own pass enters it."""

        def put(tx: Any) -> None:
            revision = len(tx.roots.key_sets()) + 1
            tx.roots.put_key_set(KeySet(revision=revision, digest=digest, since=1.0))
            state = [KEY_SETS.now(tx, str(revision))]
            self.writer.append(tx, KEY_SET_ENTER, node("n" * 26), state=state)

        value_of(self.writer.change("enter", put))

    def do(self, call: Coroutine[Any, Any, object]) -> None:
        """Something that succeeds."""
        value_of(call)

    def refused(self, call: Coroutine[Any, Any, object], reason: str) -> str:
        """Something that is refused for this reason; the text."""
        with self.assertRaises(SvcError) as caught:
            value_of(call)
        self.assertEqual(caught.exception.reason, reason, caught.exception.text)
        text: str = caught.exception.text
        return text

    def prepare(self) -> None:
        """Prepare a root."""
        self.do(self.ceremony.prepare(ADMIN))

    def ack(self, *names: str) -> None:
        """Acknowledge it at these."""
        for name in names:
            self.do(self.owners[name].own.acknowledge(ADMIN))

    @property
    def roots(self) -> list[tuple[int, RootState]]:
        """Every epoch and its state."""
        roots = self.house.state_cache.state.roots.values()
        return [(one.epoch, one.state) for one in roots]


class CeremonyTests(RootCase):
    """From the preparation to the root in force."""

    @proves("U-NOTE-07", "U-NOTE-09", "X-63")
    def test_every_owner_signs(self) -> None:
        """It is activated when all have signed, however long one of them takes."""
        self.prepare()
        self.ack("a1", "a2")
        self.house.clock.advance(80 * 86400.0)
        text = self.refused(self.ceremony.activate(ADMIN), "root_not_acknowledged")
        self.assertIn("not acknowledged by a3;", text)
        states = {one.state for one in self.house.state_cache.state.root_owners.values()}
        self.assertEqual(states, {OwnerState.RETAINED})
        self.ack("a3", "a3")
        self.do(self.ceremony.activate(ADMIN))
        self.assertEqual(self.roots, [(1, RootState.ACTIVE)])
        root = in_force(self.house.state_cache.state.roots.values())
        assert root is not None
        secrets = {one.kept.secret(1) for one in self.owners.values()}
        (secret,) = secrets
        assert secret is not None
        self.assertEqual(root_digest(CLUSTER, 1, secret), root.digest)
        self.prepare()
        self.ack(*NAMES)
        self.do(self.ceremony.activate(ADMIN))
        self.assertEqual(self.roots, [(1, RootState.RETIRED), (2, RootState.ACTIVE)])

    def test_the_secret_is_in_no_table(self) -> None:
        """What the store has of a root opens nothing."""
        self.prepare()
        self.ack("a1")
        secret = self.owners["a1"].kept.secret(1)
        assert secret is not None

        def rows(tx: Any) -> str:
            tables = ("root_epochs", "root_acks", "root_owners", "key_sets", "audit_log")
            found = [row for one in tables for row in tx.roots._db.all(f"SELECT * FROM {one}")]
            cells = [cell for row in found for cell in row]
            return repr([one.hex() if isinstance(one, bytes) else one for one in cells])

        stored = value_of(self.house.store.read("rows", rows))
        self.assertIn(self.owners["a1"].credential.receiver_key.hex(), stored)
        self.assertNotIn(secret.hex(), stored)

    @proves("U-NOTE-07")
    def test_forged_words(self) -> None:
        """A word is its owner's own, of this root, and for what it was given."""
        self.prepare()
        root = pending(self.house.state_cache.state.roots.values())
        assert root is not None
        good, other = self.owners["a1"].credential, self.owners["a2"].credential
        text = ack_text(CLUSTER, root, "a1")
        another = ack_text(CLUSTER, evolve(root, epoch=2), "a1")
        for signature in (
            sign(other.key, Purpose.ROOT_ACK, text),
            sign(good.key, Purpose.ROOT_CANCEL, text),
            sign(good.key, Purpose.ROOT_ACK, another),
            bytes(64),
        ):
            word = RootWord(owner="a1", epoch=1, cancel=False, signature=signature, by="-")
            self.refused(self.ceremony.take(word, ADMIN), "bad_signature")
        signature = sign(good.key, Purpose.ROOT_ACK, text)
        for word in (
            RootWord(owner="a1", epoch=2, cancel=False, signature=signature, by="-"),
            RootWord(owner="a9", epoch=1, cancel=False, signature=signature, by="-"),
        ):
            self.refused(self.ceremony.take(word, ADMIN), "not_an_owner")
        shares = self.house.state_cache.state.root_shares.values()
        self.assertEqual({one.signature for one in shares}, {None})

    @proves("U-NOTE-10")
    def test_an_owner_cancels(self) -> None:
        """Any owner gives a preparation up; who is none of its owners does not."""
        self.prepare()
        late = Owner(self, "a4")
        late.register()
        self.refused(late.own.cancel(ADMIN), "not_an_owner")
        self.refused(late.own.acknowledge(ADMIN), "not_an_owner")
        self.do(self.owners["a2"].own.cancel(ADMIN))
        self.assertEqual(self.roots, [(1, RootState.CANCELLED)])
        self.refused(self.owners["a1"].own.acknowledge(ADMIN), "no_root_prepared")
        self.refused(self.ceremony.activate(ADMIN), "no_root_prepared")

    @proves("U-NOTE-08")
    def test_two_owners_remain(self) -> None:
        """Nobody is withdrawn while a root is prepared, or where one owner would be left."""
        self.prepare()
        self.refused(self.ceremony.withdraw("a3", ADMIN), "root_pending")
        self.do(self.owners["a1"].own.cancel(ADMIN))
        self.refused(self.ceremony.withdraw("a9", ADMIN), "unknown_owner")
        self.do(self.ceremony.withdraw("a3", ADMIN))
        self.do(self.ceremony.withdraw("a3", ADMIN))
        self.refused(self.ceremony.withdraw("a2", ADMIN), "too_few_owners")
        self.owners["a3"].register()
        self.prepare()
        self.assertFalse((self.owners["a3"].state / "distribution").exists())
        self.refused(self.owners["a3"].own.acknowledge(ADMIN), "not_an_owner")
        self.ack("a1", "a2")
        self.do(self.ceremony.activate(ADMIN))
        self.assertEqual(self.roots[-1], (2, RootState.ACTIVE))

    @proves("U-NOTE-02")
    def test_a_member_without_a_credential(self) -> None:
        """A member that registered nothing holds every preparation up, and is named."""
        older = Member("older", "n1", "1")
        self.house.run(lambda tx: tx.lease.appear(older, None))
        text = self.refused(self.ceremony.prepare(ADMIN), "receiver_missing")
        self.assertIn("older", text)
        self.do(self.ceremony.withdraw("older", ADMIN))
        self.refused(self.ceremony.readmit("older", "", ADMIN), "receiver_missing")
        self.prepare()

    @proves("U-NOTE-14")
    def test_the_same_keys(self) -> None:
        """A root is prepared, acknowledged and activated at one and the same key set."""
        self.owners["a2"].keys = OTHER_KEYS
        self.owners["a2"].register()
        text = self.refused(self.ceremony.prepare(ADMIN), "key_set_differs")
        self.assertIn("a2: has not loaded material revision 1", text)
        self.assertIn("of an Authority whose REVISION is 1", text)
        self.owners["a2"].keys = KEYS
        self.owners["a2"].register()
        self.prepare()
        self.owners["a2"].keys = OTHER_KEYS
        self.refused(self.owners["a2"].own.acknowledge(ADMIN), "key_set_differs")
        self.owners["a2"].keys = KEYS
        self.ack(*NAMES)
        self.enter(OTHER_KEYS)
        self.refused(self.ceremony.activate(ADMIN), "root_outdated")

    @proves("U-PHA-03", "U-OPEN-18")
    def test_paused(self) -> None:
        """While rotation is paused none is prepared; what was prepared can be given up."""
        self.prepare()
        self.do(self.rotation.pause(pb.PauseRotationRequest(reason="upgrade"), ADMIN))
        self.do(self.owners["a1"].own.cancel(ADMIN))
        text = self.refused(self.ceremony.prepare(ADMIN), "rotation_paused")
        self.assertIn("local:0 (upgrade)", text)
        status = value_of(self.rotation.status(pb.RotationStatusRequest(), ADMIN))
        self.assertEqual((status.paused, status.reason), (True, "upgrade"))
        self.do(self.rotation.resume(pb.ResumeRotationRequest(), ADMIN))
        self.prepare()


class RegistrationTests(RootCase):
    """Whose credential is whose."""

    @proves("U-NOTE-04", "G-OPEN-73")
    def test_copied(self) -> None:
        """One credential under two names is a copy, and both names are told."""
        copied = evolve(self.owners["a2"].credential, owner="a4")
        text = self.refused(
            self.registry.take(Owner(self, "a4").report(copied), "node-a4"), "receiver_copied"
        )
        self.assertIn("the credential of a4 is registered as that of a2", text)

    def test_replaced(self) -> None:
        """Another credential of an owner of a root counts once it was withdrawn and readmitted."""
        self.prepare()
        made = Owner(self, "a3")
        text = self.refused(self.registry.take(made.report(), made.node_id), "receiver_replaced")
        self.assertIn("another authority.name", text)
        self.do(self.owners["a1"].own.cancel(ADMIN))
        self.do(self.ceremony.withdraw("a3", ADMIN))
        made.register()
        known = self.house.state_cache.state.root_owners["a3"]
        self.assertEqual(known.state, OwnerState.WITHDRAWN)
        self.assertEqual(known.receiver_key, made.credential.receiver_key)
        self.prepare()
        self.refused(made.own.acknowledge(ADMIN), "not_an_owner")
        self.do(self.owners["a1"].own.cancel(ADMIN))
        for _ in range(2):
            self.do(self.ceremony.readmit("a3", "", ADMIN))
        (record,) = self.house.records("root.readmit")
        self.assertEqual(record["details"]["owners"], ["a3"])
        self.prepare()
        self.do(made.own.acknowledge(ADMIN))

    def test_readmitted_by_its_key(self) -> None:
        """Another credential than the one that was meant is not let back, nor replaces it later."""
        former = self.owners["a3"].credential
        self.do(self.ceremony.withdraw("a3", ADMIN))
        made = Owner(self, "a3")
        digest = receiver_key_digest(made.credential.receiver_key)
        text = self.refused(self.ceremony.readmit("a3", digest, ADMIN), "receiver_differs")
        self.assertIn(receiver_key_digest(former.receiver_key)[:16], text)
        text = self.refused(self.registry.take(made.report(), "node-a9"), "receiver_replaced")
        self.assertIn("the name of the node node-a3", text)
        self.refused(self.registry.take(made.report(former), "node-a9"), "receiver_replaced")
        made.register()
        self.refused(self.ceremony.readmit("a3", digest[:15], ADMIN), "malformed")
        self.do(self.ceremony.readmit("a3", digest[:16].upper(), ADMIN))
        self.refused(self.ceremony.readmit("a3", "0" * 64, ADMIN), "receiver_differs")
        another = Owner(self, "a3")
        self.refused(self.registry.take(another.report(), "node-a3"), "receiver_replaced")
        self.do(self.ceremony.withdraw("a3", ADMIN))
        another.register()
        self.do(self.ceremony.readmit("a3", "", ADMIN))

    def test_readmitted_under_one_name(self) -> None:
        """Whose credential was let back does not bring another one in by another name."""
        self.do(self.ceremony.withdraw("a3", ADMIN))
        self.do(self.ceremony.readmit("a3", "", ADMIN))
        self.rename("a3")
        owners = self.house.state_cache.state.root_owners
        states = (owners["a3"].state, owners["b3"].state)
        self.assertEqual(states, (OwnerState.WITHDRAWN, OwnerState.WITHDRAWN))

    def test_nobody_to_readmit(self) -> None:
        """Who has no credential, or is no owner, is not readmitted; who is retained stays so."""
        self.refused(self.ceremony.readmit("a9", "", ADMIN), "unknown_owner")
        self.do(self.ceremony.readmit("a2", "", ADMIN))
        self.assertEqual(self.house.records("root.readmit"), [])

    def rename(self, *names: str) -> None:
        """Give Authorities other names."""
        for name in names:
            named = Owner(self, name.replace("a", "b"))
            named.node_id = f"node-{name}"
            named.register()
            self.owners[named.name] = named

    def test_renamed_while_prepared(self) -> None:
        """A root of an owner that is none any more does not come into force."""
        self.prepare()
        self.ack(*NAMES)
        self.rename("a1", "a2")
        text = self.refused(self.ceremony.activate(ADMIN), "root_of_withdrawn_owner")
        self.assertIn("sealed to a1, a2,", text)
        self.refused(self.ceremony.prepare(ADMIN), "root_pending")
        self.do(self.owners["a3"].own.cancel(ADMIN))
        self.prepare()

    def test_all_renamed_while_prepared(self) -> None:
        """Where nobody is left to cancel it, the next preparation does, and says so on record."""
        self.prepare()
        self.rename(*NAMES)
        self.prepare()
        self.assertEqual(self.roots, [(1, RootState.CANCELLED), (2, RootState.PREPARED)])
        self.ack("b1", "b2", "b3")
        self.do(self.ceremony.activate(ADMIN))

    def test_lost_before_any_root(self) -> None:
        """Where no root was sealed to the former one, the same Authority replaces what it lost."""
        made = Owner(self, "a3")
        self.refused(self.registry.take(made.report(), "node-a2"), "receiver_replaced")
        made.register()
        known = self.house.state_cache.state.root_owners["a3"]
        self.assertEqual(known.state, OwnerState.RETAINED)
        self.assertEqual(known.receiver_key, made.credential.receiver_key)

    def test_renamed(self) -> None:
        """An Authority that was given another name is one owner, not two."""
        named = Owner(self, "b1")
        named.node_id = "node-a1"
        named.register()
        owners = self.house.state_cache.state.root_owners
        self.assertEqual(owners["a1"].state, OwnerState.WITHDRAWN)
        self.assertEqual(owners["b1"].state, OwnerState.RETAINED)

    def test_withdrawn_under_a_new_name(self) -> None:
        """Who was withdrawn does not come back by another name; a readmission is of that name."""
        self.do(self.ceremony.withdraw("a3", ADMIN))
        self.rename("a3")
        owners = self.house.state_cache.state.root_owners
        self.assertEqual(owners["b3"].state, OwnerState.WITHDRAWN)
        self.prepare()
        self.refused(self.owners["b3"].own.acknowledge(ADMIN), "not_an_owner")
        self.do(self.owners["a1"].own.cancel(ADMIN))
        self.do(self.ceremony.readmit("b3", "", ADMIN))
        owners = self.house.state_cache.state.root_owners
        states = (owners["a3"].state, owners["b3"].state)
        self.assertEqual(states, (OwnerState.WITHDRAWN, OwnerState.RETAINED))

    def certified_anew(self, name: str) -> Owner:
        """The Authority's identity is made anew; its receiver credential stays."""
        owner = self.owners[name]
        owner.node_id = f"node-{name}-anew"
        owner.register()
        return owner

    def former(self, owner: Owner, name: str) -> Owner:
        """Whoever has the certificate that an owner had before, and a credential of their own."""
        made = Owner(self, name)
        made.node_id = owner.node_id.removesuffix("-anew")
        return made

    def test_a_former_certificate(self) -> None:
        """It brings in no second owner, neither before the present one is withdrawn nor after."""
        owner = self.certified_anew("a3")
        owners = self.house.state_cache.state.root_owners
        self.assertEqual((owners["a3"].node_id, len(owners)), (owner.node_id, 3))
        early = self.former(owner, "a8")
        early.register()
        self.do(self.ceremony.withdraw("a3", ADMIN))
        late = self.former(owner, "a9")
        late.register()
        owners = self.house.state_cache.state.root_owners
        states = {name: owners[name].state for name in ("a3", "a8", "a9")}
        self.assertEqual(set(states.values()), {OwnerState.WITHDRAWN}, states)
        self.prepare()
        for one in (owner, early, late):
            self.refused(one.own.acknowledge(ADMIN), "not_an_owner")

    def test_a_former_certificate_and_the_key(self) -> None:
        """Whoever has both does not become the owner again, and so takes no other name of it."""
        owner = self.certified_anew("a3")
        text = self.refused(self.registry.take(owner.report(), "node-a3"), "receiver_replaced")
        self.assertIn("certified anew as node node-a3-anew", text)
        owner.register()
        known = self.house.state_cache.state.root_owners["a3"]
        self.assertEqual((known.node_id, known.former_nodes), ("node-a3-anew", ("node-a3",)))
        owner.node_id = "node-a3-third"
        owner.register()
        known = self.house.state_cache.state.root_owners["a3"]
        self.assertEqual(known.former_nodes, ("node-a3", "node-a3-anew"))
        self.prepare()
        self.ack(*NAMES)
        self.do(self.ceremony.activate(ADMIN))

    def test_certified_too_often(self) -> None:
        """What is remembered of one owner has a limit, at which nothing is forgotten."""
        owner = self.owners["a3"]
        for number in range(MOST_FORMER_NODES):
            owner.node_id = f"node-{number}"
            owner.register()
        text = self.refused(self.registry.take(owner.report(), "one-more"), "receiver_replaced")
        self.assertIn("64 times", text)

    def test_another_s_key(self) -> None:
        """Who registers a key has it."""
        report = evolve(self.owners["a1"].report(), owner="a5")
        self.refused(self.registry.take(report, "node-a5"), "bad_signature")

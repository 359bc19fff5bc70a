"""Three Authorities on one PostgreSQL store agree on a root, and keys are distributed under it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, until
from tests.fault.cluster import Cluster
from tests.support.postgres import connected
from tests.support.proof import proves

RUN_BY = "make fault"

FIRST, SECOND, THIRD = NAMES = ("authority", "authority2", "authority3")
OTHER = "authority9"
LEASE_SECS = 15
"""Long: this is no test of who leads, and the machine may be busy."""


@proves("G-OPEN-72", "G-OPEN-73")
class DistributionRootTests(SynchronousTestCase):
    """The first Authority leads; the third one distributes nothing by itself."""

    def setUp(self) -> None:
        """All of them run, and have registered their credentials."""
        self.cluster = Cluster.on_postgres(self, NAMES, lease_secs=LEASE_SECS)
        files = self.cluster.gateway.files
        for name in (FIRST, SECOND):
            files.write(name, files.table(name) | {"keys.automatic_distribution": True})
        self.cluster.start(FIRST)
        for name in (SECOND, THIRD):
            self.cluster.start(name)
            self.cluster.standing_by(name)
        for name in NAMES:
            until(f"{name} knows every owner", partial(self.knows_all, name))

    # -- asking

    def root(self, *words: str, name: str = FIRST) -> Ran:
        """A command about the root, on the host of one of them."""
        return self.cluster.ran("keys", "sync", "root", *words, name=name)

    def status(self, name: str = FIRST) -> Any:
        """What one of them says of the root."""
        return self.root("status", "--json", name=name).checked().json

    def owners(self, name: str = FIRST) -> dict[str, Any]:
        """The owners, by name."""
        return {one["root_owner"]: one for one in self.status(name)["root_owners"]}

    def knows_all(self, name: str) -> bool:
        """Whether one of them knows that all have registered, and loaded the same keys."""
        # One that stands by answers once it has read the policy.
        ran = self.root("status", "--json", name=name)
        found = ran.json["root_owners"] if ran.status == 0 else ()
        states = [(one["owner_state"], one["material_revision"]) for one in found]
        return states == [("retained", 1)] * len(NAMES)

    def answers(self, name: str) -> bool:
        """Whether one that stands by answers, as it does once it has read the policy."""
        return self.root("status", name=name).status == 0

    def is_at(self, name: str, revision: int) -> bool:
        """Whether one of them has said that it loaded the keys of a revision."""
        return bool(self.owners()[name]["material_revision"] == revision)

    def refused(self, ran: Ran, reason: str, *words: str) -> None:
        """Check that a command was refused for a reason, and names what it should."""
        self.assertNotEqual(ran.status, 0, ran.stdout)
        for word in (f"({reason})", *words):
            self.assertIn(word, ran.stderr)

    def agree(self, names: tuple[str, ...]) -> None:
        """Prepare a root, have each of its owners acknowledge it, and activate it."""
        self.root("prepare").checked()
        for name in names:
            self.root("ack", name=name).checked()
        self.root("activate").checked()

    # -- the story

    @proves(
        "G-CLI-12",
        "U-NOTE-03",
        "U-NOTE-05",
        "U-NOTE-07",
        "U-NOTE-08",
        "U-NOTE-09",
        "U-NOTE-10",
        "U-NOTE-11",
        "U-NOTE-14",
        "U-NOTE-15",
        "X-63",
    )
    def test_a_root_and_the_next_one(self) -> None:
        """Every owner has to sign; keys go to those who have the root, and to nobody else."""
        self.check_first_start()
        self.check_acknowledgements()
        self.check_distribution()
        self.check_withdrawal()
        verified = self.cluster.command("audit", "verify")
        self.assertIn("verified", verified)

    def check_first_start(self) -> None:
        """Each has a credential of its own; nothing was prepared, and nothing is distributed."""
        states = [self.cluster.gateway.files.state(name) for name in NAMES]
        credentials = [state / "receiver.key" for state in states]
        self.assertEqual({path.stat().st_mode & 0o777 for path in credentials}, {0o600})
        self.assertEqual(len({path.read_bytes() for path in credentials}), len(NAMES))
        for name in NAMES:
            said = self.status(name)
            self.assertEqual(said["root_owner"], name)
            self.assertEqual((said["root_epoch"], said["material_revision"]), (0, 1))
            self.assertIsNone(said["prepared_root"])
            self.assertEqual(said["distributed_revision"], 0)
        self.assertFalse(self.status(THIRD)["automatic_distribution"])
        self.assertIn("preparation             none", self.root("status").checked().stdout)

    def check_acknowledgements(self) -> None:
        """A silent owner holds it up for ever; its word, once given, outlives every process."""
        self.refused(self.root("prepare", name=SECOND), "not_leader")
        self.root("prepare").checked()
        self.refused(self.root("prepare"), "root_pending")
        self.refused(self.root("activate"), "root_not_acknowledged", *NAMES)
        self.root("cancel", name=SECOND).checked()
        self.assertIsNone(self.status()["prepared_root"])
        self.root("prepare").checked()
        self.cluster.child(THIRD).kill()
        self.root("ack").checked()
        said = self.root("ack", "--json", name=SECOND).checked().json
        self.assertEqual(said["prepared_root"]["acknowledged"], [FIRST, SECOND])
        self.cluster.child(SECOND).kill()
        self.refused(self.root("activate"), "root_not_acknowledged", THIRD)
        self.refused(self.root("withdraw", THIRD), "root_pending")
        for name in (SECOND, THIRD):
            self.cluster.start(name)
            until(f"{name} has read the policy", partial(self.answers, name))
        self.assertEqual(self.status(SECOND)["prepared_root"]["acknowledged"], [FIRST, SECOND])
        self.check_forged()
        self.root("ack", name=THIRD).checked()
        self.root("activate").checked()
        for name in NAMES:
            said = self.status(name)
            self.assertEqual((said["root_epoch"], said["prepared_root"]), (2, None))

    def check_forged(self) -> None:
        """Who can write to the store acknowledges nothing for anybody."""
        with connected(self.cluster.url) as cursor:
            cursor.execute(
                "UPDATE root_acks SET signature = %s, acked_at = 1 WHERE owner = %s AND epoch = 2",
                (bytes(64), THIRD),
            )
        self.refused(self.root("activate"), "state_unsigned")
        with connected(self.cluster.url) as cursor:
            cursor.execute(
                "UPDATE root_acks SET signature = NULL, acked_at = NULL"
                " WHERE owner = %s AND epoch = 2",
                (THIRD,),
            )
        self.refused(self.root("activate"), "root_not_acknowledged", THIRD)

    def check_distribution(self) -> None:
        """A new CA reaches the one that takes keys by itself; the other one waits for a copy."""
        until("it is sealed", lambda: self.status()["distributed_revision"] == 1)
        self.cluster.command("keys", "renew", "spiffe")
        until("it was taken", partial(self.is_at, SECOND, 2))
        self.assertTrue(self.is_at(THIRD, 1))
        keys = [self.cluster.gateway.files.state(name) / "keys" for name in NAMES]
        first, second, third = ((one / "spiffe.key").read_bytes() for one in keys)
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        self.refused(self.root("prepare"), "key_set_differs", THIRD)
        self.cluster.command("recordings", "rotate-key")
        until("the key of recordings was taken", partial(self.is_at, SECOND, 3))
        first, second = ((one / "recording.key").read_bytes() for one in keys[:2])
        self.assertEqual(first, second)
        for path in keys[0].glob("*.*"):
            if path.name.startswith(("spiffe.", "recording")):
                shutil.copy(path, keys[2] / path.name)
        until("it was copied", partial(self.is_at, THIRD, 3))

    def check_withdrawal(self) -> None:
        """Who is withdrawn gets no further root, and no key under it; two have to remain."""
        told = self.root("withdraw", THIRD).checked()
        self.assertIn("a withdrawal revokes nothing", told.stderr)
        self.refused(self.root("withdraw", SECOND), "too_few_owners", FIRST)
        self.cluster.command("keys", "renew", "spiffe")
        until("it was entered", lambda: self.status()["material_revision"] == 4)
        until("it is said", lambda: "that was withdrawn" in self.cluster.child(FIRST).text())
        self.assertEqual(self.status()["distributed_revision"], 3)
        state = self.cluster.gateway.files.state
        for name in ("spiffe.key", "spiffe.pem"):
            shutil.copy(state(FIRST) / "keys" / name, state(SECOND) / "keys" / name)
        until("it was copied", partial(self.is_at, SECOND, 4))
        self.agree((FIRST, SECOND))
        until("it is sealed", lambda: self.status()["distributed_revision"] == 4)
        roots = [
            sorted(one.name for one in (state(name) / "distribution").iterdir()) for name in NAMES
        ]
        self.assertEqual(roots, [["2.root", "3.root"], ["2.root", "3.root"], ["2.root"]])
        self.refused(self.root("ack", name=THIRD), "no_root_prepared")
        self.check_readmission()

    def check_readmission(self) -> None:
        """With another credential it stays withdrawn, until an operator lets it back."""
        self.cluster.child(THIRD).kill()
        receiver = self.cluster.gateway.files.state(THIRD) / "receiver.key"
        before = self.entered()
        receiver.unlink()
        self.cluster.start(THIRD)
        until("its new credential is registered", lambda: self.entered() > before)
        self.assertEqual(self.owners()[THIRD]["owner_state"], "withdrawn")
        digest = self.status(THIRD)["receiver_key_digest"]
        self.assertEqual(self.owners()[THIRD]["receiver_key_digest"], digest)
        self.assertEqual(self.root("readmit", THIRD, "--key", digest[:15]).status, 64)
        other = self.status(FIRST)["receiver_key_digest"]
        self.refused(self.root("readmit", THIRD, "--key", other), "receiver_differs", digest[:16])
        told = self.root("readmit", THIRD, "--key", digest[:16]).checked()
        self.assertIn(f"by the receiver key {digest[:16]} of the node", told.stderr)
        self.assertEqual(self.owners()[THIRD]["owner_state"], "retained")

    def entered(self) -> int:
        """How many credentials have been registered."""
        words = ("audit", "show", "--event", "root.owner", "--last", "99", "--json")
        return len(json.loads(self.cluster.command(*words)))

    def state_of(self, name: str) -> str:
        """Of one owner; a member without a credential is unregistered, and empty is nobody."""
        return str(self.owners().get(name, {}).get("owner_state", ""))

    def check_certified_anew(self) -> None:
        """A former certificate, which nobody revoked, gets no root under whatever name."""
        files = self.cluster.gateway.files
        state, table = files.state(THIRD), files.table(THIRD)
        former = self.owners()[THIRD]["authority_id"]
        identity, receiver = state / "identity", state / "receiver.key"
        identity.rename(state / "identity-of-before")
        self.cluster.start(THIRD, ready=False)
        until("it is certified anew", lambda: self.owners()[THIRD]["authority_id"] != former)
        self.assertEqual(self.owners()[THIRD]["owner_state"], "retained")
        self.cluster.child(THIRD).kill()
        shutil.rmtree(identity)
        (state / "identity-of-before").rename(identity)
        child = self.cluster.child(THIRD)
        child.start()
        until("it is refused", lambda: "receiver_replaced" in child.text())
        child.kill()
        receiver.unlink()
        files.write(THIRD, table | {"authority.name": OTHER})
        child.start()
        until("it is registered", lambda: self.state_of(OTHER) not in ("", "unregistered"))
        found = self.owners()[OTHER]
        self.assertEqual((found["authority_id"], found["owner_state"]), (former, "withdrawn"))

    def check_refused_at_a_standby(self) -> None:
        """Whom the policy lets do nothing hears that at an Authority that stands by, too."""
        allowed = self.cluster.command("policy", "show")
        file = self.cluster.gateway.directory / "policy.cedar"
        forbid = '@id("no-roots") forbid (principal, action == Action::"rotateCA", resource);'
        file.write_text(allowed + forbid, "utf-8")
        self.cluster.command("policy", "set", str(file))

        def denied() -> bool:
            ran = self.root("ack", name=SECOND)
            return "does not let" in ran.stderr and "(denied)" in ran.stderr

        until("the standby has the new policy", denied)
        file.write_text(allowed, "utf-8")
        self.cluster.command("policy", "set", str(file))

    @proves("U-NOTE-04", "U-NOTE-02", "U-PHA-03", "U-OPEN-18")
    def test_copies_members_and_the_pause(self) -> None:
        """A copied credential stops the start; a pause stops every rotation."""
        self.check_refused_at_a_standby()
        self.cluster.child(THIRD).kill()
        files = self.cluster.gateway.files
        own = files.state(THIRD) / "receiver.key"
        kept = own.read_bytes()
        shutil.copy(files.state(SECOND) / "receiver.key", own)
        child = self.cluster.child(THIRD)
        child.start()
        self.assertNotEqual(child.wait(), 0)
        for word in (SECOND, THIRD, "never be copied"):
            self.assertIn(word, child.text())
        own.write_bytes(kept)
        with connected(self.cluster.url) as cursor:
            cursor.execute(
                "INSERT INTO authority_members (owner, node_id, beats) VALUES ('older', 'n', 1)"
            )
        self.refused(self.root("prepare"), "receiver_missing", "older")
        self.root("withdraw", "older").checked()
        self.cluster.command("ca", "rotation", "pause", "--reason", "an upgrade")
        self.refused(self.root("prepare"), "rotation_paused", "an upgrade")
        self.assertTrue(self.status(SECOND)["rotation_paused"])
        for words in (("keys", "renew", "spiffe"), ("recordings", "rotate-key")):
            renewed = self.cluster.ran(*words)
            self.assertEqual(renewed.status, 1)
            self.assertIn("rotation is paused by local:0 (an upgrade)", renewed.stderr)
        self.cluster.command("ca", "rotation", "resume")
        self.root("prepare").checked()
        self.root("cancel").checked()
        self.check_certified_anew()

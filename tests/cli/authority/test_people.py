"""The life of persons, groups and tokens at the operator's terminal."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from contrib.reference.json_names import unknown
from svc.model.cluster.person import IssuedCertificate
from svc.model.cluster.sign_in import IdentityLink, SignIn
from svc.model.cluster.token import parse_token
from svc.model.session.session import Session
from tests.cli.terminal import LESS, NOW, POLICY, Authority, Place

STRANGER = "z" * 26


class PeopleCase(SynchronousTestCase):
    """An Authority with a group and two people."""

    def setUp(self) -> None:
        self.place, self.authority = Place(self), Authority()
        self.run_it("groups", "add", "ops")
        self.token = self.run_it("persons", "add", "ana", "--group", "ops").stdout.strip()
        self.run_it("persons", "add", "bob")

    def run_it(self, *words: str, **options: Any) -> Any:
        """Run one command against the Authority of this test."""
        return self.place.run(*words, admin=self.authority, **options)

    def told(self, *words: str) -> Any:
        """What it prints for programs."""
        ran = self.run_it(*words, "--json")
        self.assertEqual(ran.status, 0, ran.stderr)
        document = json.loads(ran.stdout)
        self.assertEqual(list(unknown(document)), [])
        return document

    def records(self, *events: str) -> list[dict[str, Any]]:
        """The records of these events, oldest first."""
        found: list[dict[str, Any]] = []
        self.authority.change(
            lambda tx: found.extend(json.loads(row.canonical) for row in tx.audit.rows(1, 200))
        )
        return [one for one in found if one["event"] in events]

    def id_of(self, name: str) -> str:
        (found,) = [one for one in self.told("persons", "list", "--all") if one["name"] == name]
        return str(found["id"])

    def refused(self, *words: str) -> str:
        """What is said where a command is refused; nothing on stdout."""
        ran = self.run_it(*words)
        self.assertEqual((ran.status, ran.stdout), (1, ""))
        return str(ran.stderr)


class LifeTests(PeopleCase):
    """`persons`, `groups`, `tokens` and `users`."""

    def test_disable_and_enable(self) -> None:
        """Each is made once, recorded with its reason, and says when there was nothing to do."""
        first = self.run_it("persons", "disable", "ana", "--reason", "on leave")
        id = self.id_of("ana")
        self.assertEqual(first.stdout, f"disabled ana ({id})\n")
        again = self.told("persons", "disable", id)
        self.assertEqual(again, {"id": id, "name": "ana", "changed": False, "open_sessions": 0})
        self.assertEqual(self.told("persons", "show", "ana")["state"], "disabled")
        self.assertIn("persons enable ana", self.refused("persons", "add", "ana"))
        self.assertTrue(self.told("persons", "enable", "ana")["changed"])
        self.assertEqual(
            self.run_it("persons", "enable", "ana").stdout, f"is not disabled: ana ({id})\n"
        )
        found = self.records("person.disable", "person.enable")
        self.assertEqual([one["event"] for one in found], ["person.disable", "person.enable"])
        for one in found:
            self.assertEqual(one["details"]["person_id"], id)
            self.assertEqual([row[0] for row in one["state"]["rows"]], [f"person:{id}"])
        self.assertIn("personal", found[0]["details"]["note"])

    def test_show(self) -> None:
        """What a person has: groups, certificates and tokens that are still of use."""
        id = self.id_of("ana")
        good = IssuedCertificate(
            sha256=b"1" * 32, serial="0a", person_id=id, issued_at=NOW - 60, expires=NOW + 60
        )
        certificates = [good, evolve(good, sha256=b"2" * 32, serial="0b", expires=NOW - 30)]
        self.authority.change(lambda tx: [tx.certificates.issued(one) for one in certificates])
        told = self.told("persons", "show", "ana")
        self.assertEqual([one["serial"] for one in told["certificates"]], ["0a"])
        self.assertEqual([one["id"] for one in told["tokens"]], [parse_token(self.token).id])
        self.assertEqual((told["groups"], told["open_sessions"]), (["ops"], 0))
        shown = self.run_it("persons", "show", id).stdout
        self.assertIn("certificate    0a, until 2030-", shown)
        self.assertNotIn(self.token, shown)

    def test_remove(self) -> None:
        """Who is removed is in no group, has no token, is listed with --all, and stays so."""
        self.run_it("persons", "disable", "ana")
        id = self.id_of("ana")
        self.assertTrue(self.told("persons", "remove", "ana", "--reason", "left")["changed"])
        self.assertFalse(self.told("persons", "remove", id)["changed"])
        self.assertEqual([one["name"] for one in self.told("persons", "list")], ["bob"])
        told = self.told("persons", "show", "ana")
        self.assertEqual((told["state"], told["groups"], told["tokens"]), ("removed", [], []))
        for words in (
            ("persons", "enable", "ana"),
            ("persons", "add", "ana"),
            ("groups", "members", "ops", "--add", "ana"),
        ):
            self.assertIn("was removed (revoked_person)", self.refused(*words))
        self.assertEqual(
            [one["event"] for one in self.records("person.revoke", "group.leave", "token.revoke")],
            ["person.revoke", "group.leave", "token.revoke"],
        )

    def test_members(self) -> None:
        """People come into a group and go, all or none, and each is in the log."""
        self.assertEqual(self.told("groups", "list"), [{"name": "ops", "members": 1}])
        told = self.told("groups", "members", "ops", "--add", "bob", "--add", "ana")
        self.assertEqual([one["name"] for one in told["added"]], ["bob"])
        both = [one["name"] for one in self.told("groups", "members", "ops")]
        self.assertEqual(both, ["ana", "bob"])
        said = self.refused("groups", "members", "ops", "--remove", "ana", "--remove", "eve")
        self.assertIn("person eve: does not exist", said)
        self.assertIn("unknown_person", said)
        self.assertEqual(len(self.told("groups", "members", "ops")), 2)
        gone = self.run_it("groups", "members", "ops", "--remove", "ana", "--reason", "moved")
        self.assertEqual(gone.stdout, "taken out of ops: ana\n")
        twice = self.run_it("groups", "members", "ops", "--remove", "ana")
        self.assertEqual((twice.status, twice.stdout), (0, "nothing to change\n"))
        self.assertEqual(self.run_it("groups", "members", "ops", "--reason", "why").status, 64)
        both_ways = self.refused("groups", "members", "ops", "--add", "bob", "--remove", "bob")
        self.assertIn("added and taken out at once", both_ways)
        for words in (("members",), ("remove",), ("members", "--add", "bob")):
            said = self.refused("groups", words[0], "opps", *words[1:])
            self.assertIn("group opps: does not exist", said)
            self.assertNotIn("--create-groups", said)
        self.assertEqual(
            [one["details"]["group"] for one in self.records("group.join", "group.leave")],
            ["ops"] * 3,
        )

    def test_remove_group(self) -> None:
        """A group with people in it is removed only where that is said; its name is free then."""
        self.assertIn("has 1 member(s)", self.refused("groups", "remove", "ops"))
        told = self.told("groups", "remove", "ops", "--with-members")
        self.assertEqual(told, {"name": "ops", "members": 1})
        self.assertEqual(self.told("persons", "show", "ana")["groups"], [])
        self.assertTrue(self.told("groups", "add", "ops")["changed"])
        self.assertEqual(self.told("groups", "members", "ops"), [])
        (removed,) = self.records("group.remove")
        self.assertEqual(removed["state"]["rows"], [["group:ops", None]])

    def test_tokens(self) -> None:
        """Tokens are listed without secrets, and one that is withdrawn is listed with --all."""
        node = self.run_it("nodes", "add", "edge", "--role", "proxy").stdout.strip()
        listed = self.run_it("tokens", "list")
        for secret in (node, self.token):
            self.assertNotIn(secret.rpartition(".")[2], listed.stdout)
        told = {one["name"]: one for one in self.told("tokens", "list")}
        self.assertEqual(sorted(told), ["ana", "bob", "edge"])
        self.assertEqual((told["edge"]["role"], told["edge"]["person"]), ("proxy", None))
        self.assertEqual(told["ana"]["person"], self.id_of("ana"))
        id = told["ana"]["id"]
        withdrawn = self.run_it("tokens", "revoke", id, "--reason", "lost")
        self.assertEqual(withdrawn.stdout, f"withdrew {id}\n")
        self.assertFalse(self.told("tokens", "revoke", id)["changed"])
        self.assertEqual(len(self.told("tokens", "list")), 2)
        used = {one["name"]: one["used"] for one in self.told("tokens", "list", "--all")}
        self.assertEqual(used, {"ana": True, "bob": False, "edge": False})
        self.assertIn("unknown_token", self.refused("tokens", "revoke", "none"))
        (record,) = self.records("token.revoke")
        self.assertEqual(record["details"]["person_id"], self.id_of("ana"))

    def test_forget_name(self) -> None:
        """The name is in no list any more and free for another; by id, again changes nothing."""
        id = self.id_of("ana")
        told = self.told("users", "forget-name", "ana")
        self.assertEqual(told, {"id": id, "changed": True, "erased": None})
        self.assertEqual(self.run_it("users", "forget-name", id).stdout, f"{id} has no name\n")
        self.assertIn("unknown_person", self.refused("users", "forget-name", "ana"))
        self.assertNotIn("ana", self.run_it("persons", "list").stdout)
        self.assertIsNone(self.told("persons", "show", id)["name"])
        self.assertNotIn("ana", [one["name"] for one in self.told("tokens", "list")])
        self.assertEqual(self.told("users", "forget-name", id, "--records")["erased"], 1)
        self.run_it("persons", "add", "ana")
        self.assertNotEqual(self.id_of("ana"), id)
        (record,) = self.records("user.forget_name")
        self.assertEqual(record["details"], {"person_id": id})
        (erased,) = self.records("audit.erased")
        self.assertEqual(erased["details"], {"person_id": id, "count": 1})

    def test_unknown(self) -> None:
        """A person who is not there is named, with how to list who is; an id is no name."""
        for verb in ("show", "disable", "enable", "remove"):
            for word in ("eve", STRANGER):
                said = self.refused("persons", verb, word)
                command = f"svc --config {self.place.config} authority persons list"
                self.assertIn(f"person {word}: does not exist; list them: {command} ", said)
        self.assertIn("form of an id", self.refused("persons", "add", STRANGER))

    def test_denied(self) -> None:
        """An operator whom the policy does not let do it changes nothing."""
        self.run_it("policy", "set", "-", stdin=LESS.encode())
        id = self.told("tokens", "list")[0]["id"]
        for words in (
            ("persons", "disable", "ana"),
            ("persons", "remove", "ana"),
            ("groups", "members", "ops", "--add", "bob"),
            ("groups", "remove", "ops", "--with-members"),
            ("tokens", "revoke", id),
        ):
            said = self.run_it(*words)
            if said.status == 0:
                self.fail(f"{words} were let through by {POLICY}")
        self.assertEqual(self.told("persons", "show", "ana")["groups"], ["ops"])


class CredentialTests(PeopleCase):
    """`persons revoke`."""

    def test_revoke(self) -> None:
        """All that proves a person is of no use at once, and the person is there as before."""
        id = self.id_of("ana")
        good = IssuedCertificate(
            sha256=b"1" * 32, serial="0a", person_id=id, issued_at=NOW - 60, expires=NOW + 60
        )
        link = IdentityLink(id="l1", issuer="https://id.example", subject="7", person_id=id)
        sign_in = SignIn(
            id="s1",
            identity_id="l1",
            person_id=id,
            auth_time=NOW - 60,
            began_at=NOW - 60,
            ends_at=NOW + 600,
            certificate_sha256=good.sha256,
            key_sha256=b"k" * 32,
            generation=1,
            refresh=b"sealed",
        )
        self.authority.change(
            lambda tx: (
                tx.certificates.issued(good),
                tx.sign_ins.link(link),
                tx.sign_ins.put(sign_in),
            )
        )
        told = self.told("persons", "revoke", "ana", "--reason", "lost laptop")
        self.assertEqual((told["serials"], told["tokens_revoked"]), (["0a"], 1))
        shown = self.told("persons", "show", "ana")
        self.assertEqual(
            (shown["state"], shown["groups"], shown["tokens"]), ("active", ["ops"], [])
        )
        self.assertEqual([one["revoked"] for one in shown["certificates"]], [True])
        again = self.told("persons", "revoke", "ana")
        self.assertEqual((again["serials"], again["tokens_revoked"]), ([], 0))
        self.assertIn("unknown_person", self.refused("persons", "revoke", "eve"))
        kept: list[SignIn] = []
        self.authority.change(lambda tx: kept.append(tx.sign_ins.get("s1")))
        self.assertEqual((kept[0].ended_at, kept[0].refresh), (NOW, b""))
        self.assertEqual(told["sign_ins_ended"], 1)
        (record,) = self.records("certificate.revoke")
        self.assertEqual(record["state"]["rows"][0][0], f"certificate:{good.sha256.hex()}")
        self.assertEqual(self.run_it("persons", "add", "ana").status, 0)


class SessionTests(PeopleCase):
    """`sessions`, over rows in the store; what a Proxy makes of them is seen in tests.system."""

    def setUp(self) -> None:
        super().setUp()
        ana = self.id_of("ana")
        first = Session(
            uid="a1" * 16,
            person_id=ana,
            resource_id="db1",
            kind="tcp",
            connector_id="c" * 26,
            proxy_id="p" * 26,
            decision_id="d1" * 16,
            started_at=NOW - 60,
        )
        rows = [first, evolve(first, uid="a1" * 8 + "b2" * 8, resource_id="db2")]
        self.authority.change(lambda tx: [tx.sessions.insert(one) for one in rows])

    def states(self) -> set[str]:
        """Of all sessions."""
        return {one["state"] for one in self.told("sessions", "list")}

    def test_list_and_end(self) -> None:
        """Sessions are named by how their uid begins; an end is noted until it is reported."""
        both = [one["resource"] for one in self.told("sessions", "list", "--person", "ana")]
        self.assertEqual(both, ["db1", "db2"])
        self.assertEqual(self.told("sessions", "list", "--person", "bob"), [])
        self.assertEqual(len(self.told("sessions", "list", "--resource", "db2")), 1)
        self.assertEqual(self.states(), {"proxy_away"})
        self.authority.peers.enter("p" * 26)
        self.assertEqual(self.states(), {"open"})
        for word in ("a1a", "a1a2", "ff" * 16):
            self.assertIn("unknown_session", self.refused("sessions", "end", word))
        self.assertIn("ambiguous_id", self.refused("sessions", "end", "a1a1a1a1"))
        self.assertIn("unknown_person", self.refused("sessions", "end", "--person", "eve"))
        self.assertEqual(self.run_it("sessions", "end").status, 64)
        uid = "a1" * 16
        told = self.told("sessions", "end", uid[:20], "--reason", "tidy")
        self.assertEqual(told, {"session_uids": [uid]})
        states = {one["session_uid"]: one["state"] for one in self.told("sessions", "list")}
        self.assertEqual(states[uid], "ending")
        self.assertEqual(self.authority.asked, {uid: "ended_by_operator"})
        (record,) = self.records("session.end_asked")
        self.assertEqual((record["session_uid"], record["resource_id"]), (uid, "db1"))
        self.assertEqual(len(self.told("sessions", "end", "--person", "ana")["session_uids"]), 2)

"""The local side: the dialogue before a session, its last words, and the edit of answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Denied, Malformed, SvcError
from svc.kinds.postgres.local import KEY_BYTES, PostgresDialogue, denied
from svc.kinds.postgres.messages import fields_of, message, startup_message
from svc.model.policy.requested import COMMAND_OPTIONS
from svc.model.session.ending import SessionOver
from tests.kinds.postgres.talk import GREETING, READY, complaint, error

SSL = bytes([0, 0, 0, 8, 4, 210, 22, 47])
GSS = bytes([0, 0, 0, 8, 4, 210, 22, 48])
START = startup_message({"user": "app", "database": "shop", "application_name": "psql"})
WORD = "svc_denied_" + "1" * 32
CANCEL = bytes([0, 0, 0, 16, 4, 210, 22, 46])


def versioned(data: bytes, minor: int) -> bytes:
    """The same start in another protocol 3.x."""
    return data[:6] + minor.to_bytes(2, "big") + data[8:]


class DialogueTests(SynchronousTestCase):
    """With one client."""

    def refused(self, data: bytes) -> bytes:
        """The client is refused so."""
        dialogue = PostgresDialogue()
        refusal = self.assertRaises(SvcError, dialogue.heard, data)
        self.assertIsNone(dialogue.parameters)
        said = fields_of(dialogue.refused(refusal)[5:])
        self.assertEqual(said[b"S"], b"FATAL")
        return said[b"C"]

    def test_start(self) -> None:
        """Role and database become parameters, and nothing else does."""
        dialogue = PostgresDialogue()
        self.assertEqual(
            [dialogue.heard(START[at : at + 1]) for at in range(len(START))].count(b""), len(START)
        )
        self.assertEqual(dialogue.parameters, {"database": "shop", "db_role": "app"})

    def test_database_of_the_user(self) -> None:
        """A client that names no database means the one of the role's name."""
        for settings in ({"user": "app"}, {"user": "app", "database": ""}):
            dialogue = PostgresDialogue()
            dialogue.heard(startup_message(settings))
            self.assertEqual(dialogue.parameters, {"database": "app", "db_role": "app"})

    def test_encryption_requests(self) -> None:
        """TLS is granted once; what is asked twice or comes before the answer is refused."""
        dialogue = PostgresDialogue()
        self.assertEqual((dialogue.heard(GSS), dialogue.tls), (b"N", b""))
        self.assertEqual((dialogue.heard(SSL), dialogue.tls), (b"S", b"postgresql"))
        self.assertRaises(Malformed, dialogue.heard, GSS)
        dialogue = PostgresDialogue()
        dialogue.heard(SSL)
        self.assertEqual(dialogue.heard(START), b"")
        self.assertIsNotNone(dialogue.parameters)
        self.assertEqual(self.refused(SSL + START), b"08P01")
        self.assertEqual(self.refused(SSL + SSL), b"08P01")
        dialogue = PostgresDialogue()
        dialogue.heard(SSL)
        self.assertRaises(Malformed, dialogue.heard, SSL)

    def test_versions(self) -> None:
        """A newer 3.x, and options of the protocol, are negotiated down; others are refused."""
        dialogue = PostgresDialogue()
        self.assertEqual(dialogue.heard(versioned(START, 2)), message(b"v", bytes(8)))
        self.assertIsNotNone(dialogue.parameters)
        dialogue = PostgresDialogue()
        said = dialogue.heard(startup_message({"user": "app", "_pq_.wish": "1"}))
        self.assertEqual(said, message(b"v", bytes(4) + bytes([0, 0, 0, 1]) + b"_pq_.wish\0"))
        for first in (2 << 16, 4 << 16, 0, 80877106):
            self.assertEqual(
                self.refused(START[:4] + first.to_bytes(4, "big") + START[8:]), b"0A000"
            )

    def test_refused(self) -> None:
        """What would leave the ceiling, or is no StartupMessage."""
        for settings, code in (
            ({"user": "app", "replication": "database"}, b"0A000"),
            ({"user": "app", "replication": "true"}, b"0A000"),
            ({"user": "app", "options": "-c role=postgres"}, b"0A000"),
            ({"user": "app", "role": "postgres"}, b"0A000"),
            ({"user": "app", "client_encoding": "LATIN1"}, b"0A000"),
            ({"database": "shop"}, b"28000"),
            ({}, b"28000"),
        ):
            self.assertEqual(self.refused(startup_message(settings)), code, settings)
        self.assertEqual(self.refused(START + b"Q"), b"08P01")
        self.assertEqual(self.refused((20_000).to_bytes(4, "big") + START[4:]), b"0A000")
        self.assertEqual(self.refused(b"\xff" * 8), b"0A000")
        self.assertEqual(self.refused(b"GET / HTTP/1.1\r\n\r\n"), b"0A000")
        self.assertEqual(self.refused(message(b"x", b"")[1:] + b"\0\3\0\0"), b"0A000")

    def test_accepted(self) -> None:
        """What says nothing is taken."""
        for more in ({"replication": "false"}, {"client_encoding": "'utf-8'"}, {"options": ""}):
            dialogue = PostgresDialogue()
            dialogue.heard(startup_message({"user": "app", **more}))
            self.assertIsNotNone(dialogue.parameters)

    @given(st.binary(max_size=300))
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever a program says, it is heard out, refused, or a start."""
        dialogue = PostgresDialogue()
        try:
            dialogue.heard(data)
        except SvcError as refusal:
            self.assertTrue(dialogue.refused(refusal).startswith(b"E"))

    def test_refusal(self) -> None:
        """A session that is refused is a FATAL error with reason, policies and id."""
        said = PostgresDialogue().refused(
            Denied(
                "the policy does not\nallow it",
                reason="denied",
                details={"decision_id": "d" * 32, "policies": "no-app"},
            )
        )
        fields = fields_of(said[5:])
        self.assertEqual(
            (fields[b"C"], fields[b"M"]),
            (b"42501", b"svc: the policy does not allow it (reason: denied)"),
        )
        self.assertEqual(fields[b"D"], b"Policy: no-app.")
        self.assertEqual(fields[b"H"], b"svc why " + b"d" * 32)

    def test_of_whom(self) -> None:
        """Commands end with the options by which they use the identity that was refused."""
        told = {
            "decision_id": "d" * 32,
            "request": "svc request orders",
            COMMAND_OPTIONS: " --dir b",
        }
        said = PostgresDialogue().refused(Denied("no", reason="denied", details=told))
        self.assertEqual(
            fields_of(said[5:])[b"H"].decode(),
            "To ask for access: svc request orders --dir b; "
            f"to see why: svc why {'d' * 32} --dir b",
        )
        over = SessionOver("policy_changed", "d" * 32, " --dir b")
        hint = fields_of(PostgresDialogue().ended(over)[5:])[b"H"].decode()
        self.assertEqual(hint, f"svc why {'d' * 32} --dir b")

    def test_role_without_a_credential(self) -> None:
        """The role is named, which psql may have chosen, and how to ask for another one."""
        dialogue = PostgresDialogue()
        dialogue.heard(START)
        for details, why in (({}, b""), ({"decision_id": "d" * 32}, b"; svc why " + b"d" * 32)):
            refusal = SvcError("no credential", reason="no_credential", details=details)
            fields = fields_of(dialogue.refused(refusal)[5:])
            self.assertEqual(fields[b"C"], b"28000")
            self.assertEqual(fields[b"D"], b'The role that was asked for is "app".')
            self.assertEqual(fields[b"H"], b"Name another role: --role of svc db, -U of psql" + why)

    def test_end(self) -> None:
        """A cut session says why between two messages, and nothing amid one."""
        dialogue = PostgresDialogue()
        over = SessionOver("policy_changed", "d" * 32)
        row = message(b"D", bytes(100))
        dialogue.answered(READY + row)
        fields = fields_of(dialogue.ended(over)[5:])
        self.assertEqual((fields[b"C"], fields[b"S"]), (b"57P01", b"FATAL"))
        self.assertIn(b"policy_changed", fields[b"M"])
        for at in range(1, len(row)):
            dialogue.answered(row[:at])
            self.assertEqual(dialogue.ended(over), b"")
            dialogue.answered(row[at:])
            self.assertTrue(dialogue.ended(over))


class CancelTests(SynchronousTestCase):
    """How a client learns the key of its session, and what it does with it."""

    def test_key(self) -> None:
        """Ours is told once, before the first ReadyForQuery, however the answers are cut."""
        for step in (1, 3, 7, len(GREETING)):
            dialogue = PostgresDialogue()
            got = b"".join(
                dialogue.answered(GREETING[at : at + step]) for at in range(0, len(GREETING), step)
            )
            said = message(b"K", dialogue.key)
            self.assertEqual(got, GREETING.removesuffix(READY) + said + READY)
            self.assertEqual(dialogue.answered(READY + READY), READY + READY)
            self.assertTrue(dialogue.ended(SessionOver("policy_changed")))

    def test_keys_differ(self) -> None:
        """No two sessions have one, and what stands for a process id is positive."""
        keys = [PostgresDialogue().key for _ in range(100)]
        self.assertEqual(len(set(keys)), 100)
        self.assertEqual({len(key) for key in keys}, {KEY_BYTES})
        self.assertTrue(all(key[0] < 0x80 for key in keys))

    def test_request(self) -> None:
        """A CancelRequest, encryption asked for before it or not, names the key that it is for."""
        key = bytes(range(8))
        for before in ((), (SSL,), (GSS, SSL)):
            dialogue = PostgresDialogue()
            for one in before:
                dialogue.heard(one)
            self.assertEqual(dialogue.heard(CANCEL + key[:3]), b"")
            self.assertEqual(dialogue.cancels, b"")
            self.assertEqual(dialogue.heard(key[3:]), b"")
            self.assertEqual((dialogue.cancels, dialogue.parameters), (key, None))

    def test_malformed(self) -> None:
        """One of another length, or with more behind it, cancels nothing."""
        for said in (
            CANCEL + bytes(9),
            bytes([0, 0, 0, 20]) + CANCEL[4:] + bytes(12),
            bytes([0, 0, 0, 12]) + CANCEL[4:] + bytes(4),
        ):
            dialogue = PostgresDialogue()
            self.assertRaises(Malformed, dialogue.heard, said)
            self.assertEqual(dialogue.cancels, b"")


class DeniedTests(SynchronousTestCase):
    """The edit of answers."""

    def test_denied(self) -> None:
        """The server's complaint becomes a permission error; severity stays the server's."""
        said = denied(
            complaint(WORD), {"decision": "1" * 32, "policies": "a\n b", "reason": "denied"}
        )
        fields = fields_of(said[5:])
        self.assertEqual(int.from_bytes(said[1:5], "big"), len(said) - 1)
        self.assertEqual((fields[b"C"], fields[b"S"]), (b"42501", b"ERROR"))
        self.assertEqual(fields[b"D"], b"Policy: a b. The statement did not reach the server.")
        self.assertNotIn(b"P", fields)

    def test_nothing_else(self) -> None:
        """A Proxy cannot make anything else into a denial, or a denial into another's."""
        good = {"decision": "1" * 32}
        for came, values in (
            (complaint(WORD), {"decision": "2" * 32}),
            (complaint(WORD), {}),
            (error("42P01", WORD), good),
            (error("42601", "other"), good),
            (message(b"D", bytes(10)), good),
        ):
            self.assertRaises(Malformed, denied, came, values)

    def test_without_policies(self) -> None:
        """A denial by default says so."""
        said = fields_of(denied(complaint(WORD), {"decision": "1" * 32})[5:])
        self.assertTrue(said[b"D"].startswith(b"No policy allows it."))

"""The kind by itself: what every kind keeps, its gate, and the edits that are its own."""

from __future__ import annotations

from svc_redis.local import denied
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed, SvcError
from svc.testing.contracts.kind import KindContract
from svc.testing.gating import PlayedSession


class RedisTests(KindContract, SynchronousTestCase):
    """The contract, the gate in memory, and a denial's text."""

    word = "redis"
    good_parameters = {"database": "2"}

    def played(self) -> PlayedSession:
        """A session in which whoever reads may, but for one key."""
        return PlayedSession(
            self.kind,
            lambda action, context: action == "redisRead" and context["key"] != "b",
            self.good_parameters,
        )

    def test_each_in_its_turn(self) -> None:
        """What is denied is answered where its answer belongs, and all is recorded."""
        played = self.played()
        played.person_says(b"GET a\r\nGET b\r\nSET a 1\r\nPING\r\n")
        self.assertEqual(played.target_heard, b"GET a\r\n" + 3 * b"SVC_DENIED\r\n")
        played.target_says(b"$3\r\none\r\n" + 3 * b"-ERR unknown\r\n")
        first, _, rest = played.person_heard.partition(b"one\r\n")
        self.assertEqual(first, b"$3\r\n")
        self.assertEqual(rest.count(b"-NOPERM denied by played; run `svc why "), 2)
        self.assertTrue(rest.endswith(b"-NOPERM only GET and SET pass here\r\n"))
        self.assertEqual(
            [(one.event.name, one.cedar_action, one.decision) for one in played.records],
            [
                ("request.decision", "redisRead", "allow"),
                ("request.decision", "redisRead", "deny"),
                ("request.decision", "redisWrite", "deny"),
                ("redis.unknown", None, None),
                ("request.decision", "redisWrite", "deny"),
            ],
        )
        assert played.records[0].request is not None
        self.assertEqual(played.records[0].request.context["database"], "2")
        played.person_ends()
        played.target_ends()
        self.assertEqual((played.is_over, played.failure), (True, None))

    def test_whose_identity(self) -> None:
        """The command that a denial tells to type uses the identity that was denied."""
        told = denied(b"", {"decision": "d" * 32, "command_options": " --dir b"})
        self.assertTrue(told.endswith(b"; run `svc why " + b"d" * 32 + b" --dir b`\r\n"), told)

    def test_what_redis_reads_otherwise(self) -> None:
        """A line that is two commands to Redis, or names another key there, is not passed."""
        for said in (
            b"GET a\nSET a 1\r\n",
            b"GET  b\r\n",
            b"GET \tb\r\n",
            b'GET "b"\r\n',
            b'GET "\\x62"\r\n',
            b"GET 'b'\r\n",
            b"GET a\0b\r\n",
            b"GET \r\n",
        ):
            played = self.played()
            played.person_says(said)
            self.assertEqual(played.target_heard, b"SVC_DENIED\r\n", said)

    def test_not_recorded(self) -> None:
        """What cannot be recorded neither passes nor is answered: it ends the session."""
        for said in (b"GET a\r\n", b"GET b\r\n", b"SET a 1\r\n", b"PING\r\n"):
            played = self.played()
            played.unrecordable = SvcError("the disk is full", reason="spool_full")
            played.person_says(said)
            assert played.failure is not None, said
            self.assertTrue(played.failure.check(SvcError))
            heard = (played.target_heard, played.person_heard, played.records)
            self.assertEqual(heard, (b"", b"", []), said)
            if said != b"PING\r\n":  # of which a record of another form comes first
                self.assertEqual(played.failure.value.reason, "not_recorded")

    def test_a_negative_length(self) -> None:
        """A server that answers nonsense loses its session, and nothing else."""
        played = self.played()
        played.person_says(b"GET a\r\n")
        played.target_says(b"$-100\r\n")
        assert played.failure is not None
        self.assertTrue(played.failure.check(Malformed))

    def test_an_answer_that_nobody_asked_for(self) -> None:
        """It ends the session: whose it is cannot be told."""
        played = self.played()
        played.target_says(b"+OK\r\n")
        assert played.failure is not None
        self.assertTrue(played.failure.check(Malformed))
        self.assertEqual(played.person_heard, b"")

    def test_a_denial_is_one_line(self) -> None:
        """Whatever a Proxy says of a denial, it ends no answer and begins none."""
        said = denied(b"-ERR\r\n", {"decision": "d1\r\n+OK", "policies": "p\n\u20ac"})
        self.assertEqual(said, b"-NOPERM denied by p ?; run `svc why d1 +OK`\r\n")

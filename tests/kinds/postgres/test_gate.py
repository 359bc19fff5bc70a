"""The gate in memory: what passes, what is denied in which place, and what ends a session."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import Malformed, SpoolFull
from svc.kinds.postgres.messages import fields_of, message
from tests.kinds.postgres.talk import (
    BOUND,
    CLOSED,
    FLUSH,
    PARSED,
    READY,
    SYNC,
    Talk,
    bind,
    close,
    complaint,
    describe,
    done,
    error,
    execute,
    kinds,
    parse,
    parts,
    query,
    word_of,
)


class SimpleTests(SynchronousTestCase):
    """The simple protocol."""

    def test_passes(self) -> None:
        """What is allowed passes as it is, with one record."""
        talk = Talk()
        asked = query("SELECT * FROM sales.orders")
        self.assertEqual(talk.asks(asked), asked)
        answer = message(b"T", b"\0\0") + message(b"D", b"\0\0") + done("SELECT 1") + READY
        self.assertEqual(talk.answers(answer), answer)
        self.assertEqual(talk.decided, [("dbQuery", "allow")])
        record = talk.played.records[0]
        assert record.request is not None
        context = record.request.context
        self.assertEqual(set(context["tables_read"]), {"sales.orders"})  # type: ignore[arg-type]
        self.assertEqual((context["database"], context["db_role"]), ("shop", "app"))

    def test_byte_by_byte(self) -> None:
        """Where the pieces are cut does not matter."""
        talk = Talk()
        asked = query("SELECT 1") + query("DROP TABLE a") + query("SELECT 2")
        sent = b"".join(talk.asks(asked[at : at + 1]) for at in range(len(asked)))
        self.assertEqual(kinds(sent), "QQQ")
        self.assertNotIn(b"DROP", sent)
        answer = done("SELECT 1") + READY + complaint(word_of(sent)) + READY + done("SELECT 1")
        got = b"".join(talk.answers(answer[at : at + 1]) for at in range(len(answer)))
        self.assertEqual(kinds(got), "CZEZC")
        self.assertIn(b"C42501\0", got)

    def test_denied(self) -> None:
        """The text stays here; the server's complaint becomes the denial, without a position."""
        talk = Talk()
        sent = talk.asks(query("DROP TABLE a"))
        self.assertEqual([kind for kind, _ in parts(sent)], ["Q"])
        word = word_of(sent)
        self.assertEqual(sent, query(word))
        got = talk.answers(complaint(word) + READY)
        (_, body), ready = parts(got)
        self.assertEqual(ready, ("Z", b"I"))
        fields = fields_of(body)
        self.assertEqual(fields[b"C"], b"42501")
        self.assertEqual(fields[b"S"], b"ERROR")
        self.assertNotIn(b"P", fields)
        self.assertEqual(fields[b"H"].decode(), f"svc why {word.removeprefix('svc_denied_')}")
        self.assertIn(b"played", fields[b"D"])
        self.assertEqual(talk.decided, [("dbQuery", "deny")])

    def test_decided_whole(self) -> None:
        """Several statements in one text pass together or not at all."""
        talk = Talk()
        self.assertNotIn(b"SELECT", talk.asks(query("SELECT 1; DROP TABLE a; COMMIT")))

    def test_other_errors(self) -> None:
        """An error of the server's that names another word is passed as it is."""
        talk = Talk()
        talk.asks(query("SELECT 1"))
        for said in (
            complaint("svc_denied_" + "f" * 32),
            error("42P01", "svc_denied_"),
            error("42601", "svc_denied_"),
        ):
            self.assertEqual(talk.answers(said), said)

    def test_no_room_for_its_record(self) -> None:
        """What cannot be recorded does not pass, and ends the session, whichever message it is."""
        for asked in (
            query("SELECT 1"),
            query("DROP TABLE a"),
            parse("", "SELECT 1"),
            bind("", "not_there"),
            execute("not_there"),
        ):
            talk = Talk()
            talk.played.unrecordable = SpoolFull("the queue is full", retry_after=1.0)
            self.assertEqual(talk.asks(asked), b"")
            failure = talk.played.failure
            assert failure is not None
            self.assertEqual(getattr(failure.value, "reason", ""), "not_recorded")
            self.assertEqual(talk.decided, [])

    def test_opaque(self) -> None:
        """What cannot be read is another action, which this policy does not allow."""
        talk = Talk()
        texts = ("SELEC 1", "DO $$ BEGIN END $$", "EXECUTE p", "SELECT '" + "x" * 65_600 + "'")
        for text in texts:
            self.assertIn(b"svc_denied_", talk.asks(query(text)))
        self.assertEqual(talk.decided, [("dbQueryOpaque", "deny")] * len(texts))
        talk.allows = lambda action, context: True
        self.assertEqual(talk.asks(query(texts[0])), query(texts[0]))

    def test_syntax(self) -> None:
        """What the parser cannot read is told as PostgreSQL tells it, and is denied."""
        talk = Talk()
        word = word_of(talk.asks(query("SELECT 1 FORM x y")))
        ((_, body), _) = parts(talk.answers(complaint(word) + READY))
        fields = fields_of(body)
        self.assertEqual((fields[b"C"], fields[b"P"]), (b"42601", b"15"))
        self.assertEqual(fields[b"M"], b'syntax error at or near "x"')
        self.assertIn(b"svc cannot tell all that it would do: svc's parser", fields[b"D"])
        self.assertEqual(fields[b"H"].decode(), f"svc why {word.removeprefix('svc_denied_')}")
        self.assertEqual(talk.decided, [("dbQueryOpaque", "deny")])

    def test_too_long_to_hold(self) -> None:
        """A text that nobody holds is denied by its beginning, and none of it passes."""
        talk = Talk()
        sent = talk.asks(query("SELECT '" + "x" * 500_000 + "'") + query("SELECT 1"))
        self.assertEqual(kinds(sent), "QQ")
        self.assertLess(len(sent), 200)
        talk.allows = lambda action, context: True
        asked = query("SELECT '" + "x" * 500_000 + "'")
        self.assertEqual(talk.asks(asked), asked)

    def test_ends_are_never_denied(self) -> None:
        """Nobody is kept in a transaction, whatever the policy says."""
        talk = Talk(lambda action, context: False)
        for text in (
            "COMMIT",
            "rollback work;",
            "ROLLBACK TO SAVEPOINT a",
            'rollback to "_pg3_1"',
            "END",
        ):
            self.assertEqual(talk.asks(query(text)), query(text))
        self.assertEqual(talk.decided, [])
        self.assertIn(b"svc_denied_", talk.asks(query("COMMIT; SELECT 1")))

    def test_function_call(self) -> None:
        """The protocol's own call of a function is denied, unless what is opaque is allowed."""
        talk = Talk()
        call = message(b"F", bytes(14))
        sent = talk.asks(call)
        self.assertEqual(kinds(sent), "Q")
        self.assertEqual(kinds(talk.answers(complaint(word_of(sent)) + READY)), "EZ")
        talk.allows = lambda action, context: True
        self.assertEqual(talk.asks(call), call)

    def test_copy_in(self) -> None:
        """Rows pass without being read; what follows them is decided again."""
        talk = Talk()
        asked = query("COPY a FROM STDIN")
        self.assertEqual(talk.asks(asked), asked)
        begins = message(b"G", b"\0\0\0")
        self.assertEqual(talk.answers(begins), begins)
        rows = message(b"d", b"DROP TABLE a;\n") + message(b"c", b"")
        self.assertEqual(talk.asks(rows), rows)
        talk.answers(done("COPY 1") + READY)
        self.assertIn(b"svc_denied_", talk.asks(query("DROP TABLE a")))
        self.assertIsNone(talk.played.failure)

    def test_notices_at_any_time(self) -> None:
        """Notices, notifications and settings come when they come."""
        talk = Talk()
        said = message(b"N", b"SNOTICE\0\0") + message(b"A", bytes(6)) + message(b"S", b"a\0b\0")
        self.assertEqual(talk.answers(said), said)


class PreparedTests(SynchronousTestCase):
    """SQL's own PREPARE and EXECUTE."""

    def test_decided_by_its_text(self) -> None:
        """A PREPARE and its EXECUTE are decided by what the prepared text does."""
        talk = Talk(lambda action, context: "drops" not in context["tables_written"])  # type: ignore[operator]
        for text, tag in (
            ("PREPARE p AS SELECT * FROM a", "PREPARE"),
            ("EXECUTE p", "SELECT 1"),
            ("DEALLOCATE p", "DEALLOCATE"),
        ):
            self.assertEqual(talk.asks(query(text)), query(text))
            talk.answers(done(tag) + READY)
        for text in ("PREPARE q AS DELETE FROM drops", "PREPARE a AS SELECT 1; DELETE FROM drops"):
            word = word_of(talk.asks(query(text)))
            talk.answers(complaint(word) + READY)
        facts = talk.played.records[1].request
        assert facts is not None
        self.assertEqual(set(facts.context["tables_read"]), {"a"})  # type: ignore[arg-type]

    def test_unknown(self) -> None:
        """A name that was not prepared, or no longer is, is opaque."""
        talk = Talk()
        word = word_of(talk.asks(query("EXECUTE p")))
        talk.answers(complaint(word) + READY)
        for text, tag in (("PREPARE p AS SELECT 1", "PREPARE"), ("DEALLOCATE p", "DEALLOCATE")):
            talk.asks(query(text))
            talk.answers(done(tag) + READY)
        talk.asks(query("EXECUTE p"))
        self.assertEqual(talk.decided[-1], ("dbQueryOpaque", "deny"))

    def test_failed(self) -> None:
        """A PREPARE that the server did not take leaves its name with what it stood for."""
        talk = Talk(lambda action, context: action == "dbQuery")
        talk.asks(query("PREPARE p AS SELECT * FROM a"))
        talk.answers(done("PREPARE") + READY)
        talk.asks(query("DROP TABLE x; PREPARE p AS SELECT * FROM b; PREPARE q AS SELECT 1"))
        talk.asks(query("EXECUTE p"))
        self.assertEqual(self.read(talk), {"a", "b"})  # either, as long as nobody knows
        talk.answers(done("DROP TABLE") + error("42P05", "it exists") + READY)
        talk.asks(query("EXECUTE p"))
        self.assertEqual(self.read(talk), {"a"})
        talk.asks(query("EXECUTE q"))
        self.assertEqual(talk.decided[-1], ("dbQueryOpaque", "deny"))

    def test_in_one_text(self) -> None:
        """What a text prepares, it may execute itself."""
        talk = Talk()
        asked = query("PREPARE p AS SELECT * FROM a; EXECUTE p")
        self.assertEqual(talk.asks(asked), asked)
        self.assertEqual(self.read(talk), {"a"})

    def test_one_name_space(self) -> None:
        """The protocol's statements and SQL's have the same names."""
        talk = Talk()
        talk.asks(parse("s", "SELECT * FROM a") + SYNC)
        talk.answers(PARSED + READY)
        talk.asks(query("EXECUTE s"))
        self.assertEqual(self.read(talk), {"a"})
        talk.answers(done("SELECT 0") + READY)
        talk.asks(query("PREPARE p AS SELECT * FROM b"))
        talk.answers(done("PREPARE") + READY)
        talk.asks(bind("", "p") + execute() + SYNC)
        self.assertEqual(self.read(talk), {"b"})

    def test_prepared_by_the_protocol(self) -> None:
        """A PREPARE that the protocol executes: its name may stand for it, or for what it was."""
        talk = Talk()
        talk.asks(query("PREPARE p AS SELECT * FROM a"))
        talk.answers(done("PREPARE") + READY)
        talk.asks(parse("", "PREPARE p AS SELECT * FROM b") + bind("", "") + execute() + SYNC)
        talk.asks(query("EXECUTE p"))
        self.assertEqual(self.read(talk), {"a", "b"})
        talk.asks(parse("e", "EXECUTE p") + bind("", "e") + execute() + SYNC)
        self.assertEqual(self.read(talk), {"a", "b"})
        talk.asks(query("EXECUTE e"))  # of what executes another
        self.assertEqual(talk.decided[-1], ("dbQueryOpaque", "deny"))

    def test_executed_before_a_query(self) -> None:
        """The tag of an Execute settles nothing of the Query that was sent behind it."""
        for text, tag in (("PREPARE x AS SELECT 1", "PREPARE"), ("DEALLOCATE x", "DEALLOCATE")):
            talk = Talk(lambda action, context: action == "dbQuery")
            talk.asks(query("PREPARE x AS SELECT 2") + query("PREPARE y AS UPDATE a SET i = 1"))
            talk.answers((done("PREPARE") + READY) * 2)
            if tag == "PREPARE":
                talk.asks(query("DEALLOCATE x"))
                talk.answers(done("DEALLOCATE") + READY)
            talk.asks(parse("", text) + bind("", "") + execute())
            talk.asks(query("PREPARE y AS SELECT 1"))
            talk.answers(PARSED + BOUND + done(tag))
            self.only_writes(talk)
            talk.answers(error("42P05", "it exists") + READY)
            self.assertIsNone(talk.played.failure, tag)
            self.only_writes(talk)

    def test_executed_behind_a_deallocation(self) -> None:
        """What an Execute prepares anew is not forgotten with what the name stood for before."""
        for text in ("DEALLOCATE y", "DEALLOCATE ALL"):
            talk = Talk(lambda action, context: action == "dbQuery")
            prepare = "PREPARE y AS UPDATE a SET i = 1"
            talk.asks(query(prepare))
            talk.answers(done("PREPARE") + READY)
            talk.asks(query(text) + parse("", prepare) + bind("", "") + execute() + SYNC)
            talk.answers(done(text.removesuffix(" y")) + READY)
            talk.answers(PARSED + BOUND + done("PREPARE") + READY)
            talk.asks(query("PREPARE y AS SELECT 1"))
            self.only_writes(talk)

    def only_writes(self, talk: Talk) -> None:
        """An EXECUTE of y is decided as the write that it may be."""
        talk.allows = lambda action, context: "write" not in context["effects"]  # type: ignore[operator]
        talk.played.version += 1
        self.assertIn(b"svc_denied_", talk.asks(query("EXECUTE y")))
        request = talk.played.records[-1].request
        assert request is not None
        self.assertEqual(set(request.context["tables_written"]), {"a"})  # type: ignore[arg-type]

    def read(self, talk: Talk) -> set[str]:
        """The tables of the newest record."""
        request = talk.played.records[-1].request
        assert request is not None
        return set(request.context["tables_read"])  # type: ignore[arg-type]


class ExtendedTests(SynchronousTestCase):
    """The extended protocol, where the server skips what follows an error."""

    def test_passes(self) -> None:
        """A whole round passes, and is one request: decided at its Parse, and recorded once."""
        talk = Talk()
        asked = parse("", "SELECT 1") + bind("", "") + describe("") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)
        answer = PARSED + BOUND + message(b"n", b"") + done("SELECT 1") + READY
        self.assertEqual(talk.answers(answer), answer)
        self.assertEqual(talk.decided, [("dbQuery", "allow")])

    def test_each_run_is_recorded(self) -> None:
        """What runs again is decided and recorded again, in the same second too."""
        talk = Talk()
        talk.asks(parse("s", "SELECT 1") + SYNC)
        talk.answers(PARSED + READY)
        talk.asks((bind("", "s") + execute()) * 3 + SYNC)
        self.assertEqual(len(talk.decided), 3)
        talk.answers((BOUND + done("SELECT 1")) * 3 + READY)
        talk.asks(bind("p", "s") + execute("p", 1) * 3 + SYNC)
        self.assertEqual(len(talk.decided), 6)

    def test_policy_changes_amid_a_round(self) -> None:
        """The verdict of a Parse is no longer good for its Bind."""
        talk = Talk()
        talk.asks(parse("", "SELECT 1"))
        talk.played.version += 1
        talk.allows = lambda action, context: False
        self.assertEqual(kinds(talk.asks(bind("", "") + SYNC)), "PS")

    def test_denied_parse(self) -> None:
        """The server fails the Parse, skips to Sync, and the session goes on."""
        talk = Talk()
        sent = talk.asks(parse("s", "DROP TABLE a") + bind("", "s") + execute() + SYNC)
        self.assertNotIn(b"DROP", sent)
        # The Bind is of a name that nothing stands behind.
        self.assertEqual(kinds(sent), "PBPS")
        word = word_of(sent)
        got = talk.answers(complaint(word) + READY)
        self.assertEqual(kinds(got), "EZ")
        self.assertIn(b"C42501\0", got)
        asked = parse("", "SELECT 1") + bind("", "") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)
        self.assertEqual(kinds(talk.answers(PARSED + BOUND + done("SELECT 1") + READY)), "12CZ")

    def test_bound_after_another_was_denied(self) -> None:
        """Gate and Connector agree that a Bind after a denied Parse is a request of its own."""
        talk = Talk()
        talk.asks(parse("s", "SELECT 1") + SYNC)
        talk.answers(PARSED + READY)
        sent = talk.asks(parse("t", "DROP TABLE a") + SYNC)
        talk.answers(complaint(word_of(sent)) + READY)
        asked = bind("", "s") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)
        self.assertEqual(kinds(talk.answers(BOUND + done("SELECT 1") + READY)), "2CZ")

    def test_denied_later(self) -> None:
        """A statement that was prepared before the policy changed is denied at its next Bind."""
        talk = Talk()
        talk.asks(parse("s", "SELECT 1") + SYNC)
        talk.answers(PARSED + READY)
        talk.played.version += 1
        talk.allows = lambda action, context: False
        talk.played.version += 1
        sent = talk.asks(bind("", "s") + execute() + SYNC)
        self.assertEqual(kinds(sent), "PPS")
        self.assertEqual(sent[5:16], b"svc_denied\0")
        word = word_of(sent)
        self.assertEqual(kinds(talk.answers(complaint(word) + READY)), "EZ")
        talk.allows = lambda action, context: True
        asked = bind("", "s") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)

    def test_denied_at_execute(self) -> None:
        """A portal that was made before the policy changed is denied at its Execute."""
        talk = Talk()
        talk.asks(parse("s", "SELECT 1") + bind("p", "s") + execute("p", 1) + FLUSH)
        talk.answers(PARSED + BOUND + message(b"s", b""))
        talk.allows = lambda action, context: False
        talk.played.version += 1
        sent = talk.asks(execute("p", 1) + SYNC)
        self.assertEqual(kinds(sent), "PS")
        got = talk.answers(complaint(word_of(sent)) + READY)
        self.assertIn(b"C42501\0", got)

    def test_name_used_again_in_a_failed_batch(self) -> None:
        """A map that believed requests would take the old text for the harmless new one."""
        talk = Talk(lambda action, context: True)
        talk.asks(parse("s", "DROP TABLE a") + SYNC)
        talk.answers(PARSED + READY)
        talk.played.version += 1
        talk.allows = lambda action, context: "ddl" not in context["effects"]  # type: ignore[operator]
        # The Parse fails at the server, so it skips the Close and the new Parse.
        talk.asks(parse("x", "SELECT no_such") + close("s") + parse("s", "SELECT 1") + SYNC)
        sent = talk.asks(bind("", "s") + execute() + SYNC)
        self.assertEqual(kinds(sent)[0], "P")  # denied: the old text may still stand there
        got = talk.answers(error("42703", "no column") + READY)
        self.assertEqual(kinds(got), "EZ")
        got = talk.answers(complaint(word_of(sent)) + READY)
        self.assertIn(b"C42501\0", got)
        self.assertEqual(kinds(talk.asks(bind("", "s") + SYNC)), "PS")

    def test_name_closed_and_used_again(self) -> None:
        """Once the server has settled it, a name stands for its new text alone."""
        talk = Talk(lambda action, context: True)
        talk.asks(parse("s", "DROP TABLE a") + SYNC)
        talk.answers(PARSED + READY)
        talk.played.version += 1
        talk.allows = lambda action, context: "ddl" not in context["effects"]  # type: ignore[operator]
        asked = close("s") + parse("s", "SELECT 1") + SYNC
        self.assertEqual(talk.asks(asked), asked)
        talk.answers(CLOSED + PARSED + READY)
        asked = bind("", "s") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)

    def test_bind_in_the_batch_of_its_parse(self) -> None:
        """There the newest text alone counts: if its Parse is skipped, so is the Bind."""
        talk = Talk(lambda action, context: True)
        talk.asks(parse("", "DROP TABLE a") + SYNC)
        talk.answers(PARSED + READY)
        talk.played.version += 1
        talk.allows = lambda action, context: "ddl" not in context["effects"]  # type: ignore[operator]
        asked = parse("", "SELECT 1") + bind("", "") + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)

    def test_unknown_names(self) -> None:
        """A statement not prepared here is not known to the server; a portal not made is opaque."""
        talk = Talk()
        sent = talk.asks(bind("", "nobody", bytes(100_000)) + SYNC)
        self.assertEqual(kinds(sent), "BS")
        self.assertIn(b"svc_unknown\0", sent)
        self.assertEqual(kinds(talk.answers(error("26000", "no statement") + READY)), "EZ")
        self.assertEqual(kinds(talk.asks(execute("cursor") + SYNC)), "PS")
        self.assertEqual(talk.decided[-1], ("dbQueryOpaque", "deny"))

    def test_unknown_name_behind_an_error(self) -> None:
        """A Bind that the server turns out to read past is owed no answer."""
        talk = Talk()
        word = word_of(talk.asks(parse("s", "DROP TABLE a")))
        binding = bind("", "s", bytes(5000))
        talk.asks(binding[:3000])
        talk.answers(complaint(word))
        talk.asks(binding[3000:] + execute() + SYNC)
        self.assertEqual(kinds(talk.answers(READY)), "Z")
        self.assertIsNone(talk.played.failure)

    def test_close_behind_an_error(self) -> None:
        """A Close whose end comes after the server's error is read past, and owed no answer."""
        talk = Talk()
        word = word_of(talk.asks(parse("s", "DROP TABLE a")))
        talk.asks(close("s")[:6])
        talk.answers(complaint(word))
        talk.asks(close("s")[6:] + SYNC)
        self.assertEqual(kinds(talk.answers(READY)), "Z")
        self.assertIsNone(talk.played.failure)

    def test_skipped_by_the_server(self) -> None:
        """What the server reads past is not passed; the log says that it was skipped."""
        talk = Talk()
        talk.asks(parse("", "SELECT no_such") + FLUSH)
        talk.answers(error("42703", "no column"))
        before = len(talk.decided)
        sent = talk.asks(parse("", "SELECT 1") + bind("", "") + query("SELECT 2") + SYNC)
        self.assertEqual(kinds(sent), "S")
        self.assertEqual(talk.decided[before:], [("dbQueryOpaque", "deny")] * 3)
        self.assertEqual([one.reason for one in talk.played.records[before:]], ["skipped"] * 3)
        self.assertEqual(kinds(talk.answers(READY)), "Z")

    def test_deallocated(self) -> None:
        """DISCARD ALL and DEALLOCATE ALL make every settled name unknown."""
        talk = Talk()
        for tag in ("DISCARD ALL", "DEALLOCATE ALL"):
            talk.asks(parse("s", "SELECT 1") + SYNC)
            talk.answers(PARSED + READY)
            talk.asks(query(tag))
            talk.answers(done(tag) + READY)
            self.assertIn(b"svc_unknown\0", talk.asks(bind("", "s") + SYNC))
            talk.answers(error("26000", "no statement") + READY)

    def test_many_owed(self) -> None:
        """No more is read than what is kept of answers that are owed; then it goes on."""
        talk = Talk()
        talk.asks(parse("s", "SELECT 1") + SYNC)
        talk.answers(PARSED + READY)
        asked = describe("s") * 20_000 + SYNC
        first = talk.asks(asked)
        self.assertLess(len(first), len(asked))
        self.assertEqual(len(kinds(first)), 16_384)
        talk.answers(message(b"n", b"") * 16_000)
        self.assertEqual(first + talk.sent(), asked)

    def test_large_bind(self) -> None:
        """Parameters pass in whatever size; those of a denied Bind do not pass at all."""
        talk = Talk()
        asked = parse("s", "SELECT $1") + bind("", "s", bytes(1_000_000)) + execute() + SYNC
        self.assertEqual(talk.asks(asked), asked)
        talk.answers(PARSED + BOUND + done("SELECT 1") + READY)
        talk.allows = lambda action, context: False
        talk.played.version += 1
        sent = talk.asks(bind("", "s", bytes(1_000_000)) + SYNC)
        self.assertEqual(kinds(sent), "PS")

    def test_copy_in_the_extended_protocol(self) -> None:
        """Sync is ignored while rows are taken, and counts again afterwards."""
        talk = Talk()
        talk.asks(parse("", "COPY a FROM STDIN") + bind("", "") + execute() + SYNC)
        talk.answers(PARSED + BOUND + message(b"G", b"\0\0\0"))
        talk.asks(message(b"d", b"1\n") + message(b"c", b"") + SYNC)
        got = talk.answers(done("COPY 1") + READY)
        self.assertEqual(kinds(got), "CZ")
        self.assertIsNone(talk.played.failure)
        asked = query("SELECT 1")
        self.assertEqual(talk.asks(asked), asked)
        talk.answers(done("SELECT 1") + READY)
        self.assertIsNone(talk.played.failure)


class BrokenTests(SynchronousTestCase):
    """What ends a session."""

    def ended(self, talk: Talk) -> None:
        """It was, as malformed."""
        assert talk.played.failure is not None
        self.assertTrue(talk.played.failure.check(Malformed))

    def test_requests(self) -> None:
        """A request that the protocol does not have, or of an impossible length."""
        for said in (
            b"Z\0\0\0\x04",
            b"p\0\0\0\x04",
            b"\x16\x03\x01\0\0",
            b"Q\0\0\0\x03",
            b"Q\x80\0\0\0",
            b"Q\xff\xff\xff\xff",
            message(b"Q", b"SELECT 1"),
            message(b"P", b"name"),
            message(b"P", b"name\0SELECT 1"),
            message(b"B", b"portal"),
            message(b"B", b"x" * 5000),
            message(b"C", b""),
            parse("n" * 64, "SELECT 1"),
            parse("n" * 64, "SELECT '" + "x" * 100_000 + "'"),
            bind("", "n" * 64),
            bind("n" * 64, ""),
            execute("n" * 64),
            close("n" * 64),
        ):
            talk = Talk()
            talk.asks(said)
            self.ended(talk)
            self.assertEqual(talk.sent(), b"")

    def test_answers(self) -> None:
        """An answer that nobody asked for: whose it is cannot be told."""
        for said in (PARSED, BOUND, CLOSED, READY, message(b"G", b""), b"Z\0\0\0\x00"):
            talk = Talk()
            talk.answers(said)
            self.ended(talk)

    def test_another_answer(self) -> None:
        """One that does not fit what is owed."""
        talk = Talk()
        talk.asks(parse("", "SELECT 1") + SYNC)
        talk.answers(BOUND)
        self.ended(talk)

    def test_longest_name(self) -> None:
        """A name that the server compares whole passes."""
        talk = Talk()
        name = "n" * 63
        asked = parse(name, "SELECT 1") + bind(name, name) + execute(name) + close(name) + SYNC
        self.assertEqual(talk.asks(asked), asked)
        self.assertIsNone(talk.played.failure)

    def test_much_named(self) -> None:
        """What is kept of statements and of portals is limited by its size too."""
        texts = [
            "SELECT " + ",".join(f"(SELECT 1 FROM table_{n}_{k})" for k in range(250))
            for n in range(40)
        ]
        talk = Talk()
        talk.asks(b"".join(parse(f"s{n}", text) for n, text in enumerate(texts * 12)))
        self.ended(talk)
        talk = Talk()
        for text in texts * 12:
            talk.asks(parse("", text) + FLUSH)
            talk.answers(PARSED)
        self.assertIsNone(talk.played.failure)
        for n in range(480):
            talk.asks(bind(f"p{n}", "") + FLUSH)
            talk.answers(BOUND)
        self.ended(talk)

    def test_many_names(self) -> None:
        """A session prepares no more statements than we keep."""
        talk = Talk()
        talk.asks(b"".join(parse(f"s{n}", "SELECT 1") for n in range(4097)))
        self.ended(talk)

    def test_a_person_who_leaves(self) -> None:
        """It is over at once, though the server has not answered yet."""
        talk = Talk()
        self.assertEqual(kinds(talk.asks(query("SELECT pg_sleep(300)"))), "Q")
        talk.played.person_ends()
        said = talk.played.is_asked_no_more, talk.played.is_over, talk.played.failure
        self.assertEqual(said, (True, True, None))

    def test_a_server_that_leaves(self) -> None:
        """A request whose record is being written then is told to the Connector all the same."""
        talk, written = Talk(), Deferred[None]()
        session = talk.played.session
        write, session.write = session.write, lambda decided, uid: written
        talk.asks(query("SELECT 1"))
        talk.played.target_ends()
        self.assertEqual((session.ending, talk.played.is_over), ("", False))
        session.write = write
        written.callback(None)
        talk.played.person_ends()
        said = session.ending, talk.played.is_answered, talk.played.failure, talk.played.is_over
        self.assertEqual(said, ("", True, None, True))

    def test_ends_in_order(self) -> None:
        """Terminate passes, and both ways end."""
        talk = Talk()
        self.assertEqual(kinds(talk.asks(message(b"X", b""))), "X")
        talk.played.person_ends()
        talk.played.target_ends()
        self.assertEqual((talk.played.is_over, talk.played.failure), (True, None))

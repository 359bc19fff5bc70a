"""Log lines: one event, one line, the profile on each, nothing that could forge another."""

from __future__ import annotations

import json
import logging
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, fail
from twisted.logger import LogEvent, Logger, LogLevel, LogPublisher, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import SvcError
from svc.telemetry.escape import escaped, quoted
from svc.telemetry.filter import parse_filter
from svc.telemetry.logs import LogLines, StdlibBridge, make_lines
from tests.support.proof import proves

NASTY = 'a\nb\r\x1b[31m\u202e"q" \\ \x7f\x85\u2028 end'


class Written:
    """A log that writes into a list, with a logger of any namespace before it."""

    def __init__(self, form: str | None = None) -> None:
        self.text: list[str] = []
        environ = {} if form is None else {"SVC_LOG_FORMAT": form}
        self.lines: LogLines = make_lines(environ, self.text.append)

    def settle(self, log_filter: str | None = "trace", profile: str | None = None) -> None:
        """Say filter and profile."""
        self.lines.settle(parse_filter(log_filter), profile)

    def logger(self, namespace: str = "svc_proxy") -> Logger:
        """A logger that reaches these lines only."""
        return Logger(namespace=namespace, observer=LogPublisher(self.lines))

    def records(self) -> list[dict[str, object]]:
        """The JSON objects written."""
        return [json.loads(line) for line in self.text]


def event(message: str, **fields: object) -> LogEvent:
    """One event of the Proxy, a quarter of a second after the epoch."""
    common = {"log_level": LogLevel.info, "log_namespace": "svc_proxy", "log_time": 0.25}
    return {"log_format": message, **common, **fields}


class LineTests(SynchronousTestCase):
    """The layout of both formats."""

    @proves("G-OPEN-23", "G-LOG-04")
    def test_human(self) -> None:
        """A line for people: time, level, target, message, fields, profile."""
        log = Written()
        log.settle(profile="blue")
        log.lines(event("tunnel registered", node="abc", resources=3, up=True))
        fields = "node=abc resources=3 up=true profile=blue"
        line = f"1970-01-01T00:00:00.250000Z INFO svc_proxy: tunnel registered {fields}\n"
        self.assertEqual(log.text, [line])

    @proves("G-OPEN-23", "G-LOG-03", "G-CFG-16")
    def test_json(self) -> None:
        """A JSON line: flat keys, typed values, the profile at the top level."""
        log = Written("json")
        log.settle(profile="blue")
        log.lines(event("tunnel refused", node="abc", tries=2, reasons=("a", "b")))
        self.assertEqual(
            log.records(),
            [
                {
                    "timestamp": "1970-01-01T00:00:00.250000Z",
                    "level": "INFO",
                    "target": "svc_proxy",
                    "message": "tunnel refused",
                    "profile": "blue",
                    "node": "abc",
                    "tries": 2,
                    "reasons": ["a", "b"],
                }
            ],
        )

    @proves("X-08", "G-CFG-16")
    def test_only_json_switches(self) -> None:
        """Any value but exactly ``json`` gives lines for people."""
        for form in (None, "", "JSON", "text", "pretty", "json "):
            log = Written(form)
            log.settle()
            log.logger().info("started")
            self.assertIn(" INFO svc_proxy: started", log.text[0], repr(form))

    @proves("G-LOG-05", "G-CFG-05")
    def test_no_profile(self) -> None:
        """Without a profile no line has the field."""
        for form in (None, "json"):
            log = Written(form)
            log.settle()
            log.logger().info("started")
            self.assertNotIn("profile", log.text[0])

    @proves("X-87")
    def test_profile_is_one_field(self) -> None:
        """A profile with blanks, quotes and a line break stays one field and can be read back."""
        profile = 'a "b"\\ c\n'
        for form in (None, "json"):
            log = Written(form)
            log.settle(profile=profile)
            log.logger().info("started")
            self.assertEqual(log.text[0].count("\n"), 1)
        self.assertEqual(log.records()[0]["profile"], profile)
        human = Written()
        human.settle(profile=profile)
        human.logger().info("started")
        self.assertTrue(human.text[0].endswith(' profile="a \\"b\\"\\\\ c\\n"\n'), human.text)

    @proves("G-LOG-02")
    def test_nothing_of_a_peer_forges_a_line(self) -> None:
        """Line breaks, terminal escapes and turned writing in a field stay inside it."""
        for form in (None, "json"):
            log = Written(form)
            log.settle()
            log.logger().info("name refused", name=NASTY)
            (line,) = log.text
            self.assertTrue(line.endswith("\n"))
            self.assertIsNone(re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e]", line[:-1]), line)
        self.assertEqual(log.records()[0]["name"], NASTY)

    def test_field_never_replaces_a_key(self) -> None:
        """A field called like a key of the line is written under another name."""
        log = Written("json")
        log.settle(profile="blue")
        log.lines(event("started", level="mine", profile="mine"))
        record = log.records()[0]
        self.assertEqual((record["level"], record["profile"]), ("INFO", "blue"))
        self.assertEqual((record["level_"], record["profile_"]), ("mine", "mine"))

    def test_failure_is_one_line(self) -> None:
        """A failure is written with its traceback in a field of the same line."""
        log = Written("json")
        log.settle()
        try:
            raise SvcError("no\nstore")
        except SvcError:
            log.logger().failure("audit failed", what="append")
        (record,) = log.records()
        self.assertEqual((record["level"], record["message"]), ("ERROR", "audit failed"))
        self.assertEqual((record["what"], record["error"]), ("append", "no\nstore"))
        self.assertIn("Traceback", str(record["traceback"]))

    def test_objects_of_others_are_left_out(self) -> None:
        """Of an event that is not ours only plain values are written."""
        log = Written("json")
        log.settle()
        log.logger("twisted.web").info("Starting {factory}", factory=object(), port=1)
        (record,) = log.records()
        self.assertEqual(record["port"], 1)
        self.assertNotIn("factory", record)

    @given(st.text(max_size=40))
    @settings(deadline=None)
    def test_any_text_is_one_json_line(self, text: str) -> None:
        """Whatever text a field holds, the line is one JSON object that gives it back."""
        log = Written("json")
        log.settle(profile=text)
        log.logger().info("seen", text=text)
        self.assertEqual(log.text[0].count("\n"), 1)
        self.assertEqual(log.records()[0]["text"], text)

    def test_what_shows_nothing_is_shown(self) -> None:
        """Characters that a terminal leaves out, or takes for an order, are written as escapes."""
        for mark, shown in (
            ("\x1b", "\\x1b"),
            ("\xad", "\\xad"),
            ("\u180e", "\\u180e"),
            ("\u200b", "\\u200b"),
            ("\u202e", "\\u202e"),
            ("\U000e0000", "\\U000e0000"),
            ("\U000e0041", "\\U000e0041"),
            ("\U000e007f", "\\U000e007f"),
            ("\u034f", "\\u034f"),
            ("\u3164", "\\u3164"),
            ("\ufe0f", "\\ufe0f"),
            ("\U000e0100", "\\U000e0100"),
            ("\u2800", "\\u2800"),
        ):
            self.assertEqual(escaped(f"a{mark}b"), f"a{shown}b")
            self.assertEqual(quoted(f"a{mark}b"), f'"a{shown}b"')
        for text in ("\xac\xae", "\u180a\u1810", "\U000dffff\U000e1000", "\U0001f600"):
            self.assertEqual(escaped(text), text)

    @given(st.text(max_size=40))
    @settings(deadline=None)
    def test_any_text_is_one_field(self, text: str) -> None:
        """Whatever text it is, a field for people has no blank outside its quotes."""
        shown = quoted(text)
        self.assertNotIn("\n", escaped(text))
        if not shown.startswith('"'):
            self.assertNotIn(" ", shown)
        else:
            self.assertIsNone(re.search(r'(?<!\\)(?:\\\\)*"', shown[1:-1]))


class HeldTests(SynchronousTestCase):
    """Nothing is lost, and nothing is written before filter and profile are known."""

    @proves("G-LOG-06", "X-38")
    def test_held_events_carry_the_profile(self) -> None:
        """Events from before the configuration was read are written later, with the profile."""
        log = Written()
        early = log.logger()
        early.info("starting", role="proxy")
        early.debug("detail")
        self.assertEqual(log.text, [])
        log.settle(None, "blue")
        early.info("ready")
        self.assertEqual(len(log.text), 2)
        self.assertIn("starting role=proxy profile=blue", log.text[0])
        self.assertIn("ready profile=blue", log.text[1])

    @proves("G-CFG-15", "X-06")
    def test_filter(self) -> None:
        """The default shows our news and only warnings of others; a filter replaces it whole."""
        log = Written()
        log.settle(None)
        log.logger().info("ours")
        log.logger("twisted.web").info("theirs")
        log.logger("twisted.web").warn("their warning")
        self.assertEqual(len(log.text), 2)
        narrow = Written()
        narrow.settle("svc_ssh=debug")
        narrow.logger().error("ours")
        narrow.logger("svc_ssh").debug("ssh")
        self.assertEqual(len(narrow.text), 1)


class BridgeTests(SynchronousTestCase):
    """Lines of libraries and of failures nobody handled carry the profile too."""

    def watch(self) -> Written:
        """A settled log that sees everything of this process."""
        log = Written("json")
        level = logging.getLogger().level
        self.addCleanup(logging.getLogger().setLevel, level)
        log.settle("trace", "blue")
        globalLogPublisher.addObserver(log.lines)
        self.addCleanup(globalLogPublisher.removeObserver, log.lines)
        return log

    @proves("G-LOG-06", "X-38")
    def test_stdlib(self) -> None:
        """A line of the standard library's logging is one of ours, with target and profile."""
        log = self.watch()
        bridge = StdlibBridge()
        library = logging.Logger("opentelemetry.sdk")
        library.addHandler(bridge)
        library.warning("queue full: %s {braces}", "x")
        library.info("%d", "not a number")
        first, second = log.records()
        self.assertEqual(first["message"], "queue full: x {braces}")
        self.assertEqual(
            (first["target"], first["level"], first["profile"]),
            ("opentelemetry.sdk", "WARN", "blue"),
        )
        self.assertEqual(second["message"], "%d")

    def test_stdlib_exception(self) -> None:
        """An exception that a library logs is one line with its traceback in a field."""
        log = self.watch()
        library = logging.Logger("lib")
        library.addHandler(StdlibBridge())
        try:
            raise KeyError("gone")
        except KeyError:
            library.exception("lost")
        self.flushLoggedErrors(KeyError)
        (record,) = log.records()
        self.assertIn("KeyError", str(record["traceback"]))
        self.assertEqual(record["message"], "lost")

    @proves("G-LOG-06")
    def test_unhandled_failure(self) -> None:
        """A failure that nobody handled is written once, with the profile."""
        log = self.watch()
        lost: Deferred[None] | None = fail(SvcError("forgotten"))
        self.assertIsNotNone(lost)
        lost = None
        self.assertEqual(len(self.flushLoggedErrors(SvcError)), 1)
        texts = [record for record in log.records() if record.get("error") == "forgotten"]
        self.assertEqual([record["profile"] for record in texts], ["blue"])

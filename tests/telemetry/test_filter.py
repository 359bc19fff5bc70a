"""The log filter: what RUST_LOG may say, and what is refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError
from svc.telemetry.filter import Level, parse_filter
from tests.support.proof import proves

# (filter, target, the highest level written)
ACCEPTED = (
    (None, "svc_proxy", "INFO"),
    (None, "twisted.internet", "WARN"),
    ("", "svc", "INFO"),
    ("   ", "svc", "INFO"),
    ("error", "svc_proxy", "ERROR"),
    ("off", "svc_proxy", "OFF"),
    ("TRACE", "anything", "TRACE"),
    ("Debug", "anything", "DEBUG"),
    ("svc_ssh=debug", "svc_ssh", "DEBUG"),
    ("svc_ssh=debug", "svc_proxy", "OFF"),
    ("warn,svc=info", "svc_ssh", "INFO"),
    ("svc=error,svc_proxy=debug,warn", "svc_proxy", "DEBUG"),
    ("svc_proxy=debug,svc=error,warn", "svc_proxy", "DEBUG"),
    ("svc_proxy=debug,svc_ssh=trace,warn", "svc_ssh", "TRACE"),
    ("svc_proxy=debug,svc_ssh=trace,warn", "svc_store", "WARN"),
    ("svc_proxy=off,info", "svc_proxy", "OFF"),
    (" svc = info , warn ".replace(" = ", "="), "svc", "INFO"),
    ("info,error", "x", "ERROR"),
    ("svc=info,svc=debug", "svc", "DEBUG"),
    ("twisted.web=debug,warn", "twisted.web.http", "DEBUG"),
)
REFUSED = (
    ("=", "item 1"),
    ("svc=loud", "levels: off"),
    ("svc=notalevel", "unknown level"),
    ("a=b=c", "unknown level"),
    ("svc_proxy=", "unknown level"),
    ("=info", "item 1"),
    ("svc", "unknown level"),
    ("warn,,info", "item 2"),
    ("warn,", "item 2"),
    ("svc=inf", "did you mean info?"),
    ("warm", "did you mean warn?"),
    ("svc proxy=info", "item 1"),
    ("sv\u0441=info", "item 1"),
    ("svc[span]=info", "item 1"),
    ("svc=info;warn", "did you mean"),
    ("3", "unknown level"),
    ("warn," * 300_000, "longer than 4096"),
    ("\x1b[31m=info", "item 1"),
)


class FilterTests(SynchronousTestCase):
    """Prefix match, longest wins, malformed is refused."""

    @proves("G-OPEN-22", "G-CFG-15", "G-CFG-17", "X-06", "X-07")
    def test_accepted(self) -> None:
        """Each well-formed filter lets a target write up to the level expected."""
        for text, target, level in ACCEPTED:
            with self.subTest(text=text, target=target):
                self.assertEqual(parse_filter(text).threshold(target), Level[level], text)

    @proves("G-LOG-09", "X-05", "G-OPEN-22")
    def test_refused(self) -> None:
        """Each malformed filter is refused by the variable's name, with what to write."""
        for text, words in REFUSED:
            with self.subTest(text=text[:20]):
                error = self.assertRaises(ConfigError, parse_filter, text)
                self.assertEqual(error.where, "RUST_LOG")
                self.assertIn(words, error.text)
                self.assertLess(len(error.text), 200)

    def test_allows_up_to_the_threshold(self) -> None:
        """An event passes at its target's level and below, never above."""
        found = parse_filter("svc=info")
        self.assertEqual(
            [found.allows("svc_x", level) for level in list(Level)[1:]],
            [True, True, True, False, False],
        )

    def test_highest(self) -> None:
        """The highest level of any target is known, so that libraries can be told."""
        self.assertEqual(parse_filter("warn,svc=trace").highest, Level.TRACE)
        self.assertEqual(parse_filter("info,svc=off").highest, Level.INFO)

    @given(st.text(max_size=30))
    @settings(deadline=None)
    def test_any_text_is_parsed_or_refused(self, text: str) -> None:
        """Whatever the variable holds, the answer is a filter or a refusal."""
        try:
            parse_filter(text).threshold("svc")
        except ConfigError as error:
            self.assertEqual(error.where, "RUST_LOG")

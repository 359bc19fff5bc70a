"""The error tree."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.errors import ConfigError, LeaseLost, ListenRefused, StoreFull, SvcError, TooMany


class WithTests(SynchronousTestCase):
    """The same refusal in other words."""

    def test_all_else_is_kept(self) -> None:
        """Whatever a class is made of, its reason, its fault and what it adds stay; so does it."""
        for refusal in (
            SvcError("no", reason="odd", details={"a": "1"}, retry_after=2.0),
            ConfigError("a.b", "is odd"),
            LeaseLost("a"),
            ListenRefused("k", "::1", "is used"),
            StoreFull.on("the Authority"),
            TooMany("wait", retry_after=3.0, hold=1.0),
        ):
            before = dict(vars(refusal))
            other = refusal.with_(text="said", b="2")
            self.assertIs(type(other), type(refusal))
            self.assertEqual((str(other), other.args), ("said", ("said",)))
            wanted = {**before, "text": "said", "details": {**refusal.details, "b": "2"}}
            self.assertEqual(vars(other), wanted)
            self.assertEqual((other.reason, other.fault), (refusal.reason, refusal.fault))
            self.assertEqual(vars(refusal), before)
            self.assertEqual(str(refusal.with_(b="2")), str(refusal))

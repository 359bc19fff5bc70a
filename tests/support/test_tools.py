"""The finder of stock tools tells what is missing and never hides it."""

from __future__ import annotations

from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.support.tools import find_tool, stock_tool


class StockToolTests(SynchronousTestCase):
    """`stock_tool` on a machine that has a tool, and on one that lacks it."""

    def test_found(self) -> None:
        """A tool that is installed is given as an absolute path."""
        self.assertEqual(stock_tool("sh", "dash"), find_tool("sh"))
        self.assertTrue(stock_tool("sh", "dash").startswith("/"))

    def test_file(self) -> None:
        """What is no command is found by its path, or not."""
        self.assertEqual(stock_tool(__file__, "svc"), __file__)
        self.assertIsNone(find_tool("/not/there.jar"))

    def test_missing_skips(self) -> None:
        """A missing tool skips the test and names the Debian package that brings it."""
        error = self.assertRaises(SkipTest, stock_tool, "svc-no-such-tool", "nosuch", {})
        self.assertIn("Debian package nosuch", str(error))

    def test_missing_fails_where_required(self) -> None:
        """In continuous integration a missing tool is a failure, not a skip."""
        required = {"SVC_REQUIRE_TOOLS": "1"}
        error = self.assertRaises(
            AssertionError, stock_tool, "svc-no-such-tool", "nosuch", required
        )
        self.assertIn("Debian package nosuch", str(error))

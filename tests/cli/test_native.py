"""``svc db``: the words that psql is started with."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.native import psql_words


class WordsTests(SynchronousTestCase):
    """Which socket, role and database psql is given."""

    def test_words(self) -> None:
        """The socket always; role and database as they were asked for."""
        here = ["psql", "-h", "/run/orders", "-p", "5432"]
        self.assertEqual(psql_words("/run/orders", None, None), here)
        self.assertEqual(psql_words("/run/orders", "app", None), [*here, "-U", "app"])
        self.assertEqual(
            psql_words("/run/orders", "app", "shop"), [*here, "-U", "app", "-d", "shop"]
        )

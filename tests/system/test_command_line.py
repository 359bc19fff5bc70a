"""What a newcomer types at a running gateway, and what the commands answer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.system.common import ada, eve


class PersonTests(SynchronousTestCase):
    """The person's commands."""

    def test_resource_of_another_kind(self) -> None:
        """Whoever names a tcp resource as if it were ssh is told its kind, and nobody else is."""
        told = ada().svc("proxy-ssh", "echo")
        self.assertEqual((told.status, told.stdout), (1, ""))
        self.assertIn("svc: echo: is a tcp resource; run this with --kind tcp; ", told.stderr)
        self.assertNotIn("no Connector", told.stderr)
        through = ada().svc("proxy-ssh", "echo", "--kind", "tcp", stdin=b"word")
        self.assertEqual((through.status, through.stdout), (0, "word"), through.stderr)
        for name in ("echo", "nothing-here"):
            stranger = eve().svc("proxy-ssh", name)
            self.assertEqual((stranger.status, stranger.stdout), (1, ""))
            self.assertNotIn("tcp", stranger.stderr)

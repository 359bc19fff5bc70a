"""SIGHUP: a role reads its configuration again; ``svc up`` stops in order."""

from __future__ import annotations

import signal

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway
from svc.testing.gateway.processes import Child, until
from tests.system.common import ROLES, shared

SAID = "configuration reloaded"


def hang_up(gateway: Gateway, role: str) -> Child:
    """Send SIGHUP to a role twice, and wait until it has read its configuration each time."""
    child = gateway.child(role)
    for more in (1, 2):
        before = len(child.events(SAID))
        child.signal(signal.SIGHUP)
        until(
            f"SIGHUP {more} is said",
            lambda before=before: len(child.events(SAID)) == before + 1,  # type: ignore[misc]
            alive=[child],
        )
    return child


class HangupTests(SynchronousTestCase):
    """The roles of a running gateway under ``svc``; ``test_twistd`` has the others."""

    def test_reads_again(self) -> None:
        """Each role reads its configuration, finds nothing new, and goes on as ready as before."""
        gateway = shared()
        for role in ROLES:
            child = hang_up(gateway, role)
            said = child.events(SAID)[-1]
            self.assertEqual((said["level"], said["keys"]), ("INFO", []))
            self.assertEqual(gateway.get(role, "/readyz"), (200, "ready\n"))

    def test_closed_terminal(self) -> None:
        """``svc up`` stops in order when its terminal is closed, and says so."""
        person = shared().add_person("hugh", "ops")
        resident = person.up("echo")
        resident.signal(signal.SIGHUP)
        self.assertEqual(resident.wait(), 0)
        self.assertEqual(len(resident.events("stopping: the terminal was closed (SIGHUP)")), 1)
        self.assertFalse((person.directory / "run" / "control.sock").exists())

"""The start of the one file: where it unpacks itself, and whom it trusts there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from contrib.release.launcher import ABOUT, Unusable, candidates, check_machine, usable
from contrib.release.one_file import MACHINE, PYTHON, TARGET
from svc.model.release import parse_tag
from svc.setup.units.program import ONE_FILE
from tests.support.proof import proves

ME = os.geteuid()


class PlaceTests(SynchronousTestCase):
    """The directory that is executed from."""

    def setUp(self) -> None:
        """A directory whose every parent is root's or ours, as that of a home is."""
        self.base = Path(tempfile.mkdtemp(prefix="svc-test-cache-"))
        self.addCleanup(rmtree, self.base, True)

    def refused(self, place: Path, user: int = ME) -> str:
        """Why it is not used."""
        return str(self.assertRaises(Unusable, usable, str(place), user))

    def test_made(self) -> None:
        """One that is missing is made for its user alone, with those above it."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        place = self.base / "cache" / "svc"
        self.assertEqual(usable(str(place), ME), str(place))
        self.assertEqual(
            [oct(os.stat(one).st_mode & 0o777) for one in (place, place.parent)], ["0o700", "0o700"]
        )

    def test_others_may_enter(self) -> None:
        """One that others could read is closed to them; they could not have changed it."""
        place = self.base / "svc"
        place.mkdir()
        place.chmod(0o755)
        usable(str(place), ME)
        self.assertEqual(os.stat(place).st_mode & 0o777, 0o700)

    @proves("G-GEN-01")
    def test_made_by_somebody_else(self) -> None:
        """What another user made, could have written to, or could exchange, is never used."""
        place = self.base / "svc"
        place.mkdir(mode=0o700)
        self.assertIn("belongs to another user", self.refused(place, ME + 1))
        for mode in (0o770, 0o707, 0o1777):
            place.chmod(mode)
            self.assertIn("other users may write to it", self.refused(place))
        place.chmod(0o700)
        self.base.chmod(0o777)
        self.assertIn(f"{self.base}: other users may write", self.refused(place))
        self.base.chmod(0o1777)
        usable(str(place), ME)

    def test_link(self) -> None:
        """A link is followed, and what it leads to is judged."""
        open_to_all, link = self.base / "all", self.base / "svc"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        link.symlink_to(open_to_all)
        self.assertIn(f"{open_to_all}: other users", self.refused(link))
        open_to_all.chmod(0o700)
        self.assertEqual(usable(str(link), ME), str(open_to_all))

    def test_order(self) -> None:
        """A unit's cache comes first, then the caller's, then temporary ones with the number."""
        home = str(self.base)
        given = {"CACHE_DIRECTORY": "/c/a:/c/b", "XDG_CACHE_HOME": "/x", "HOME": home}
        found = list(candidates(given, ME))
        self.assertEqual(found[:3], ["/c/a/svc", "/x/svc", f"{home}/.cache/svc"])
        self.assertEqual(found[-2:], [f"/var/tmp/svc-{ME}", f"/tmp/svc-{ME}"])
        odd = {"CACHE_DIRECTORY": "c", "XDG_CACHE_HOME": "x", "HOME": "h"}
        self.assertTrue(all(os.path.isabs(one) for one in candidates(odd, ME)))

    def test_another_machine(self) -> None:
        """Another Python, or another processor, is refused in words."""
        check_machine({"python": PYTHON, "machine": MACHINE})
        for about in ({"python": "3.99", "machine": MACHINE}, {"python": PYTHON, "machine": "pdp"}):
            refused = str(self.assertRaises(Unusable, check_machine, about))
            self.assertIn(f"for Python {about['python']} on {about['machine']}", refused)


class NameTests(SynchronousTestCase):
    """What it is called."""

    @proves("U-OPEN-02")
    def test_name(self) -> None:
        """Its name has tag and platform; a unit knows its environment by the same file."""
        name = parse_tag("v0.11.0-rc.7").program(TARGET)
        self.assertEqual(name, f"svc-v0.11.0-rc.7-{TARGET}")
        self.assertTrue(TARGET.startswith(f"{MACHINE}-unknown-linux-gnu-cp3"), TARGET)
        self.assertEqual(ABOUT, ONE_FILE)

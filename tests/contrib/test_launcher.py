"""The start of the one file: where it unpacks itself, and whom it trusts there."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from shutil import rmtree
from unittest import skipIf
from zipfile import ZipFile

from twisted.trial.unittest import SynchronousTestCase

from contrib.release import launcher
from contrib.release.launcher import (
    ABOUT,
    CHECKED,
    CONFIG,
    Unusable,
    candidates,
    check_machine,
    unpacked,
    usable,
)
from contrib.release.one_file import MACHINE, PYTHON, TARGET
from svc.model.release import parse_tag
from svc.setup.units.program import ONE_FILE
from tests.support.proof import proves

ME = os.geteuid()
OTHER = 12345
NAME, MODULE = "0.1-abc", "lib/one.py"


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
        """One that others may enter is not used, and not changed: somebody made it for another."""
        place = self.base / "svc"
        place.mkdir()
        place.chmod(0o755)
        self.assertIn(f"{place}: other users may enter it", self.refused(place))
        self.assertEqual(place.stat().st_mode & 0o777, 0o755)

    @proves("G-GEN-01")
    def test_made_by_somebody_else(self) -> None:
        """What another user made, could have written to, or could exchange, is never used."""
        place = self.base / "svc"
        place.mkdir(mode=0o700)
        self.assertIn("belongs to another user", self.refused(place, ME + 1))
        for mode, said in ((0o770, "write to"), (0o707, "write to"), (0o1777, "enter")):
            place.chmod(mode)
            self.assertIn(f"other users may {said} it", self.refused(place))
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

    @skipIf(ME, "only root can give a file away")
    def test_link_of_others(self) -> None:
        """A link of another user is not followed, and nothing is changed where it leads."""
        ours, theirs = self.base / "ours", self.base / "theirs"
        ours.mkdir()
        ours.chmod(0o755)
        theirs.symlink_to(ours)
        os.lchown(theirs, OTHER, OTHER)
        (self.base / "again").symlink_to("./../" + self.base.name + "/theirs/new")
        for place in (theirs, theirs / "new", self.base / "again"):
            self.assertIn(f"{theirs}: belongs to another user", self.refused(place))
        self.assertEqual((ours.stat().st_mode & 0o777, list(ours.iterdir())), (0o755, []))

    @skipIf(ME, "only root can give a file away")
    def test_home_of_others(self) -> None:
        """Nothing is made in the home of another user, whom it would be in the way of."""
        home = self.base / "home"
        home.mkdir(mode=0o755)
        os.chown(home, OTHER, OTHER)
        self.assertIn(f"{home}: belongs to", self.refused(home / ".cache" / "svc"))
        self.assertEqual(list(home.iterdir()), [])

    def test_circle(self) -> None:
        """Links that lead nowhere end."""
        one, two = self.base / "one", self.base / "two"
        one.symlink_to(two)
        two.symlink_to("one")
        self.assertIn("too many links", self.refused(one / "svc"))

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


class UnpackedTests(SynchronousTestCase):
    """The environment below that directory, of an archive of one module."""

    def setUp(self) -> None:
        base = Path(tempfile.mkdtemp(prefix="svc-test-cache-"))
        self.addCleanup(rmtree, base, True)
        self.place = base / "svc"
        self.place.mkdir(mode=0o700)
        self.archive = self.place / "svc"
        with ZipFile(self.archive, "w") as files:
            files.writestr(MODULE, "READY = True\n")
        self.made = Path(self.unpacked())

    def unpacked(self) -> str:
        """Where a start finds it."""
        return unpacked(str(self.archive), NAME, str(self.place))

    def new_start(self) -> int:
        """What the directory is, once the machine was started again."""
        (self.made / CHECKED).write_text("another start")
        return self.made.stat().st_ino

    def test_no_room_for_a_note(self) -> None:
        """A whole one serves, even if nothing can be written there."""
        which = self.new_start()
        (self.made / CHECKED).unlink()
        (self.made / CHECKED).mkdir()  # which cannot be opened to write, not even by root
        self.assertEqual(self.unpacked(), str(self.made))
        self.assertEqual(self.made.stat().st_ino, which)

    def test_temporary(self) -> None:
        """Where the machine removes files by their age, one that was found whole is compared."""
        module = self.made / MODULE
        whole = module.read_bytes()
        module.unlink()
        self.unpacked()
        self.assertFalse(module.exists(), "elsewhere it is compared once")
        self.patch(launcher, "_AGED", (str(self.place.parent),))
        self.unpacked()
        self.assertEqual(module.read_bytes(), whole)

    def test_left(self) -> None:
        """What a start left that was killed goes with the next unpacking; a young one stays."""
        old, young = self.place / ".new-old", self.place / ".new-young"
        for one in (old, young):
            (one / NAME).mkdir(parents=True)
        long_ago = time.time() - 3700
        os.utime(old, (long_ago, long_ago))
        self.unpacked()
        self.assertTrue(old.exists(), "a start that unpacks nothing does not look")
        self.new_start()
        (self.made / MODULE).unlink()
        self.unpacked()
        self.assertEqual((old.exists(), young.exists()), (False, True))

    def test_two_repairs(self) -> None:
        """A start waits for another that repairs, and takes what that one made."""
        which, module = self.new_start(), self.made / MODULE
        whole = module.read_bytes()
        module.unlink()
        other = os.open(self.place, os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_EX)

        def repaired() -> None:
            """What the other does while this one waits."""
            module.write_bytes(whole)
            os.close(other)

        self.patch(launcher, "_pause", repaired)
        self.unpacked()
        self.assertEqual(self.made.stat().st_ino, which)

    def test_no_end_of_a_repair(self) -> None:
        """One that holds the lock and does not go on is not waited for without end."""
        self.new_start()
        (self.made / MODULE).unlink()
        other = os.open(self.place, os.O_RDONLY)
        self.addCleanup(os.close, other)
        fcntl.flock(other, fcntl.LOCK_EX)
        self.patch(launcher, "_LOCK_SECS", 0)
        self.unpacked()
        self.assertTrue((self.made / MODULE).exists())

    def test_no_environment(self) -> None:
        """Without what makes it an environment, it is made again, though it was found whole."""
        config = self.made / CONFIG
        whole = config.read_text()
        for damaged in (None, "", whole.partition("\n")[0], whole.replace("false", "true")):
            config.unlink()
            if damaged is not None:
                config.write_text(damaged)
            self.unpacked()
            self.assertEqual(config.read_text().splitlines()[:2], whole.splitlines()[:2], damaged)


class NameTests(SynchronousTestCase):
    """What it is called."""

    @proves("U-OPEN-02")
    def test_name(self) -> None:
        """Its name has tag and platform; a unit knows its environment by the same file."""
        name = parse_tag("v0.11.0-rc.7").program(TARGET)
        self.assertEqual(name, f"svc-v0.11.0-rc.7-{TARGET}")
        self.assertTrue(TARGET.startswith(f"{MACHINE}-unknown-linux-gnu-cp3"), TARGET)
        self.assertEqual(ABOUT, ONE_FILE)

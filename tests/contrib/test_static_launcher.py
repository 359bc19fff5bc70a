"""The start of the static file, with a small archive: where it is unpacked, and who is trusted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import zlib
from functools import cache
from pathlib import Path
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from contrib.release.plan import ReleaseRefused
from contrib.release.static.build import MANIFEST, joined, link_launcher, tar_of
from contrib.release.static.packages import Package, locked_packages, unpack_packages
from svc import __version__
from svc.model.release import parse_version
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.support.wheels import debian_packages, folder

RUN_BY = "make fault"

STARTED = '#!/bin/sh\nprintf "%s\\n" "$@"\n'
"""In the place of glibc's loader: prints the words that it is given."""

TRAILER = 128


@cache
def launcher() -> bytes:
    """The launcher, linked once."""
    made = folder() / "launcher"
    link_launcher(made, debian_packages())
    return made.read_bytes()


@cache
def small_file() -> bytes:
    """The executable with an archive of a few files."""
    root = folder() / "small"
    for name, text in {
        "lib/svc": STARTED,
        "lib/empty": "",
        "lib/block": "x" * 512,
        "share/large": "a line\n" * 40_000,
        f"share/{'d' * 80}/{'f' * 90}": "a long name",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "lib/svc").chmod(0o755)
    (root / "bin").mkdir()
    (root / "bin/python3").write_bytes(launcher())
    (root / "bin/python3").chmod(0o755)
    tar = tar_of(root)
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    archive = packer.compress(tar) + packer.flush()
    return joined(launcher(), archive, tar, parse_version(__version__))


def link_to_another(path: Path) -> None:
    """Put a link to another file of the same size in its place."""
    other = path.with_name("another")
    path.rename(other)
    path.symlink_to(other)


def remove_empty(place: str) -> None:
    """Remove a directory if it is there, and nothing in it."""
    with contextlib.suppress(OSError):
        os.rmdir(place)


class LauncherCase(SynchronousTestCase):
    """An executable, and a home that only its user may enter."""

    def setUp(self) -> None:
        self.place = Path(os.path.abspath(self.mktemp()))
        self.place.mkdir(mode=0o700)
        self.program = self.place / "program"
        self.write(small_file())
        self.home = self.place / "home"
        self.home.mkdir()
        self.environ = {"HOME": str(self.home)}
        for place in (f"/var/tmp/svc-{os.geteuid()}", f"/tmp/svc-{os.geteuid()}"):
            if not os.path.exists(place):  # a start that is refused everywhere makes it
                self.addCleanup(remove_empty, place)

    def write(self, data: bytes) -> None:
        """Let the executable have other bytes."""
        self.program.unlink(missing_ok=True)
        self.program.write_bytes(data)
        self.program.chmod(0o755)

    def ran(self, *before: str, **more: str) -> subprocess.CompletedProcess[str]:
        """What a start with two words did."""
        words = [*before, str(self.program), "first", "second word"]
        environ = self.environ | more
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)

    def started(self, **more: str) -> str:
        """The words that were run; its last are ours."""
        done = self.ran(**more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[-2:], ["first", "second word"])
        return done.stdout

    def refused(self, *before: str, **more: str) -> str:
        """What it says as it ends in words."""
        done = self.ran(*before, **more)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        return done.stderr

    def made(self, above: str = "home/.cache") -> Path:
        """The one directory that it was unpacked into; nothing else lies beside it."""
        (made,) = (self.place / above / "svc").iterdir()
        return made


class StartTests(LauncherCase):
    """How it starts."""

    def test_words(self) -> None:
        """It becomes its own Python, by its own loader, with its own name before ours."""
        made = self.made() if self.started() else Path()
        told = self.started().splitlines()
        self.assertEqual(
            told[:-2],
            [
                *("--inhibit-cache", "--library-path", f"{made}/lib"),
                *("--argv0", f"{made}/bin/python3", f"{made}/lib/python", "-S", "-B", "-I"),
                *(f"{made}/start.py", str(self.program)),
            ],
        )
        python = subprocess.run(
            [made / "bin" / "python3", "-c", "pass"], env={}, capture_output=True, text=True
        )
        told = python.stdout.splitlines()
        self.assertEqual(told[5:], [f"{made}/lib/python", "-S", "-B", "-c", "pass"])

    def test_once(self) -> None:
        """It is unpacked once, whole, for its user alone; the next start changes nothing."""
        self.started()
        made = self.made()
        self.assertTrue(made.name.startswith(f"{__version__}-"))
        self.assertEqual(made.parent.stat().st_mode & 0o777, 0o700)
        self.assertEqual((made / "share/large").read_text(), "a line\n" * 40_000)
        self.assertEqual((made / "lib/block").read_text(), "x" * 512)
        self.assertEqual((made / f"share/{'d' * 80}/{'f' * 90}").read_text(), "a long name")
        when = made.stat()
        self.started()
        self.assertEqual(self.made().stat().st_mtime_ns, when.st_mtime_ns)
        self.assertEqual(self.made().stat().st_ino, when.st_ino)

    def test_places(self) -> None:
        """The cache of a unit comes before the caller's, and that before the one of the home."""
        self.started(XDG_CACHE_HOME=f"{self.place}/caller")
        self.made("caller")
        unit = f"{self.place}/unit:{self.place}/other"
        self.started(XDG_CACHE_HOME=f"{self.place}/caller", CACHE_DIRECTORY=unit)
        self.made("unit")
        self.assertEqual(list(self.home.iterdir()), [])

    def test_several_at_once(self) -> None:
        """Several first starts at once all run, and leave one directory."""
        started = [
            subprocess.Popen([self.program, "x"], env=self.environ, stdout=subprocess.PIPE)
            for _ in range(5)
        ]
        said = {one.communicate(timeout=60)[0] for one in started}
        self.assertEqual((len(said), {one.returncode for one in started}), (1, {0}))
        self.made()

    def test_through_a_link(self) -> None:
        """A link to it is a name of it."""
        (self.place / "svc").symlink_to(self.program)
        done = subprocess.run(
            [self.place / "svc"], env=self.environ, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.stdout.splitlines()[-1], f"{self.place}/svc")


class TrustTests(LauncherCase):
    """Where it does not unpack itself, and runs nothing."""

    def trap(self, above: str) -> Path:
        """A directory that looks like what would be unpacked, whose program tells of its run."""
        self.started()
        trap = self.place / above / "svc" / self.made().name
        (trap / "lib").mkdir(parents=True)
        (trap / "lib/svc").write_text(f"#!/bin/sh\ntouch {self.place}/ran\n")
        (trap / "lib/svc").chmod(0o755)
        (trap / MANIFEST).write_text("end\n")
        trap.parent.chmod(0o700)
        return trap

    def check_unused(self, trap: Path) -> None:
        """It takes the home in place of the trap, which would run if it were trusted."""
        above = str(trap.parent.parent)
        self.started(XDG_CACHE_HOME=above)
        self.assertFalse((self.place / "ran").exists())

    @proves("U-REL-09")
    def test_others_may_write(self) -> None:
        """What lies where others may write is not run; another place is taken."""
        trap = self.trap("cache")
        for place in (trap.parent, trap.parent.parent):
            for mode in (0o777, 0o770, 0o720):
                place.chmod(mode)
                self.check_unused(trap)
            place.chmod(0o700)
        trap.parent.chmod(0o750)  # others may look: it is no directory of its user alone
        self.check_unused(trap)
        trap.parent.chmod(0o700)
        self.assertEqual(self.ran(XDG_CACHE_HOME=str(trap.parent.parent)).returncode, 0)
        self.assertTrue((self.place / "ran").exists(), "the trap would be run if it were trusted")

    @proves("U-REL-09")
    def test_of_others(self) -> None:
        """What belongs to others is not run, nor is their link followed."""
        if os.geteuid():
            raise SkipTest("needs root, who can give a directory away")
        trap = self.trap("cache")
        for place in (trap.parent, trap.parent.parent):
            os.chown(place, 65534, 65534)
            self.check_unused(trap)
            os.chown(place, 0, 0)
        link = self.place / "link"
        link.symlink_to(trap.parent.parent)
        os.lchown(link, 65534, 65534)
        self.check_unused(link / "svc" / trap.name)
        os.lchown(link, 0, 0)
        self.assertEqual(self.ran(XDG_CACHE_HOME=str(link)).returncode, 0)
        self.assertTrue((self.place / "ran").exists(), "the link of its own user is followed")

    def test_nothing_made_for_others(self) -> None:
        """Nothing is made below a directory that is not trusted, and no mode is changed."""
        open_to_all = self.place / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        self.started(XDG_CACHE_HOME=str(open_to_all / "cache"))
        self.assertEqual(list(open_to_all.iterdir()), [])
        self.assertEqual(open_to_all.stat().st_mode & 0o777, 0o777)

    def test_paths(self) -> None:
        """Links, dots and double slashes lead where the kernel takes them; a loop leads nowhere."""
        (self.place / "real").mkdir()
        (self.place / "way").symlink_to("./real/../real//")
        self.started(XDG_CACHE_HOME=f"{self.place}/./way/..//way/cache/")
        self.made("real/cache")
        (self.place / "loop").symlink_to("loop")
        self.started(XDG_CACHE_HOME=f"{self.place}/loop/cache")
        self.made()
        (self.place / "file").write_text("")
        self.started(XDG_CACHE_HOME=f"{self.place}/file")
        self.assertIn("too long", self.refused(XDG_CACHE_HOME="/x" * 4096))

    def test_set_user_id(self) -> None:
        """It does not run as somebody else than its caller."""
        if os.geteuid():
            raise SkipTest("needs root, who can call it as somebody else")
        done = subprocess.run(
            [self.program],
            env=self.environ,
            capture_output=True,
            text=True,
            preexec_fn=lambda: os.setresuid(65534, 0, 0),
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("set-user-ID", done.stderr)


class DamageTests(LauncherCase):
    """What is not whole is not run."""

    def check_nothing_left(self) -> None:
        """Nothing lies in the cache."""
        self.assertEqual([*self.home.glob(".cache/svc/*")], [])

    @proves("U-REL-09")
    def test_damaged_file(self) -> None:
        """An archive of another digest is not unpacked, wherever the wrong byte is."""
        whole = small_file()
        size = len(whole) - TRAILER - len(launcher())
        for at in (0, 100, size // 2, size - 1):
            changed = bytearray(whole)
            changed[len(launcher()) + at] ^= 1
            self.write(bytes(changed))
            self.assertIn("this file is damaged", self.refused())
        for cut in (1, TRAILER, size):
            self.write(whole[:-cut])
            self.assertIn("this file is not whole", self.refused())
        self.check_nothing_left()

    def test_damaged_trailer(self) -> None:
        """A trailer that cannot be one is refused."""
        whole, name = small_file(), f"{__version__}-".encode()
        end = whole[-TRAILER:]
        for changed in (
            end[:8] + b"\xff" * 8 + end[16:],
            end.replace(name[:2], b"./"),
            end[:56] + b"\0" * 72,
            end[:56] + b"a" * 72,
        ):
            self.assertNotEqual(changed, end)
            self.write(whole[:-TRAILER] + changed)
            self.assertIn("its end is not as it was made", self.refused())
        self.check_nothing_left()

    @proves("U-REL-09")
    def test_damaged_directory(self) -> None:
        """A file that was removed, cut or exchanged for a link is unpacked again, with all."""
        self.started()
        lost = self.made() / "share/large"
        for damage in (
            lost.unlink,
            lambda: os.truncate(lost, 100),
            lambda: link_to_another(lost),
            (self.made() / MANIFEST).unlink,
            lambda: (self.made() / MANIFEST).write_text("0 lib/empty\n"),
        ):
            damage()
            self.started()
            self.assertEqual(lost.read_text(), "a line\n" * 40_000)
            self.made()

    def test_killed_starts(self) -> None:
        """What killed starts left is removed once none of them can be at work any more."""
        place = self.home / ".cache/svc"
        for name in (".new-old", ".new-young"):
            (place / name / "inner").mkdir(parents=True)
        long_ago = time.time() - 7200
        os.utime(place / ".new-old", (long_ago, long_ago))
        place.chmod(0o700)
        self.started()
        self.assertEqual(sorted(one.name[:5] for one in place.iterdir())[0], ".new-")
        self.assertEqual(len(list(place.iterdir())), 2)
        self.assertTrue((place / ".new-young").exists())

    @proves("U-REL-09")
    def test_full_disk(self) -> None:
        """A disk that becomes full says so of the file, and nothing is left."""
        strace = stock_tool("strace")
        for call, error, when, text in (
            ("write", "ENOSPC", "5+", "No space left on device"),
            ("close", "ENOSPC", "5+", "No space left on device"),
            ("mkdir", "EDQUOT", "5+", "Quota exceeded"),
            ("rename", "ENOSPC", "1+", "No space left on device"),
            ("syncfs", "EIO", "1+", "I/O error"),
        ):
            fault = f"inject={call}:error={error}:when={when}"
            words = (strace, "-o", "/dev/null", "-e", f"trace={call}", "-e", fault)
            told = self.refused(*words)
            self.assertRegex(told, rf"(?m)^  {self.home}/.cache/svc\S*: {text}$")
            self.check_nothing_left()

    def test_no_room(self) -> None:
        """Where it has no room it is not begun."""
        whole = small_file()
        self.write(whole[:-TRAILER] + whole[-TRAILER:-112] + b"\xff" * 7 + b"\x0f" + whole[-104:])
        told = self.refused()
        self.assertIn(f"  {self.home}/.cache/svc: ", told)
        self.assertIn("MB are needed there", told)
        self.check_nothing_left()


class PackageTests(SynchronousTestCase):
    """The packages of the lock."""

    def test_other_packages(self) -> None:
        """A package of another digest than the lock's is not unpacked."""
        deb = stock_tool("dpkg-deb", "dpkg")
        place = Path(os.path.abspath(self.mktemp()))
        source = place / "source"
        (source / "DEBIAN").mkdir(parents=True)
        (source / "DEBIAN/control").write_text(
            "Package: one\nVersion: 1:2\nArchitecture: amd64\nMaintainer: a\nDescription: b\n"
        )
        (source / "file").write_text("content")
        made = place / "one_1%3a2_amd64.deb"
        words = [deb, "--root-owner-group", "--build", str(source), str(made)]
        subprocess.run(words, check=True, capture_output=True)
        self.assertRaises(
            ReleaseRefused, unpack_packages, [Package("one", "1:2", "0" * 64)], place, place / "to"
        )
        self.assertEqual(list((place / "to").iterdir()), [])

    def test_other_locks(self) -> None:
        """A lock that lacks a package, or has another line, is refused."""
        digest = "0" * 64
        for text in ("", f"libc6 1 {digest}\n", f"libc6 1 {digest} x\n", "libc6 1 0\n"):
            self.assertRaises(ReleaseRefused, locked_packages, text)

"""Files that must survive: whole at every moment, and there after a power cut."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.runtime import durable
from tests.support.tools import stock_tool

ROOT = Path(__file__).resolve().parents[2]
_CALLS = "openat,fsync,rename,renameat,renameat2"


def refusing(number: int) -> Callable[..., None]:
    """A call of the system that fails so."""

    def call(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


class ReplaceTests(SynchronousTestCase):
    """Replacing a file."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.directory.mkdir()
        self.path = self.directory / "kept"

    def names(self) -> list[str]:
        return sorted(each.name for each in self.directory.iterdir())

    def test_replaced(self) -> None:
        """New bytes take the place of old ones, readable by the owner alone."""
        for data in (b"old", b"new"):
            durable.replace(self.path, data)
            self.assertEqual((self.path.read_bytes(), self.names()), (data, ["kept"]))
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)

    def test_what_a_crash_left(self) -> None:
        """A half that a crash left beside the file is in nobody's way, and is removed later."""
        left = self.directory / ".kept.0123456789abcdef.new"
        left.write_bytes(b"ha")
        durable.replace(self.path, b"whole")
        self.assertEqual((self.path.read_bytes(), self.names()), (b"whole", [left.name, "kept"]))
        an_hour_ago = left.stat().st_mtime - 3600
        os.utime(left, (an_hour_ago, an_hour_ago))
        durable.replace(self.path, b"again")
        self.assertEqual((self.path.read_bytes(), self.names()), (b"again", ["kept"]))

    def test_two_processes(self) -> None:
        """Two that replace one file again and again never meet each other's halves."""
        code = (
            "import sys; from pathlib import Path; from svc.runtime import durable\n"
            "for n in range(300): durable.replace(Path(sys.argv[1]), sys.argv[2].encode() * 9999)"
        )
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(self.path.absolute()), letter],
                cwd=ROOT,
                stderr=subprocess.PIPE,
            )
            for letter in "ab"
        ]
        told = [writer.communicate()[1].decode() for writer in writers]
        self.assertEqual(told, ["", ""])
        self.assertIn(self.path.read_bytes(), (b"a" * 9999, b"b" * 9999))
        self.assertEqual(self.names(), ["kept"])

    def test_refused(self) -> None:
        """Where the disk refuses, what was there stays and nothing is left beside it."""
        self.path.mkdir()
        (self.path / "inside").touch()
        self.assertRaises(OSError, durable.replace, self.path, b"new")
        self.assertEqual(self.names(), ["kept"])

    def test_which_file(self) -> None:
        """A write that fails for want of room names its file, and is known as such."""
        code = (
            "import resource, sys\nfrom pathlib import Path\nfrom svc.runtime import durable\n"
            "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))\n"
            "path = Path(sys.argv[1])\n"
            "for call in (lambda: durable.replace(path, b'new'), "
            "lambda: durable.try_room(path.parent)):\n"
            "    try: call()\n"
            "    except OSError as e: print(durable.is_full(e), e.filename)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(self.path.absolute())],
            check=True,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        beside = re.escape(str(self.directory.absolute() / ".kept"))
        self.assertRegex(done.stdout, rf"\ATrue {beside}\.\d+\.new\nTrue None\n\Z")
        self.assertEqual(self.names(), [])
        durable.try_room(self.directory)
        self.assertEqual(self.names(), [])

    def test_room_for_more(self) -> None:
        """Room is asked for as much as is needed, and nothing is left of that."""
        code = (
            "import resource, sys\nfrom pathlib import Path\nfrom svc.runtime import durable\n"
            "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, hard))\n"
            "durable.try_room(Path(sys.argv[1]))\n"
            "durable.try_room(Path(sys.argv[1]), 1 << 17)\n"
            "try: durable.try_room(Path(sys.argv[1]), (1 << 17) + 1)\n"
            "except OSError as e: print(durable.is_full(e))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(self.directory.absolute())],
            check=True,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.stdout, self.names()), ("True\n", []))

    def test_room_where_none_can_be_reserved(self) -> None:
        """On a file system that reserves nothing, or a system without the call, bytes are written.

        What else fails is told.
        """
        written = list[int]()
        write = os.write

        def counted(descriptor: int, data: bytes) -> int:
            written.append(len(data))
            return write(descriptor, data)

        self.patch(os, "write", counted)
        size = 3 * durable.TRIED_BYTES + 1
        for number in (errno.EOPNOTSUPP, errno.EINVAL):
            self.patch(os, "posix_fallocate", refusing(number))
            durable.try_room(self.directory, size)
        self.patch(os, "posix_fallocate", None)
        del os.posix_fallocate
        durable.try_room(self.directory, size)
        self.assertEqual(sum(written), 3 * (size - durable.TRIED_BYTES))
        os.posix_fallocate = refusing(errno.EIO)
        self.assertRaises(OSError, durable.try_room, self.directory, size)
        self.assertEqual(self.names(), [])

    def test_new(self) -> None:
        """What is there already is not written over, nor what a link leads to."""
        (self.directory / "link").symlink_to(self.path)
        self.assertRaises(FileExistsError, durable.write_new, self.directory / "link", b"x")
        durable.write_new(self.path, b"x")
        self.assertRaises(FileExistsError, durable.write_new, self.path, b"y")
        self.assertEqual(self.path.read_bytes(), b"x")


class OrderTests(SynchronousTestCase):
    """What the kernel is asked for, in which order."""

    def calls(self, code: str, path: Path) -> list[str]:
        """The calls that concern *path* and its directory, each by a word."""
        trace = Path(self.mktemp()).absolute()
        words = [stock_tool("strace"), "-f", "-y", "-e", f"trace={_CALLS}", "-o", str(trace)]
        subprocess.run([*words, sys.executable, "-c", code], check=True, cwd=ROOT)
        beside, found = re.escape(str(path.with_name(f".{path.name}"))), []
        for line in trace.read_text("utf-8").splitlines():
            if re.search(rf"fsync\(\d+<{beside}\.\d+\.new>\)", line):
                found.append("file synced")
            elif "rename" in line and f'"{path}"' in line:
                found.append("renamed")
            elif re.search(rf"fsync\(\d+<{re.escape(str(path.parent))}>\)", line):
                found.append("directory synced")
        return found

    def test_replace(self) -> None:
        """The file is synced before it is renamed, and its directory afterwards."""
        path = Path(self.mktemp()).absolute()
        code = (
            "from pathlib import Path; from svc.runtime import durable; "
            f"durable.replace(Path({str(path)!r}), b'x')"
        )
        self.assertEqual(self.calls(code, path), ["file synced", "renamed", "directory synced"])

    def test_snapshot_floor(self) -> None:
        """What keeps policy from going back at a Proxy is not undone by a power cut."""
        path = Path(self.mktemp()).absolute()
        code = (
            "from pathlib import Path; from svc.proxy.uplink.snapshot import Floor, FloorFile; "
            f"FloorFile(Path({str(path)!r})).write(Floor())"
        )
        self.assertEqual(self.calls(code, path), ["file synced", "renamed", "directory synced"])

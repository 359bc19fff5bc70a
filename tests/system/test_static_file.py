"""The static file of a release, in an empty root: every role and command runs from it.

Whatever is tested here is tested of the file itself, whose C library is not the machine's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from resource import RLIMIT_STACK, getrlimit, setrlimit
from threading import Thread
from types import MappingProxyType
from unittest import SkipTest

from twisted.names import dns
from twisted.trial.unittest import SynchronousTestCase

from contrib.rehearsal.stand import unpack
from contrib.release.static.build import TARGET, write_static_file
from svc import __version__
from svc.model.release import parse_version
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.settings import ALL, AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.tools import find_tool, stock_tool
from tests.support.wheels import debian_packages, folder, library_wheels, own_wheel
from tests.system.test_renewal import echoed
from tests.system.world import around
from tests.test_project import ROLES

RUN_BY = "make fault"

VERSION = parse_version(__version__)
NOBODY = 65534
NOTHING: Mapping[str, str] = MappingProxyType({})
STACK = 3 << 20
"""No default of any C library."""


@cache
def static_file() -> Path:
    """The file, built once."""
    made = folder() / VERSION.program(TARGET)
    write_static_file(made, VERSION, [*library_wheels(), own_wheel()], debian_packages(), 1)
    return made


@cache
def into_root() -> tuple[str, ...]:
    """The words that run a command in another root, as root or in a user namespace."""
    chroot = stock_tool("chroot", "coreutils")
    for before in ((), (find_tool("unshare") or "unshare", "--user", "--map-root-user")):
        if does(*before, chroot, "/", "true"):
            return (*before, chroot)
    raise SkipTest("needs root, or user namespaces (unshare --user), for a root of its own")


@cache
def into_container() -> str | None:
    """The script that runs the file in the root that it is given, with /proc and /dev/null.

    None: this machine lets nobody have mounts of their own.
    """
    unshare = find_tool("unshare") or "unshare"
    for words in ((unshare, "--mount"), (unshare, "--user", "--map-root-user", "--mount")):
        if does(*words, "mount", "--rbind", "/proc", "/proc"):
            mounts = 'mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null"'
            inner = f'{mounts} && exec {stock_tool("chroot", "coreutils")} "$0" /svc "$@"'
            return f"#!/bin/sh\nexec {' '.join(words)} sh -c '{inner}' {empty_root()} \"$@\"\n"
    return None


def does(*words: str) -> bool:
    """Whether a command can be run here."""
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@cache
def empty_root() -> Path:
    """A root that holds the file and ``/tmp``.

    So that a path below it means the same inside and outside, it also holds its own name: a link
    to the root.
    """
    root = Path(os.path.realpath(folder())) / "root"
    (root / "tmp").mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    itself = root / str(root).lstrip("/")
    itself.parent.mkdir(parents=True, exist_ok=True)
    itself.symlink_to("/")
    shutil.copy(static_file(), root / "svc")
    return root


def inside(
    *words: str,
    environ: Mapping[str, str] = NOTHING,
    user: int = 0,
    preexec_fn: Callable[[], object] | None = None,
) -> subprocess.CompletedProcess[str]:
    """What a command in the empty root did."""
    given = (f"--userspec={user}:{user}",) if user else ()
    before = into_root()
    command = [*before, *given, str(empty_root()), *words]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, preexec_fn=preexec_fn
    )


def unpacked() -> Path:
    """What it was unpacked into, as seen from outside."""
    done = inside("/svc", "--version", environ={"XDG_CACHE_HOME": "/tmp/cache"})
    assert done.returncode == 0, done.stderr
    (made,) = empty_root().glob("tmp/cache/svc/*")
    return made


def python(program: str, preexec_fn: Callable[[], object] | None = None) -> object:
    """What a program prints, as JSON, that the Python of the file runs in the empty root."""
    made = unpacked().relative_to(empty_root())
    words = (f"/{made}/bin/python3", "-I", "-c", f"import json\n{program}")
    done = inside(*words, preexec_fn=preexec_fn)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class FileTests(SynchronousTestCase):
    """The file, and its start."""

    @proves("U-REL-09")
    def test_static(self) -> None:
        """It is an ELF executable for x86-64 that asks for no loader and no library."""
        path = str(static_file())
        words = [stock_tool("readelf", "binutils"), "--file-header", "--program-headers", path]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.assertRegex(told, r"Type: +EXEC ")
        self.assertIn("Advanced Micro Devices X86-64", told)
        self.assertNotRegex(told, "INTERP|DYNAMIC")
        words = [stock_tool("ldd", "libc-bin"), path]
        done = subprocess.run(words, capture_output=True, text=True, env={"LC_ALL": "C"})
        self.assertEqual((done.returncode, done.stderr.strip()), (1, "not a dynamic executable"))

    @proves("U-REL-09", "G-GEN-01")
    def test_empty_root(self) -> None:
        """Where there is nothing but it and /tmp, it says its version, and its help."""
        self.addCleanup(shutil.rmtree, empty_root() / "tmp/svc-0")
        for _ in range(2):
            done = inside("/svc", "--version")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, f"svc {__version__}\n")
        self.assertIn("authority", inside("/svc", "--help").stdout)
        made = empty_root() / "tmp/svc-0"
        self.assertEqual(made.stat().st_mode & 0o777, 0o700)

    @proves("U-REL-09")
    def test_any_user(self) -> None:
        """A number without an account runs it as well, from a directory of its own."""
        if len(into_root()) > 1:  # in a user namespace, which has one user
            raise SkipTest("needs root, who can run it as somebody else")
        done = inside("/svc", "--version", user=NOBODY)
        self.addCleanup(shutil.rmtree, empty_root() / f"tmp/svc-{NOBODY}")
        self.assertEqual((done.stdout, done.stderr), (f"svc {__version__}\n", ""))
        made = (empty_root() / f"tmp/svc-{NOBODY}").stat()
        self.assertEqual((made.st_uid, made.st_mode & 0o777), (NOBODY, 0o700))

    def test_no_place(self) -> None:
        """Where it cannot be unpacked it says why, of each place, and ends with status 1."""
        root = Path(os.path.realpath(folder())) / "closed"
        root.mkdir()
        self.addCleanup(shutil.rmtree, root)
        shutil.copy(static_file(), root / "svc")
        (root / "tmp").write_text("")
        (root / "var").write_text("")
        words = [*into_root(), str(root), "/svc", "--version"]
        done = subprocess.run(words, env={}, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("set XDG_CACHE_HOME", done.stderr)
        self.assertIn("  /tmp: is not a directory\n", done.stderr)

    def test_foreign_libraries(self) -> None:
        """On a machine that has a Python and libraries, it loads none of them."""
        made = unpacked()
        program = (
            "import cedarpy, cryptography.x509, psycopg2, sqlite3, ssl, ctypes, nacl.bindings\n"
        )
        program += "import svc.cli\nprint(open('/proc/self/maps').read())"
        words = [str(made / "bin" / "python3"), "-I", "-c", program]
        done = subprocess.run(words, env={}, capture_output=True, text=True, check=True)
        mapped = set(re.findall(r" r-xp .* (/\S+)$", done.stdout, re.M))
        self.assertGreater(len(mapped), 20)
        self.assertEqual({one for one in mapped if not one.startswith(f"{made}/")}, set())

    def test_twistd(self) -> None:
        """Its twistd offers each role."""
        program = (
            "import sys; from twisted.scripts.twistd import run; sys.argv[1:]=['--help']; run()"
        )
        words = [str(unpacked() / "bin" / "python3"), "-I", "-c", program]
        done = subprocess.run(words, env={}, capture_output=True, text=True)
        self.assertEqual(sorted(re.findall(r"^ +(svc-\w+) ", done.stdout, re.M)), ROLES)


class SessionTests(SynchronousTestCase):
    """Sessions through processes of the file: each in the empty root, where mounts are allowed."""

    def gateway(self, layout: str) -> Gateway:
        """A gateway whose every process is the file."""
        root = empty_root()
        script = into_container()
        if script is not None:
            # What runs a container brings these: the start needs none, the roles do.
            for name in ("proc", "dev", "etc"):
                (root / name).mkdir(exist_ok=True)
            (root / "dev/null").touch()
            (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        program = root / "run"
        program.write_text(script or f'#!/bin/sh\nexec {root}/svc "$@"\n')
        program.chmod(0o755)
        own = {"XDG_CACHE_HOME": str(root / "tmp" / "cache"), "SVC_TEST_PROGRAM": str(program)}
        self.patch(os, "environ", {**os.environ, **own})
        self.patch(tempfile, "tempdir", str(root / "tmp"))
        unpack(program)
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target], layout=layout)
        self.addCleanup(gateway.end)
        return gateway

    def session(self, gateway: Gateway) -> None:
        """Let a person join and use the resource, and stop everything."""
        ada = gateway.add_person("ada", "ops")
        ada.up("echo")
        echoed(ada, b"from a static file")
        gateway.verify()
        for child in reversed(gateway.everyone):
            if into_container() is not None:
                self.assertEqual(os.readlink(f"/proc/{child.pid}/root"), str(empty_root()))
            self.assertEqual(child.stop(), 0, child.tail())

    @proves("U-REL-09", "X-85")
    def test_four_processes(self) -> None:
        """Authority, Proxy, Connector and the person's resident run from it, and a session."""
        gateway = self.gateway("four")
        self.assertEqual(sorted(gateway.roles), sorted((AUTHORITY, PROXY, CONNECTOR)))
        self.session(gateway)

    @proves("U-REL-09", "X-85")
    def test_one_process(self) -> None:
        """So does `svc all`."""
        gateway = self.gateway(ALL)
        self.assertEqual(list(gateway.roles), [ALL])
        self.session(gateway)


class LibraryTests(SynchronousTestCase):
    """What differs between C libraries: the one that svc runs with is glibc."""

    @proves("X-85")
    def test_allocator_and_threads(self) -> None:
        """Its allocator is glibc's, and a thread's stack as large as the limit of the process."""
        told = python(
            "import os, ctypes, threading\n"
            "libc = ctypes.CDLL(None)\n"
            "kept = ctypes.create_string_buffer(64)\n"
            "size = ctypes.c_size_t()\n"
            "def look():\n"
            "    libc.pthread_getattr_np(ctypes.c_ulong(threading.get_ident()), kept)\n"
            "    libc.pthread_attr_getstacksize(kept, ctypes.byref(size))\n"
            "one = threading.Thread(target=look)\n"
            "one.start()\n"
            "one.join()\n"
            "print(json.dumps([os.confstr('CS_GNU_LIBC_VERSION'), size.value,\n"
            "    hasattr(libc, 'mallinfo2')]))",
            preexec_fn=lambda: setrlimit(RLIMIT_STACK, (STACK, getrlimit(RLIMIT_STACK)[1])),
        )
        assert isinstance(told, list)
        self.assertRegex(told[0], r"^glibc 2\.")
        self.assertEqual(told[1], STACK)
        self.assertTrue(told[2])

    @proves("X-85")
    def test_search_of_names(self) -> None:
        """A name that has a dot is looked for in the search list as well: musl would not."""
        settings = empty_root() / "etc"
        settings.mkdir(exist_ok=True)
        self.addCleanup((settings / "resolv.conf").unlink)
        with name_server(
            {"db.one.corp.example": "192.0.2.7", "db.corp.example": "192.0.2.8"}
        ) as at:
            (settings / "resolv.conf").write_text(f"nameserver {at}\nsearch corp.example\n")
            told = python(
                "import socket\n"
                "names = ('db', 'db.one', 'db.one.corp.example')\n"
                "print(json.dumps([socket.getaddrinfo(one, 1)[0][4][0] for one in names]))"
            )
        self.assertEqual(told, ["192.0.2.8", "192.0.2.7", "192.0.2.7"])


@contextmanager
def name_server(names: dict[str, str]) -> Iterator[str]:
    """A DNS server that knows these names and addresses; where it listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        address = ".".join(str(part) for part in (127, *os.urandom(2), 53))
        try:
            server.bind((address, dns.PORT))
        except OSError as refused:
            raise SkipTest(f"needs root, who can be a DNS server: {refused.strerror}") from None
        thread = Thread(target=_answer, args=(server, names))
        thread.start()
        try:
            yield address
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", (address, dns.PORT))
            thread.join(60)


def _answer(server: socket.socket, names: dict[str, str]) -> None:
    """Answer until something empty comes."""
    while True:
        data, asker = server.recvfrom(4096)
        if not data:
            return
        asked = dns.Message()
        asked.fromStr(data)
        (query,) = asked.queries
        name = query.name.name.decode().lower()
        told = dns.Message(id=asked.id, answer=1, recDes=1, recAv=1)
        told.queries = asked.queries
        if name not in names:
            told.rCode = dns.ENAME
        elif query.type == dns.A:
            told.answers = [dns.RRHeader(name, dns.A, payload=dns.Record_A(names[name]))]
        server.sendto(told.toStr(), asker)

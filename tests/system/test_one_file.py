"""The one file of a release, alone in an empty directory: every role and command starts from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import copy

from twisted.trial.unittest import SynchronousTestCase

from contrib.rehearsal.stand import unpack
from contrib.release.launcher import BOOT, CHECKED, CONFIG
from contrib.release.one_file import PYTHON, TARGET, write_one_file
from svc import __version__
from svc.model.release import parse_version
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.settings import ALL, AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.support.proof import proves
from tests.support.wheels import folder, library_wheels, own_wheel
from tests.system.test_renewal import echoed
from tests.system.world import around
from tests.test_project import ROLES

RUN_BY = "make fault"

VERSION = parse_version(__version__)


@cache
def one_file() -> Path:
    """The file, built once."""
    made = folder() / VERSION.program(TARGET)
    write_one_file(made, VERSION, [*library_wheels(), own_wheel()])
    return made


@cache
def search_path() -> str:
    """A PATH on which the Python that built it is the one that its first line asks for."""
    place = folder() / "pythons"
    place.mkdir()
    place.joinpath(f"python{PYTHON}").symlink_to(os.path.realpath(sys.executable))
    return f"{place}:{os.environ['PATH']}"


class OneFileTests(SynchronousTestCase):
    """A copy of the file, and nothing else of svc."""

    def setUp(self) -> None:
        self.place = Path(os.path.abspath(self.mktemp()))
        self.place.mkdir()
        self.program = Path(copy(one_file(), self.place / "svc"))
        self.home = self.place.with_name(f"{self.place.name}-home")
        self.home.mkdir(mode=0o700)
        self.environ = {"PATH": search_path(), "HOME": str(self.home)}

    def run_file(self, *words: str, **more: str) -> str:
        """What the file prints; nothing of this environment but a PATH and a home."""
        environ = self.environ | more
        command = ["./svc", *words]
        done = subprocess.run(
            command, cwd=self.place, env=environ, capture_output=True, text=True, timeout=120
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def unpacked(self) -> Path:
        """The one environment that was unpacked."""
        (made,) = (self.home / ".cache" / "svc").iterdir()
        return made

    def gateway(self, layout: str) -> Gateway:
        """A gateway whose every process is this file."""
        own = {"PATH": search_path(), "XDG_CACHE_HOME": str(folder() / "cache")}
        self.patch(os, "environ", {**os.environ, **own, "SVC_TEST_PROGRAM": str(self.program)})
        unpack(self.program)
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target], layout=layout)
        self.addCleanup(gateway.end)
        return gateway

    def session(self, gateway: Gateway) -> None:
        """Let a person join and use the resource, and stop everything."""
        ada = gateway.add_person("ada", "ops")
        ada.up("echo")
        echoed(ada, b"from one file")
        gateway.verify()
        for child in reversed(gateway.everyone):
            self.assertIn(str(self.program), Path(f"/proc/{child.pid}/cmdline").read_text())
            self.assertEqual(child.stop(), 0, child.tail())

    @proves("G-GEN-01")
    def test_help(self) -> None:
        """It shows its help and version; it is unpacked for its user alone, and once."""
        self.assertIn("authority", self.run_file("--help"))
        made = self.unpacked()
        self.assertEqual(made.parent.stat().st_mode & 0o777, 0o700)
        when = made.stat().st_mtime_ns
        self.assertEqual(self.run_file("--version"), f"svc {__version__}\n")
        self.assertEqual(self.unpacked().stat().st_mtime_ns, when)
        self.assertEqual(os.listdir(self.place), ["svc"])

    @proves("G-GEN-01")
    def test_four_processes(self) -> None:
        """Authority, Proxy, Connector and the person's resident run from it, and a session."""
        gateway = self.gateway("four")
        self.assertEqual(sorted(gateway.roles), sorted((AUTHORITY, PROXY, CONNECTOR)))
        self.session(gateway)

    @proves("G-GEN-01")
    def test_one_process(self) -> None:
        """So does `svc all`."""
        gateway = self.gateway(ALL)
        self.assertEqual(list(gateway.roles), [ALL])
        self.session(gateway)

    def test_children(self) -> None:
        """The Python that svc starts its processes with finds svc, wherever it is called."""
        self.run_file("--version")
        python = self.unpacked() / "bin" / "python3"
        done = subprocess.run(
            [python, "-P", "-m", "svc", "--version"], env={}, capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stdout), (0, f"svc {__version__}\n"))

    def test_twistd(self) -> None:
        """Its twistd offers each role."""
        self.run_file("--version")
        code = "import sys; from twisted.scripts.twistd import run; sys.argv[1:]=['--help']; run()"
        python = self.unpacked() / "bin" / "python3"
        done = subprocess.run([python, "-I", "-c", code], env={}, capture_output=True, text=True)
        self.assertEqual(sorted(re.findall(r"^ +(svc-\w+) ", done.stdout, re.M)), ROLES)

    def test_foreign_modules(self) -> None:
        """No variable and no directory puts a module in the place of ours."""
        for place in (self.place, self.home):
            for name in ("svc", "click", "json", "sitecustomize"):
                (place / f"{name}.py").write_text("raise SystemExit('a foreign module')\n")
        told = self.run_file("--version", PYTHONPATH=str(self.home), PYTHONHOME="/nowhere")
        self.assertEqual(told, f"svc {__version__}\n")

    @proves("G-GEN-01")
    def test_cache_of_others(self) -> None:
        """What lies where everybody can write is not run; another place is taken."""
        self.run_file("--version")
        name = self.unpacked().name
        cache = self.place.with_name(f"{self.place.name}-cache")
        trap = cache / "svc" / name / "bin" / "python3"
        trap.parent.mkdir(parents=True)
        trap.write_text(f"#!/bin/sh\ntouch {cache}/ran\n")
        trap.chmod(0o755)
        (cache / "svc").chmod(0o777)
        told = self.run_file("--version", XDG_CACHE_HOME=str(cache))
        self.assertEqual(told, f"svc {__version__}\n")
        self.assertFalse((cache / "ran").exists())
        (cache / "svc").chmod(0o700)
        self.environ |= {"XDG_CACHE_HOME": str(cache)}
        (trap.parent.parent / CONFIG).write_text("include-system-site-packages = false\n")
        # As if it had been found whole since the machine was started.
        (trap.parent.parent / CHECKED).write_bytes(Path(BOOT).read_bytes())
        subprocess.run(["./svc"], cwd=self.place, env=self.environ, check=True)
        self.assertTrue((cache / "ran").exists(), "the trap would be run if it were trusted")

    def test_power_failure(self) -> None:
        """At the first start since the machine's, what is not as in the file is unpacked again."""
        self.run_file("--version")
        made = self.unpacked()
        module = made / "lib" / f"python{PYTHON}" / "site-packages" / "svc" / "start.py"
        whole = module.read_bytes()
        for text in (b"", b"x" * len(whole)):
            module.write_bytes(text)
            (made / "checked").write_text("another start")
            self.assertEqual(self.run_file("--version"), f"svc {__version__}\n")
            self.assertEqual(module.read_bytes(), whole)
        which = made.stat().st_ino
        (made / "checked").write_text("another start")
        self.run_file("--version")
        self.assertEqual((made.stat().st_ino, os.listdir(made.parent)), (which, [made.name]))
        self.assertNotEqual((made / "checked").read_text(), "another start")

    def test_no_environment(self) -> None:
        """Without its configuration it is unpacked again; a Python that has none ends in words."""
        self.run_file("--version")
        made = self.unpacked()
        (made / CONFIG).unlink()
        self.assertEqual(self.run_file("--version"), f"svc {__version__}\n")
        self.assertTrue((self.unpacked() / CONFIG).exists())
        # A Python that is named as that of the environment, and does not run as such.
        code = "import runpy, sys; sys.executable, sys.argv = sys.argv[1], sys.argv[2:]; "
        code += "runpy.run_path(sys.argv[0], run_name='__main__')"
        python = os.path.realpath(sys.executable)
        command = [python, "-I", "-c", code, str(made / "bin" / "python3"), "svc", "--version"]
        done = subprocess.run(
            command, cwd=self.place, env=self.environ, capture_output=True, text=True, timeout=120
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"remove {made}, and start again", done.stderr)

    def test_first_starts_at_once(self) -> None:
        """Several first starts at once all run, and leave one environment."""
        started = [
            subprocess.Popen(
                ["./svc", "--version"], cwd=self.place, env=self.environ, stdout=subprocess.PIPE
            )
            for _ in range(3)
        ]
        said = [one.communicate(timeout=120)[0] for one in started]
        self.assertEqual(said, [f"svc {__version__}\n".encode()] * 3)
        self.assertEqual(len(os.listdir(self.unpacked().parent)), 1)

"""Where ``svc`` begins: what the environment would have Python import is not (rule R21)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.python_environment import HARMLESS, obeyed, without_them
from svc.start import again, command
from svc.testing.gateway.processes import environment

SOURCES = Path(__file__).resolve().parent.parent
SCRIPT = """\
import sys
from svc.start import main
sys.exit(main())
"""
"""What an installer writes for the console script."""
ALONE = "include-system-site-packages = false\n"
SHADOWS = ("click", "attrs", "attr", "cryptography", "OpenSSL", "twisted", "logging", "json")
CUSTOMIZE = "import sys; open({mark!r}, 'a').write(' '.join(sys.orig_argv) + '\\n')\n"
SHADOW = "open({mark!r}, 'a').write({name!r})\nraise SystemExit(9)\n"


class WordTests(SynchronousTestCase):
    def test_obeyed(self) -> None:
        """Each variable of Python counts, but for a closed list and those that are empty."""
        environ = dict.fromkeys(HARMLESS, "1") | {"PYTHONPATH": "", "HOME": "/"}
        self.assertEqual(obeyed(environ), [])
        for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PYTHONOFTOMORROW"):
            found = environ | {name: "/x"}
            self.assertEqual(obeyed(found), [name])
            self.assertEqual(without_them(found) | {name: "/x"}, found)

    def test_command(self) -> None:
        """The command is found wherever ``--config`` stands."""
        for words in ("proxy-ssh x", "--config c proxy-ssh x", "-c c --config=d proxy-ssh x"):
            self.assertEqual(command(words.split()), "proxy-ssh")
        for words in ("", "--config proxy-ssh", "--help", "-c proxy-ssh up"):
            self.assertNotEqual(command(words.split()), "proxy-ssh")

    def test_anew(self) -> None:
        """The script is started again as it was called; our own file where PYTHONPATH led to it."""
        script = [__file__, "up"]
        self.assertEqual(again(script, {}), [sys.executable, "-P", __file__, "up"])
        main = str(SOURCES / "svc" / "__main__.py")
        led = again(script, {"PYTHONPATH": f"/x{os.pathsep}{SOURCES}"})
        self.assertEqual(led, [sys.executable, "-P", main, "up"])
        self.assertEqual(again(["-c"], {}), [sys.executable, "-P", main])


class ProcessTests(SynchronousTestCase):
    """Real processes over a folder that PYTHONPATH names, full of shadows."""

    def setUp(self) -> None:
        self.place = Path(os.path.realpath(tempfile.mkdtemp(prefix="svc-start-")))
        self.addCleanup(rmtree, self.place, True)
        self.evil, self.home = self.place / "evil", self.place / "home"
        self.evil.mkdir()
        self.home.mkdir()
        self.script = self.place / "svc"
        self.script.write_text(SCRIPT)
        self.mark, self.customized = self.place / "ran", self.place / "customized"
        for name in SHADOWS:
            text = SHADOW.format(mark=str(self.mark), name=name)
            (self.evil / f"{name}.py").write_text(text)
        text = CUSTOMIZE.format(mark=str(self.customized))
        (self.evil / "sitecustomize.py").write_text(text)

    def run_it(self, *words: str, python: str = sys.executable, **environ: str) -> tuple[int, str]:
        ran = subprocess.run(
            [python, *words],
            cwd=self.home,
            env=environment(self.home, environ),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.returncode, ran.stderr

    def test_shadows_do_not_run(self) -> None:
        """No module that PYTHONPATH shadows is imported; a sitecustomize ran before us alone."""
        made = ("init", "made", "--for", "connector", "--ca-pin", "0" * 64)
        for words in (
            (str(self.script), *made),
            ("-P", "-m", "svc", "--version"),
            ("-m", "svc", "--version"),
        ):
            self.customized.unlink(missing_ok=True)
            ran = self.run_it(*words, PYTHONPATH=str(self.evil))
            self.assertEqual(ran, (0, ran[1]))
            self.assertFalse(self.mark.exists(), words)
            (once,) = self.customized.read_text().splitlines()
            self.assertEqual(once, " ".join([sys.executable, *words]))

    def test_proxy_ssh_refuses(self) -> None:
        """What ssh starts for a person says which variable it is, and runs nothing of it."""
        for name in ("PYTHONPATH", "PYTHONSTARTUP"):
            status, said = self.run_it(
                str(self.script), "proxy-ssh", "db", **{name: str(self.evil)}
            )
            self.assertEqual(status, 1)
            self.assertIn(f"env -u {name} svc proxy-ssh", said)
        self.assertFalse(self.mark.exists())
        harmless = dict.fromkeys(HARMLESS - {"PYTHONIOENCODING"}, "1")
        status, said = self.run_it(str(self.script), "proxy-ssh", "db", **harmless)
        self.assertIn("svc join", said)

    def test_little_is_imported(self) -> None:
        """Before it asks the resident, proxy-ssh imports what it needs for that, and no more."""
        code = (
            "import sys; before = set(sys.modules); import svc.start, svc.client.hand_over; "
            "sys.exit(' '.join(sorted(set(sys.modules) - before)))"
        )
        _, said = self.run_it("-I", "-c", f"import sys; sys.path.append({str(SOURCES)!r}); {code}")
        imported = ("__future__", "_socket", "svc", "svc.client", "svc.client.hand_over")
        ours = ("svc.client.places", "svc.runtime", "svc.runtime.python_environment", "svc.start")
        self.assertEqual(said.split(), [*imported, *ours])

    def test_twistd_refuses(self) -> None:
        """A role under twistd ends: it cannot be started again from there."""
        twistd = "from twisted.scripts.twistd import run; run()"
        words = ("-n", "--pidfile=", "svc-connector", "--config", "none.toml")
        status, said = self.run_it("-P", "-c", twistd, *words, PYTHONPATH=str(self.home))
        self.assertEqual(status, 1, said)
        self.assertIn("twistd: PYTHONPATH in the environment", said)

    def test_installed_by_path_alone(self) -> None:
        """Where only PYTHONPATH leads to what svc needs, one line says so."""
        base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        bare = self.place / "bare"
        (bare / "bin").mkdir(parents=True)
        (bare / "bin" / "python").symlink_to(base)
        (bare / "pyvenv.cfg").write_text(f"home = {base.parent}\n{ALONE}", "utf-8")
        status, said = self.run_it(
            *("-m", "svc", "--version"),
            python=str(bare / "bin" / "python"),
            PYTHONPATH=str(SOURCES),
        )
        self.assertEqual(status, 1)
        self.assertRegex(said, "^svc: there is no module [a-z]+; svc takes none from PYTHONPATH")

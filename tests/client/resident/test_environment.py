"""The file that a person's shell sources."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from shutil import rmtree

from twisted.trial.unittest import SynchronousTestCase

from svc import __version__
from svc.client.resident.published.environment import (
    NAME,
    ListedFile,
    listed_files,
    write_environment,
)
from svc.kinds.kube.local import LOCAL as KUBE
from svc.kinds.tcp import LOCAL as TCP
from tests.support.proof import proves

SHOWN = 'printf "%s\\n%s\\n" "${KUBECONFIG-none}" "${PGSERVICEFILE-none}"'


class EnvironmentTests(SynchronousTestCase):
    """``env``, read by the machine's own POSIX shell."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="svc-test-it's a home-"))
        self.addCleanup(rmtree, self.home)
        self.state = self.home / ".svc"
        self.state.mkdir()

    def write(self, *names: str, services: bool = False) -> None:
        """Of these clusters, and of a port that no variable lists."""
        endpoints = [*((name, "kube") for name in names), ("port", "tcp")]
        files = listed_files(self.state, {"kube": KUBE, "tcp": TCP}, endpoints)
        write_environment(self.state, files, self.state / "pg.conf" if services else None)

    def sourced(self, times: int = 1, **environ: str) -> list[str]:
        """What a shell that stops at any fault has then."""
        script = '. "$HOME/.svc/env"; ' * times + SHOWN
        done = subprocess.run(
            ["sh", "-euc", script],
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    @proves("U-PHA-23")
    def test_sourced(self) -> None:
        """It lists each kubeconfig once, after what was there, however often it is sourced."""
        self.write("prod", "lab")
        ours = [f"{self.state}/kube/{name}.yaml" for name in ("prod", "lab")]
        usual = f"{self.home}/.kube/config"
        for times in (1, 3):
            self.assertEqual(self.sourced(times), [":".join([usual, *ours]), "none"])
        given = self.sourced(KUBECONFIG="/etc/k8s")
        self.assertEqual(given, [":".join(["/etc/k8s", *ours]), "none"])
        self.write("prod", "new")
        told = self.sourced(2, KUBECONFIG=":".join([usual, *ours]))
        self.assertEqual(told[0], ":".join([usual, *ours, f"{self.state}/kube/new.yaml"]))

    @proves("U-PHA-23")
    def test_nothing_to_tell(self) -> None:
        """Without endpoints it sets nothing, and a shell sources it all the same."""
        self.write()
        self.assertEqual(self.sourced(), ["none", "none"])
        self.assertEqual((self.state / NAME).stat().st_mode & 0o777, 0o600)
        self.assertIn(f" of svc {__version__} ", (self.state / NAME).read_text("utf-8"))

    def test_databases(self) -> None:
        """libpq's tools find the databases, unless the person has such a file."""
        self.write(services=True)
        self.assertEqual(self.sourced()[1], f"{self.state}/pg.conf")
        self.assertEqual(self.sourced(PGSERVICEFILE="/mine")[1], "/mine")
        (self.home / ".pg_service.conf").touch()
        self.assertEqual(self.sourced()[1], "none")

    def test_paths_that_no_list_can_hold(self) -> None:
        """A colon would be two paths; what a shell would expand is taken as it is."""
        files = [
            ListedFile("KUBECONFIG", "usual", Path(path))
            for path in ("/a:b", "/a\nb", "/$(exit 3)/`exit 3`/*")
        ]
        write_environment(self.state, files)
        told = self.sourced()[0]
        self.assertEqual(told, f"{self.home}/usual:/$(exit 3)/`exit 3`/*")

"""The helper as its unit runs it, with one capability and in another network than the resident's.

Without root the networks are those of a user's own namespace.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.support.proof import proves
from tests.support.tools import stock_tool

ROOT = Path(__file__).resolve().parents[3]

INSIDE = """
import fcntl, json, os, socket, struct, subprocess, sys, time
directory, setpriv, unshare, curl = sys.argv[1:]
with socket.socket() as any:
    # The loopback interface is down in a new network.
    fcntl.ioctl(any, 0x8914, struct.pack("16sh14x", b"lo", 1 | 64))

def kept(*names):
    caps = ",".join(["-all", *(f"+{name}" for name in names)])
    words = [setpriv, "--pdeathsig", "KILL", "--inh-caps", caps]
    return [*words, "--ambient-caps", caps, "--bounding-set", caps]

python = [sys.executable, "-m"]
svc = [unshare, "--net", *kept("net_bind_service"), *python, "svc", "client-net"]
environ = {**os.environ, "RUNTIME_DIRECTORY": directory, "STATE_DIRECTORY": directory}
helper = subprocess.Popen(svc, env=environ)
resident = subprocess.Popen(
    [*kept(), *python, "tests.client.low_ports.resident", directory + "/socket"],
    stdout=subprocess.PIPE, text=True,
)
try:
    told = json.loads(resident.stdout.readline())
    told["heard"] = subprocess.run(
        [curl, "-sS", "--noproxy", "*", "--max-time", "30", "http://" + told["address"] + "/"],
        capture_output=True, text=True,
    ).stdout
    with open(f"/proc/{helper.pid}/status") as status:
        told["helper"] = next(line.split()[1] for line in status if line.startswith("CapEff"))
    told["nets"] = [os.stat(f"/proc/{one}/ns/net").st_ino for one in (helper.pid, resident.pid)]
    print(json.dumps(told))
finally:
    for one in (helper, resident):
        one.kill()
        one.wait()
"""


class NamespaceTests(SynchronousTestCase):
    """Real processes in networks of their own."""

    def namespace(self, unshare: str) -> list[str]:
        """How the words of a program begin that runs in a network of its own, as its root."""
        for more in ((), ("--user", "--map-root-user")):
            new = [unshare, "--net", *more]
            if subprocess.run([*new, "true"], capture_output=True, check=False).returncode == 0:
                return new
        raise SkipTest("this machine lets us make no network namespace")

    @proves("U-PHA-13")
    def test_another_network(self) -> None:
        """It binds a socket of the resident's network, from another one, by one capability."""
        unshare, setpriv, curl = map(stock_tool, ("unshare", "setpriv", "curl"))
        new = self.namespace(unshare)
        directory = tempfile.mkdtemp(prefix="svc-")
        self.addCleanup(shutil.rmtree, directory)
        done = subprocess.run(
            [*new, sys.executable, "-c", INSIDE, directory, setpriv, unshare, curl],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["port"], told["alone"]), (80, "Permission denied"))
        self.assertEqual(told["heard"], "here")
        self.assertEqual(int(told["helper"], 16), 1 << 10)
        self.assertEqual(len(set(told["nets"])), 2)

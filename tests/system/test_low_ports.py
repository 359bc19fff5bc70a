"""Local endpoints below port 1024: a helper binds them for a resident without privileges."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.low_ports import HELPER_UID, as_user, scene
from tests.system.strangers import UID, as_stranger
from tests.system.world import sshd


def uids(pid: int) -> set[int]:
    """The real, effective, saved and file system's uid of a process."""
    return set(map(int, fields(pid)["Uid"].split()))


def fields(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


class LowPortsTests(SynchronousTestCase):
    """Real processes: a gateway, the helper, a resident, stock clients."""

    def setUp(self) -> None:
        self.scene = scene()
        self.addCleanup(self.scene.helper.end)
        self.addCleanup(self.scene.resident.end)

    def client(self, *words: str) -> Ran:
        """Run a tool as the person."""
        return run([*as_user(UID), *words], self.scene.home)

    @proves("U-PHA-13")
    def test_native_ports(self) -> None:
        """Stock clients reach an SSH host, a web application and a service at 22, 80 and 443."""
        ssh, curl = stock_tool("ssh"), stock_tool("curl")
        self.scene.start_client_net()
        self.scene.resident.start()
        host, port = self.scene.endpoint("host")
        self.assertEqual(port, 22)
        key = self.scene.home / "key"
        key.write_bytes((sshd().directory / "user_key").read_bytes())
        key.chmod(0o600)
        os.chown(key, UID, UID)
        options = [
            *("-F", "none", f"-oIdentityFile={key}", "-oIdentitiesOnly=yes", "-oBatchMode=yes"),
            *("-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"),
        ]
        said = self.client(ssh, *options, f"root@{host}", "echo", "hello").checked().stdout
        self.assertEqual(said, "hello\n")
        address, port = self.scene.endpoint("site")
        self.assertEqual(port, 80)
        got = self.client(curl, "-sS", "--noproxy", "*", f"http://{address}/public").checked()
        self.assertEqual(got.json["asked"], "GET /public")
        address, port = self.scene.endpoint("echo")
        self.assertEqual(port, 443)
        self.assertEqual(as_stranger(lambda: echoed((address, 443))), "hello")
        self.assertEqual(uids(self.scene.resident.pid), {UID})
        self.assertEqual(uids(self.scene.helper.pid), {HELPER_UID})


def echoed(address: tuple[str, int]) -> str:
    """What comes back."""
    with socket.create_connection(address, 30) as peer:
        peer.sendall(b"hello")
        return peer.recv(5, socket.MSG_WAITALL).decode()

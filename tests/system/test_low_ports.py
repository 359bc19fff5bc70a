"""Local endpoints below port 1024: a helper binds them for a resident without privileges."""

from __future__ import annotations

import json
import os
import socket
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import Ran, run, until
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.low_ports import HELPER_UID, as_user, scene
from tests.system.strangers import UID, as_stranger
from tests.system.world import sshd

RUN_BY = "make fault"

NO_ACCOUNT = 3_000_000
"""Of the range that useradd gives to the namespaces of a user."""

BIND_SERVICE = 1 << 10
"""CAP_NET_BIND_SERVICE."""


def capabilities(pid: int) -> int:
    """What the kernel lets a process do beyond its user's rights."""
    return int(fields(pid)["CapEff"], 16)


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
        self.assertNotEqual(capabilities(self.scene.helper.pid) & BIND_SERVICE, 0)
        bound = {(one["address"], one["port"]) for one in self.scene.helper.events("bound")}
        self.assertLessEqual({(host, 22), (address, 443)}, bound)
        self.assertEqual(capabilities(self.scene.resident.pid) & BIND_SERVICE, 0)

    def test_client_net_comes_and_goes(self) -> None:
        """The resident says what is missing, and opens once it is there; then it needs it no more.

        The helper may end: the ports stay open.  It has the same networks afterwards, and so the
        resident the same addresses.
        """
        self.scene.resident.start()

        def problem() -> str:
            return str(self.scene.endpoints().get("echo", {}).get("problem", ""))

        told = until("the problem", problem, alive=[self.scene.resident])
        for word in ("port", str(self.scene.socket), "svc service install client-net"):
            self.assertIn(word, told)
        self.scene.start_client_net()
        address = self.scene.endpoint("echo")
        self.assertEqual(address[1], 443)
        self.assertEqual(problem(), "")
        self.scene.helper.kill()
        self.assertTrue(self.scene.socket.exists())
        self.assertEqual(as_stranger(lambda: echoed(address)), "hello")
        self.scene.resident.stop()
        self.scene.start_client_net()
        self.scene.resident.start()
        self.assertEqual(self.scene.endpoint("echo"), address)
        self.assertEqual(as_stranger(lambda: echoed(address)), "hello")

    def test_other_users(self) -> None:
        """Nobody gets an address of another user, a system's, or one without an account."""
        self.scene.start_client_net()
        path = str(self.scene.socket)
        own = as_stranger(lambda: asked(path, {"ask": "network"})["network"])
        mine = asked(path, {"ask": "network"})["network"]
        self.assertFalse(IPv4Network(own).overlaps(IPv4Network(mine)))
        theirs = str(IPv4Network(own)[5])

        def tries() -> list[str]:
            return [
                asked(path, {"ask": "bind", "address": address, "port": 80})["error"]["reason"]
                for address in (theirs, "127.0.0.1", "0.0.0.0")
            ]

        self.assertEqual(tries(), ["address_not_yours"] * 3)
        self.assertEqual(
            as_stranger(lambda: asked(path, {"ask": "bind", "address": theirs, "port": 80})),
            {"bound": True},
        )
        refused = as_stranger(lambda: asked(path, {"ask": "network"}), NO_ACCOUNT)
        self.assertEqual(refused["error"]["reason"], "no_account")
        until("the refusals in the log", lambda: self.scene.helper.events("refused")[3:])
        told = self.scene.helper.events("refused")
        self.assertEqual(
            [(one["uid"], one["reason"]) for one in told],
            [(os.getuid(), "address_not_yours")] * 3 + [(NO_ACCOUNT, "no_account")],
        )
        self.assertEqual(self.scene.networks.stat().st_mode & 0o777, 0o600)


def asked(path: str, question: dict[str, Any]) -> Any:
    """What the helper answers, which is given a new socket."""
    with socket.socket(socket.AF_UNIX) as asking, socket.socket() as made:
        asking.settimeout(30)
        asking.connect(path)
        socket.send_fds(asking, [json.dumps(question).encode() + b"\n"], [made.fileno()])
        return json.loads(asking.makefile("rb").readline())


def echoed(address: tuple[str, int]) -> str:
    """What comes back."""
    with socket.create_connection(address, 30) as peer:
        peer.sendall(b"hello")
        return peer.recv(5, socket.MSG_WAITALL).decode()

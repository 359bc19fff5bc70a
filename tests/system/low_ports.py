"""A helper that may bind ports below 1024 and no more, and a resident of a user who may not."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from unittest import SkipTest

from attrs import define, field

from svc.client.low_ports.helped import may_bind
from svc.client.low_ports.networks import MOST, NAME
from svc.client.resident.control import ask_resident
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import TIMEOUT_SECS, Child, svc_command, until
from svc.testing.gateway.settings import GatewayTarget, toml
from tests.support.tools import stock_tool
from tests.system.board import KINDS, Site, enable
from tests.system.strangers import UID, as_stranger, need_root
from tests.system.world import around, sshd

HELPER_UID = 54322
"""No account's: it is only not root's, and not the person's."""

PORTS = (22, 80, 443)


def as_user(uid: int, *capabilities: str) -> list[str]:
    """How the words of a program begin that runs as a user, with these capabilities alone."""
    kept = ",".join(f"+{one}" for one in (_reading(), *capabilities))
    return [
        stock_tool("setpriv"),
        *("--reuid", str(uid), "--regid", str(uid), "--clear-groups"),
        *("--inh-caps", f"-all,{kept}", "--ambient-caps", f"-all,{kept}"),
        *("--bounding-set", f"-all,{kept}"),
    ]


def _reading() -> str:
    """A capability that we have to give away: the program may lie where only its owner looks."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    own = int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)
    return "dac_read_search" if own & 1 << 2 else "dac_override"


@define(eq=False, slots=False)
class LowPortsScene:
    """The two processes, and what the resident leads to.

    Attributes:
        directory: Everybody may enter it; the directories in it are the users' own.
    """

    gateway: Gateway
    directory: Path
    site: Site
    helper: Child = field(init=False)
    resident: Child = field(init=False)

    def __attrs_post_init__(self) -> None:
        for name in ("runtime", "state"):
            made = self.directory / name
            made.mkdir(mode=0o755 if name == "runtime" else 0o700)
            os.chown(made, HELPER_UID, HELPER_UID)
        # Who runs these tests beside us has another one.
        networks = {"version": 1, "networks": {str(UID): os.getpid() % MOST}}
        self.networks.write_text(json.dumps(networks))
        os.chown(self.networks, HELPER_UID, HELPER_UID)
        self.helper = Child(
            name="client-net",
            words=[*as_user(HELPER_UID, "net_bind_service"), *svc_command("client-net")],
            home=self.directory,
            log=self.directory / "client-net.log",
            environ={
                "SVC_LOG_FORMAT": "json",
                "RUNTIME_DIRECTORY": str(self.directory / "runtime"),
                "STATE_DIRECTORY": str(self.directory / "state"),
            },
        )
        self.resident = Child(
            name="up",
            words=[*as_user(UID), *svc_command("up")],
            home=self.home,
            log=self.directory / "up.log",
            environ={"SVC_LOG_FORMAT": "json"},
        )

    @property
    def socket(self) -> Path:
        """The helper's."""
        return self.directory / "runtime/socket"

    @property
    def networks(self) -> Path:
        """Its memory."""
        return self.directory / "state" / NAME

    @property
    def home(self) -> Path:
        """The person's, who is the user :data:`tests.system.strangers.UID`."""
        return self.directory / "home"

    def join(self) -> None:
        """Let the person join, whose local ports are the native ones."""
        gateway = self.gateway
        words = ("persons", "add", "ada", "--group", "ops", "--create-groups")
        token = gateway.operator(*words).stdout.strip()
        person = GatewayPerson("ada", self.home, gateway.files.cluster)
        person.join(gateway.public, gateway.pin, token)
        enable(person)
        with (person.directory / "client.toml").open("a") as config:
            table = {"native_port_offset": 0, "low_ports_socket": str(self.socket)}
            config.write(f"\n[client]\n{toml(table)}")
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, UID, UID, follow_symlinks=False)

    def start_client_net(self) -> None:
        """Start it, and wait until it listens."""
        self.helper.start()
        until("the helper", self.listens, alive=[self.helper])

    def listens(self) -> bool:
        """Whether the helper accepts connections."""
        with socket.socket(socket.AF_UNIX) as tried:
            return tried.connect_ex(str(self.socket)) == 0

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """What the resident says of each resource."""
        run = self.home / ".svc/run"
        told = as_stranger(lambda: ask_resident(run, {"ask": "status"}, TIMEOUT_SECS))
        return {one["resource"]: one for one in (told or {}).get("endpoints", ())}

    def endpoint(self, resource: str) -> tuple[str, int]:
        """Host and port of a resource, waited for."""

        def look() -> str:
            one = self.endpoints().get(resource, {})
            return str(one["address"]) if one.get("served") else ""

        host, _, port = until(resource, look, alive=[self.resident]).rpartition(":")
        return host, int(port)


@cache
def scene() -> LowPortsScene:
    """The scene of this process's tests; neither of the two processes runs yet.

    Raises:
        SkipTest: nobody can be another user here, or every user may bind every port.
    """
    need_root()
    if as_stranger(lambda: may_bind(1)):
        raise SkipTest("every user of this machine may bind ports below 1024")
    for port in PORTS:
        try:
            with socket.create_server((f"127.62.{os.getpid() % 251}.1", port)):
                pass
        except OSError:
            raise SkipTest(f"another program listens on port {port} of every address") from None
    directory = Path(tempfile.mkdtemp(prefix="svc-low-ports-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    directory.chmod(0o755)
    site, echo = Site(), around().ports["echo"]
    gateway = make_gateway(
        [
            GatewayTarget("host", sshd().address, "ssh"),
            GatewayTarget("site", f"127.0.0.1:{site.server_port}", "web"),
            GatewayTarget("echo", f"127.0.0.1:{echo}", labels=("port=443",)),
        ],
        layout="all",
        numbers={"plugins.kinds": KINDS},
    )
    made = LowPortsScene(gateway, directory, site)
    made.join()
    return made

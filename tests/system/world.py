"""A gateway with everything around it that session tests need; one a layout and process."""

from __future__ import annotations

import atexit
import json
import shutil
import socket
import sys
import tempfile
from functools import cache
from pathlib import Path

from attrs import define

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until
from svc.testing.gateway.settings import GatewayTarget
from tests.support.tools import find_tool
from tests.system.sshd import Sshd, start_sshd


@define(eq=False, slots=False)
class Around:
    """What the gateway leads to.

    Attributes:
        ports: Of ``tests.system.targets``, by name.
    """

    directory: Path
    targets: Child
    ports: dict[str, int]
    web: Child
    web_port: int

    @property
    def resources(self) -> list[GatewayTarget]:
        """Everything, as resources; ``vault`` is closed to everybody, ``gone`` answers nothing."""
        return [
            *(self._target(name, self.ports[name]) for name in ("echo", "sink", "source")),
            self._target("web", self.web_port),
            GatewayTarget("vault", f"127.0.0.1:{self.ports['echo']}", labels=("closed=yes",)),
            GatewayTarget("gone", "127.0.0.1:9"),
        ]

    def sent(self) -> int:
        """How many bytes the sources have handed to their kernel."""
        return self._number("sent")

    def seen(self) -> int:
        """How many connections the echo service has had."""
        return self._number("seen")

    def _number(self, name: str) -> int:
        with socket.create_connection(("127.0.0.1", self.ports[name]), 10) as asked:
            return int(asked.makefile("rb").read())

    def _target(self, id: str, port: int) -> GatewayTarget:
        return GatewayTarget(id, f"127.0.0.1:{port}")


@define(eq=False, slots=False)
class World:
    """A gateway, its targets, a person whose resident runs."""

    gateway: Gateway
    around: Around
    person: GatewayPerson

    def connect(self, resource: str, seconds: float = 60.0) -> socket.socket:
        """A connection to the resident's port of a resource."""
        return socket.create_connection(self.person.endpoint(resource), seconds)


@cache
def around() -> Around:
    """The targets of this process's tests."""
    directory = Path(tempfile.mkdtemp(prefix="svc-around-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    pages = directory / "pages"
    pages.mkdir()
    pages.joinpath("page.txt").write_text("a page behind the gateway\n", "ascii")
    words = [sys.executable, "-m", "tests.system.targets"]
    targets = Child(name="targets", words=words, home=directory, log=directory / "targets.log")
    targets.start()
    server = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    web = Child(
        name="web",
        words=[*server, "--directory", str(pages)],
        home=directory,
        log=directory / "web.log",
    )
    web.start()
    ports = json.loads(until("targets", lambda: _first_line(targets), alive=[targets]))
    served = until("web server", lambda: _first_line(web), alive=[web])
    return Around(
        directory=directory,
        targets=targets,
        ports=ports,
        web=web,
        web_port=int(served.partition(" port ")[2].split()[0]),
    )


@cache
def sshd() -> Sshd:
    """The sshd of this process's tests.

    Raises:
        SkipTest: a tool is missing.
    """
    return start_sshd(around().directory / "sshd")


@cache
def world(layout: str) -> World:
    """A world of this layout, started once and ended with this process.

    Args:
        layout: ``four`` processes whose sessions stay in the tunnel, ``lanes``: four whose
            sessions all leave it at once, or ``all``: one, as it is shipped.
    """
    services = around()
    has_sshd = find_tool("sshd") is not None and find_tool("ssh-keygen") is not None
    # Where there is no sshd the two resources lead nowhere, and only ssh tests miss it.
    host = sshd().address if has_sshd else "127.0.0.1:9"
    offered = [*services.resources, GatewayTarget("host", host, "ssh")]
    offered.append(GatewayTarget(id="jail", address=host, kind="ssh", labels=("closed=yes",)))
    environ = {"proxy": {"SVC_PROXY__DIRECT_LANE": "false"}} if layout == "four" else None
    processes = "all" if layout == "all" else "four"
    gateway = make_gateway(offered, layout=processes, environ=environ)
    person = gateway.add_person("ada", "ops")
    if layout == "lanes":
        with (person.directory / "client.toml").open("a") as config:
            config.write("\n[client]\ndirect_lane_after = 0\n")
    person.up("echo", "sink", "source", "web", "host")
    return World(gateway, services, person)


def _first_line(child: Child) -> str:
    text = child.text()
    return text.partition("\n")[0] if "\n" in text else ""

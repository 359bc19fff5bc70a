"""A host whose SSH ends at its Connector, behind a gateway of real processes: shared by modules."""

from __future__ import annotations

import json
import os
import pwd
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attrs import define

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Ran, run, until
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.tools import stock_tool
from tests.system.sshd import Sshd
from tests.system.world import around, sshd

GATED, STRANGE, UNKNOWN = "gated", "strange", "unknown"
"""As it is; whose host key is another; that does not know the Connector's key."""


@define(eq=False, slots=False)
class GatedHost:
    """The gateway, its host and a person with a resident."""

    gateway: Gateway
    host: Sshd
    person: GatewayPerson
    name: str = GATED

    def options(self, *more: str) -> list[str]:
        """For stock ssh, scp and sftp: the fragment that svc up wrote, and no file of the user."""
        fragment = self.person.directory / "ssh" / f"{self.name}.conf"
        given = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": "/dev/null",
            "IdentityAgent": "none",
            "IdentityFile": "none",
            "LogLevel": "ERROR",
            "User": account(),
            "ProxyCommand": self.person.proxy_command("--user", "%r"),
        }
        return ["-F", str(fragment), *(f"-o{name}={value}" for name, value in given.items()), *more]

    def ssh(
        self,
        *words: str,
        stdin: bytes = b"",
        options: Sequence[str] = (),
        name: str = "",
    ) -> Ran:
        """Run stock ssh to the host; *options* come before ours, so they win."""
        command = [stock_tool("ssh"), *options, *self.options(), name or self.name, *words]
        return run(command, self.person.home, stdin=stdin, seconds=60)

    def ssh_as_written(self, *words: str) -> Ran:
        """Run stock ssh with the ProxyCommand of the fragment itself."""
        options = [one for one in self.options() if not one.startswith("-oProxyCommand")]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        command = ["/usr/bin/env", f"PATH={path}", stock_tool("ssh"), *options, *words]
        return run(command, self.person.home, seconds=60)

    @property
    def echo(self) -> int:
        """The port of an echo service on the host."""
        return around().ports["echo"]

    @property
    def environ(self) -> dict[str, str]:
        """Of the person's programs."""
        return {"HOME": str(self.person.home), "PATH": os.environ.get("PATH", os.defpath)}


def recording_of(gateway: Gateway, done: Ran) -> dict[str, Any]:
    """The one recording of the session that ssh told of, once it is complete."""
    found = re.search("decision ([0-9a-f]{32})", done.stdout + done.stderr)
    assert found is not None, done
    decision = found[1]

    def listed() -> list[Any]:
        said = gateway.operator("recordings", "list", "--json").stdout
        return [
            one
            for one in json.loads(said)
            if one["decision_id"] == decision and one["state"] == "complete"
        ]

    [one] = until("the recording", listed, 20)
    return one  # type: ignore[no-any-return]


def account() -> str:
    """Whoever runs the tests, which is the account that the stock sshd lets in."""
    return pwd.getpwuid(os.getuid()).pw_name


def gated_target(host: Sshd, name: str = GATED, **more: object) -> GatewayTarget:
    """The resource of an sshd whose SSH ends at the Connector."""
    directory: Path = host.directory
    kind, key, *_ = (directory / "host_key.pub").read_text("ascii").split()
    table = {
        "onward": "stored_key",
        "host_keys": [f"{kind} {key}"],
        "key_files": {account(): str(directory / "user_key")},
        **more,
    }
    return GatewayTarget(name, host.address, "ssh", more=table, onward="stored_key")


@cache
def gated_host() -> GatedHost:
    """The shared one.

    Raises:
        SkipTest: sshd or ssh-keygen is not installed.
    """
    host = sshd()
    other = host.directory / "other_key"
    run([stock_tool("ssh-keygen"), "-qted25519", "-N", "", "-f", str(other)], host.directory)
    kind, key, *_ = other.with_suffix(".pub").read_text("ascii").split()
    targets = [
        gated_target(host),
        gated_target(host, STRANGE, host_keys=[f"{kind} {key}"]),
        gated_target(host, UNKNOWN, key_files={account(): str(other)}),
    ]
    gateway = make_gateway(targets, policy=POLICY)
    person = gateway.add_person("ada", "ops")
    person.up(GATED)
    return GatedHost(gateway, host, person)

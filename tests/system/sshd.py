"""A stock sshd of the test's own: its key, its configuration, its port, nobody else's."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from attrs import define

from svc.testing.gateway.files import free_ports
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, until
from tests.support.tools import stock_tool

_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
UseDNS no
MaxStartups 100
Subsystem sftp internal-sftp
"""


@define(eq=False, slots=False)
class Sshd:
    """A running sshd that lets the test's user in by key."""

    directory: Path
    port: int
    child: Child

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def options(self, proxy_command: str) -> list[str]:
        """Options for ``ssh`` and ``scp`` that read nothing of the developer's."""
        known = self.directory / "known_hosts"
        said = {
            "IdentityFile": self.directory / "user_key",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": known,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "HostKeyAlias": "target",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
            "User": pwd.getpwuid(os.getuid()).pw_name,
            "ProxyCommand": proxy_command,
        }
        return ["-F", "none", *(f"-o{name}={value}" for name, value in said.items())]

    def tool(self, name: str, person: GatewayPerson) -> list[str]:
        """How an argument vector of ``ssh`` or ``scp`` begins; run it with the person's HOME."""
        return [stock_tool(name), *self.options(person.proxy_command())]


def start_sshd(directory: Path, more: str = "") -> Sshd:
    """Start one whose files are in *directory*.

    Args:
        more: Lines of its configuration that come first, so they win.

    Raises:
        SkipTest: sshd or ssh-keygen is not installed.
    """
    sshd, keygen = stock_tool("sshd"), stock_tool("ssh-keygen")
    directory.mkdir(mode=0o700)
    for name in ("host_key", "user_key"):
        subprocess.run(
            [keygen, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(directory / name)],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    host_key = (directory / "host_key.pub").read_text("ascii")
    (directory / "known_hosts").write_text(f"target {host_key}", "ascii")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # it does not start without it
    port = free_ports()[0]  # sshd takes none from the kernel
    config = directory / "sshd_config"
    config.write_text(more + _CONFIG.format(port=port, directory=directory), "ascii")
    words = [sshd, "-D", "-e", "-f", str(config)]
    child = Child(name="sshd", words=words, home=directory, log=directory / "sshd.log")
    child.start()
    until("sshd listens", lambda: "Server listening on" in child.text(), alive=[child])
    return Sshd(directory, port, child)

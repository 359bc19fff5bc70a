"""At a person: the port of SSH, and files by which ssh finds a host and knows its gate's key."""

from __future__ import annotations

from attrs import field, frozen
from zope.interface import implementer

from svc.errors import Malformed
from svc.interfaces.kinds import IDescribedEndpoint, IGreetedEndpoint
from svc.kinds.opaque import LabelledPort
from svc.kinds.ssh.host_key import LONGEST, greeted

FIRST_LINE = "# Written by svc; what you change here is lost when it is written again.\n"
_SYSTEM = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"


@implementer(IDescribedEndpoint, IGreetedEndpoint)
@frozen(kw_only=True)
class SshEndpoint(LabelledPort):
    """The files are a fragment of ssh's configuration for each resource, and the key of its gate.

    The key stands beside the person's own known hosts, so a host whose SSH passes through the
    gateway goes on being known by its own key.
    """

    directory: str = field(default="ssh")
    longest_greeting: int = field(default=LONGEST)

    def file_name(self, resource: str) -> str:
        """See IDescribedEndpoint."""
        return f"{resource}.conf"

    def description(
        self, cluster: str, resource: str, address: str, *, place: str = "", options: str = ""
    ) -> bytes:
        """See IDescribedEndpoint."""
        if any(character in place for character in '"\n\r'):
            raise Malformed(f"the path {place!r} cannot stand in a configuration of ssh")
        host, _, _ = address.rpartition(":")
        known = f"{place}/{_known(resource)}".replace("%", "%%")
        command = f"svc proxy-ssh {resource} --user %r{options.replace('%', '%%')}"
        lines = (
            f"Host {resource} {host}",
            f"    HostKeyAlias {resource}",
            f'    GlobalKnownHostsFile "{known}" {_SYSTEM}',
            f"    ProxyCommand {command}",
        )
        return (FIRST_LINE + "\n".join(lines) + "\n").encode("utf-8")

    def greeted(self, resource: str, line: bytes) -> tuple[str, bytes]:
        """See IGreetedEndpoint: the gate's key, as a file of known hosts."""
        return _known(resource), f"{FIRST_LINE}{resource} {greeted(line)}\n".encode("ascii")


def _known(resource: str) -> str:
    return f"{resource}.known_hosts"


LOCAL = SshEndpoint(default_port=22)

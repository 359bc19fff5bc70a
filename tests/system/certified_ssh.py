"""Hosts that trust Authority's certificates and no key: shared by modules."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from svc.testing.gateway.gateway import make_gateway
from svc.testing.gateway.processes import run
from svc.testing.gateway.settings import POLICY, GatewayTarget
from tests.support.tools import stock_tool
from tests.system.gated_ssh import GatedHost, account, gated_target
from tests.system.sshd import Sshd, start_sshd
from tests.system.world import around

CERTIFIED, FOREIGN, OTHERS, DIFFERENT = "certified", "foreign", "others", "different"
"""A host as it should be; one that trusts another CA; one that lets nobody in by these accounts;
one whose mode is another in the catalog."""

_TRUST = """\
TrustedUserCAKeys {directory}/ca.pub
AuthorizedPrincipalsFile {directory}/principals
AuthorizedKeysFile none
LogLevel VERBOSE
"""


def _host(name: str, place: Path, principals: str) -> Sshd:
    directory = place / name
    host = start_sshd(directory, _TRUST.format(directory=directory))
    (directory / "principals").write_text(f"{principals}\n", "ascii")
    return host


def _target(host: Sshd, name: str) -> GatewayTarget:
    made = gated_target(host, name, onward="certificate", record_input=True)
    table = {key: value for key, value in made.more.items() if key != "key_files"}
    return GatewayTarget(name, host.address, "ssh", more=table, onward="certificate")


@cache
def certified_hosts() -> tuple[GatedHost, dict[str, Sshd]]:
    """The shared gateway, and its hosts by the names of their resources.

    Raises:
        SkipTest: sshd or ssh-keygen is not installed.
    """
    place = around().directory / "certified"
    place.mkdir(mode=0o700)
    me = account()
    hosts = {
        name: _host(name, place, me if name != OTHERS else "somebody-else")
        for name in (CERTIFIED, FOREIGN, OTHERS)
    }
    targets = [_target(host, name) for name, host in hosts.items()]
    other = gated_target(hosts[CERTIFIED], DIFFERENT)
    targets.append(
        GatewayTarget(DIFFERENT, other.address, "ssh", more=other.more, onward="certificate")
    )
    gateway = make_gateway(targets, policy=POLICY)
    line = gateway.operator("ca", "export", "onward_ssh").checked().stdout
    for name in (CERTIFIED, OTHERS):
        (hosts[name].directory / "ca.pub").write_text(line, "ascii")
    foreign = hosts[FOREIGN].directory / "ca"
    run([stock_tool("ssh-keygen"), "-qted25519", "-N", "", "-f", str(foreign)], place)
    person = gateway.add_person("ada", "ops")
    person.up(CERTIFIED)
    return GatedHost(gateway=gateway, host=hosts[CERTIFIED], person=person, name=CERTIFIED), hosts

"""SSH hosts, reached at their own sshd: the gate that speaks SSH is not here."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.opaque import AddressDialer, LabelledPort

TERMS = KindTerms(
    "Server",
    open_action="sshConnect",
    actions={"sshConnect": "connect"},
    context={"login_user": "String personal claimed"},
    protocol="ssh",
)
DIALER = AddressDialer(kind="ssh", default_port=22)
LOCAL = LabelledPort(default_port=22)

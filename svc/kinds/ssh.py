"""SSH hosts, reached at their own sshd: the gate that speaks SSH is not here."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.opaque import AddressDialer, LabelledPort
from svc.model.session.parameters import Parameter

TERMS = KindTerms(
    "Server",
    open_action="sshConnect",
    actions={"sshConnect": "connect"},
    # No dialer of ours sees the account that ssh asks for inside its own encryption.
    parameters={"login_user": Parameter(fact="personal")},
    protocol="ssh",
)
DIALER = AddressDialer(kind="ssh", default_port=22)
LOCAL = LabelledPort(default_port=22)

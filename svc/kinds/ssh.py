"""SSH hosts, reached at their own sshd: the gate that speaks SSH is not here."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.opaque import OpaqueKind

ssh = OpaqueKind(
    name="ssh",
    terms=KindTerms(
        "Server",
        open_action="sshConnect",
        actions=("sshConnect",),
        context={"login_user": "String personal claimed"},
    ),
    default_port=22,
)

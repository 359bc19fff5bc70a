"""Any TCP service, as bytes: the plainest kind."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.opaque import OpaqueKind

tcp = OpaqueKind(
    name="tcp",
    terms=KindTerms("TcpService", open_action="tcpConnect", actions=("tcpConnect",)),
)

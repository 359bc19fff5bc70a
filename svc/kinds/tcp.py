"""Any TCP service, as bytes: the plainest kind."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.opaque import AddressDialer, LabelledPort

TERMS = KindTerms(
    "TcpService",
    open_action="tcpConnect",
    actions={"tcpConnect": "connect"},
    protocol="tcp",
)
DIALER = AddressDialer(kind="tcp")
LOCAL = LabelledPort()

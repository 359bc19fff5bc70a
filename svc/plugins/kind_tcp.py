"""Drop-in: the resource kind ``tcp``."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="tcp",
    terms="svc.kinds.tcp:TERMS",
    dialer="svc.kinds.tcp:DIALER",
    local="svc.kinds.tcp:LOCAL",
)

"""Drop-in: the resource kind ``ssh``."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="ssh",
    terms="svc.kinds.ssh:TERMS",
    dialer="svc.kinds.ssh:DIALER",
    local="svc.kinds.ssh:LOCAL",
)

"""Drop-in: the resource kind ``ssh``."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="ssh",
    terms="svc.kinds.ssh.terms:TERMS",
    dialer="svc.kinds.ssh.dialer:DIALER",
    local="svc.kinds.ssh.local:LOCAL",
)

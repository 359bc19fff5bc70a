"""Drop-in: the resource kind ``web``."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="web",
    terms="svc.kinds.web.terms:TERMS",
    dialer="svc.kinds.web.dialer:DIALER",
    gate="svc.kinds.web.gate:serve",
    local="svc.kinds.web.local:LOCAL",
)

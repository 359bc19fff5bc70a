"""Drop-in: the resource kind ``kube``."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="kube",
    terms="svc.kinds.kube.terms:TERMS",
    dialer="svc.kinds.kube.dialer:DIALER",
    gate="svc.kinds.kube.gate:serve",
    local="svc.kinds.kube.local:LOCAL",
)

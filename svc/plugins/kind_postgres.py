"""Drop-in: the resource kind ``postgres``, whose statements are decided one by one."""

from svc.interfaces.kinds import Kind

KIND = Kind(
    name="postgres",
    terms="svc.kinds.postgres.terms:TERMS",
    dialer="svc.kinds.postgres.dialer:DIALER",
    gate="svc.kinds.postgres.gate:serve",
    local="svc.kinds.postgres.local:LOCAL",
)

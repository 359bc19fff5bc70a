"""Drop-in: the resource kind ``redis``, whose inline commands are decided one by one."""

from svc.interfaces.kinds import Kind

REDIS = Kind(
    name="redis",
    terms="svc_redis.terms:TERMS",
    dialer="svc_redis.dialer:DIALER",
    gate="svc_redis.gate:serve",
    local="svc_redis.local:LOCAL",
)

"""The closed table of all checks, in the order in which they are made and told."""

from __future__ import annotations

from svc.ops.doctor import (
    audit,
    cluster,
    config,
    identity,
    network,
    policy,
    roots,
    served,
    service,
    store,
)
from svc.ops.doctor.check import Check

CHECKS: tuple[Check, ...] = (
    # First, because without the state directory most others are not made.
    *identity.FIRST,
    *config.CHECKS,
    *store.CHECKS,
    *audit.CHECKS,
    *identity.CHECKS,
    *roots.OWN,
    *network.CHECKS,
    *service.CHECKS,
    *cluster.CHECKS,
    *roots.CHECKS,
    *policy.CHECKS,
    *served.CHECKS,
)
IDS = tuple(check.id for check in CHECKS)

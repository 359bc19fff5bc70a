"""What the roles of one process share."""

from __future__ import annotations

from attrs import frozen

from svc.compose.health import LastChecks
from svc.compose.reload.keys import ReloadableKeys


@frozen(kw_only=True)
class ProcessParts:
    """See the module.

    Attributes:
        reloads: The keys that take effect without a restart; each role adds its own.
    """

    checks: LastChecks
    reloads: ReloadableKeys

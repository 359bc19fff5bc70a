"""The audit log as an outsider reads it: from the store's file, the heads and the root alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import frozen

from svc.audit.log.verify import Verified
from svc.config import RoleSettings
from svc.interfaces.store import ITransaction
from svc.ops.store import store_place
from svc.ops.verify.log import outside_log

_NEWEST = 512
"""Records among which a decision is looked for."""


@frozen
class Log:
    """The log of the Authority that ``svc all`` with these settings runs; calls block."""

    settings: RoleSettings

    def verified(self) -> Verified:
        """Compute everything again.

        Raises:
            AuditBroken: naming the first record that is not as it was.
        """
        return outside_log(self.settings, Path(self.settings.state_dir) / "authority").verified()

    def decision(self, resource: str) -> dict[str, Any] | None:
        """The newest decision about a resource: the record, or None."""

        def look(tx: ITransaction) -> dict[str, Any] | None:
            for row in reversed(tx.audit.tail(_NEWEST)):
                record: dict[str, Any] = json.loads(row.canonical)
                if "decision" in record and record.get("resource_id") == resource:
                    return record
            return None

        return store_place(self.settings).look("find a decision in the audit log", look)

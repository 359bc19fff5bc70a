"""The targets that a Connector's configuration declares, and which addresses it may dial."""

from __future__ import annotations

from functools import partial

from svc.compose.drop_ins import Kinds
from svc.compose.reload.keys import InForce, ReloadableKeys
from svc.config import RoleSettings
from svc.connector.reach import Reach, parse_reach
from svc.errors import ConfigError
from svc.model.cluster.target import Target


def read_targets(settings: RoleSettings, kinds: Kinds) -> dict[str, Target]:
    """The targets of the configuration, each table read by its kind.

    Raises:
        ConfigError: naming the key.
    """
    targets: dict[str, Target] = {}
    for table in settings.connector.resources:
        kind = kinds.by_name.get(table.kind)
        if kind is None:
            enabled = ", ".join(sorted(kinds.by_name)) or "none"
            raise ConfigError(
                f"{table.key_path}.kind",
                f"{table.kind}: not enabled in plugins.kinds ({enabled})",
            )
        targets[table.id] = kind.dialer.parse(table.id, table.table, table.key_path)
    return targets


def reach_in_force(reloads: ReloadableKeys) -> InForce[Reach]:
    """What ``connector.reach`` allows now, as a reload may change it.

    Raises:
        ConfigError: it is malformed.
    """
    reach = InForce(parse_reach(reloads.settings.connector.reach))
    reloads.prepare(
        "connector.reach",
        by=lambda changed: partial(reach.take, parse_reach(changed.connector.reach)),
    )
    return reach

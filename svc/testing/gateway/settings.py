"""What a test's gateway is configured with, and how that becomes a configuration file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from svc.config.keys import KEYS

AUTHORITY, PROXY, CONNECTOR, ALL = "authority", "proxy", "connector", "all"
ROLES = (AUTHORITY, PROXY, CONNECTOR)
POLICY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);

@id("ops-all")
permit (principal in Group::"ops", action, resource);

@id("closed") @reason("closed for repairs")
forbid (principal, action in Action::"use", resource)
when { resource.hasTag("closed") };
"""
"""Persons of the group ``ops`` view everything and use whatever is not labelled ``closed``."""

SHORT: Mapping[str, Any] = {
    "tunnel.backoff_first_secs": 0.1,
    "tunnel.backoff_max_secs": 0.4,
    "snapshot.heartbeat_secs": 0.5,
    "snapshot.reload_secs": 2,
    "limits.drain_secs": 1,
    "limits.least_ping_secs": 0.2,
    "limits.anonymous_per_minute": 6000,
    "limits.anonymous_burst": 1000,
    "limits.connections_per_minute": 1_000_000,
    "limits.opens_per_minute": 60_000,
    "limits.opens_burst": 10_000,
    "limits.denials_per_minute": 6000,
    "limits.denials_burst": 1000,
    "limits.node_calls_per_minute": 6000,
    "limits.node_calls_burst": 1000,
    "identity.join_token_secs": 600,
}
"""Times for tests, and budgets that let through whatever a test does in a hurry."""


@frozen
class GatewayTarget:
    """One resource as a Connector's configuration and the catalog have it.

    Attributes:
        more: Further keys of its table, of the kind's own.
        onward: How its Connector signs on, as the catalog has it; empty: not chosen.
    """

    id: str
    address: str
    kind: str = "tcp"
    labels: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(factory=dict)
    onward: str = ""


def numbers_of(role: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keys, by dotted path, that *role* reads."""
    return {
        key.path: numbers[key.path] for key in KEYS if key.path in numbers and role in key.roles
    }


def toml(table: Mapping[str, Any]) -> str:
    """A TOML text of dotted paths; lists of tables become inline tables."""
    return "".join(f"{path} = {_value(value)}\n" for path, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return json.dumps(value)

"""TOML and environment in, frozen checked settings out; every refusal at once.

Pydantic stays inside this package.  It needs no drop-in: a resource's own
table is handed on raw.  It opens the configuration file and nothing else.
"""

from svc.config.problems import ConfigErrors, SharedStateDir
from svc.config.reading import load_settings, read_settings
from svc.config.values import Address, ResourceTable, RoleSettings, StoreUrl

__all__ = [
    "Address",
    "ConfigErrors",
    "ResourceTable",
    "RoleSettings",
    "SharedStateDir",
    "StoreUrl",
    "load_settings",
    "read_settings",
]

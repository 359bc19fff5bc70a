"""Reads TOML and the environment, reports all errors at once, and returns frozen settings.

Pydantic stays inside this package.  It loads no drop-in: a resource's own table is passed on as it
is.  It opens the configuration file and nothing else.  Begin with ``keys`` and ``reading``.
"""

from svc.config.problems import ConfigErrors, SharedStateDir, naming_file
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
    "naming_file",
    "read_settings",
]

"""The checks of ``svc doctor`` that drop-ins add."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from svc.compose.drop_ins import CHECK
from svc.config import RoleSettings
from svc.errors import PluginError
from svc.interfaces.checks import IRoleCheck
from svc.ops.doctor.added import check_of
from svc.ops.doctor.check import Check
from svc.ops.doctor.checks import CHECKS
from svc.plugin import load


def added_checks(names: Sequence[str], folders: Sequence[str] | None = None) -> tuple[Check, ...]:
    """Import the named drop-ins.

    Args:
        folders: Where they are looked for, if not where all drop-ins are.

    Raises:
        PluginError: naming the word and what is wrong with it.
    """
    return tuple(check_of(one.provider) for one in load(IRoleCheck, CHECK, names, folders))


def every_check(settings: RoleSettings) -> tuple[Check, ...]:
    """All checks, for the command; ``config.plugins`` tells which drop-ins cannot be loaded."""
    added: list[Check] = []
    for name in settings.plugins.checks:
        with suppress(PluginError):
            added += added_checks([name])
    return (*CHECKS, *added)

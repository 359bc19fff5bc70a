"""Checks that drop-ins add; each runs with a deadline, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from attrs import define, field

from svc.errors import PluginError
from svc.interfaces.checks import RoleFacts
from svc.model.doctor import CATEGORIES, Finding, fail
from svc.ops.doctor.check import Check
from svc.ops.doctor.checks import IDS
from svc.ops.doctor.context import ROLES, CheckContext

DEADLINE_SECS = 10.0
MOST = 32
"""Findings of one drop-in; the rest are not told."""

_TELL_ITS_MAKER = "tell whoever made the drop-in, or remove it from plugins.checks"


@define
class _Run:
    """One run of a drop-in's check, which may never come to its end."""

    call: Callable[[], Iterable[Finding]]
    done: Event = field(factory=Event)
    found: tuple[Finding, ...] = ()
    error: str = ""

    def work(self) -> None:
        try:
            found = tuple(self.call())[:MOST]
            if not all(isinstance(one, Finding) for one in found):
                raise TypeError
            self.found = found
        except BaseException as failed:
            self.error = type(failed).__name__
        finally:
            self.done.set()


def check_of(provider: Any, seconds: float = DEADLINE_SECS) -> Check:
    """The check of a drop-in, which provides :class:`svc.interfaces.checks.IRoleCheck`.

    Raises:
        PluginError: its category or a role is unknown, or there is such a check already.
    """
    name, category, roles = provider.name, provider.category, tuple(provider.roles)
    check_id = f"{category}.{name}"
    if category not in CATEGORIES:
        raise PluginError(f"check {name}: its category is none of {', '.join(CATEGORIES)}")
    if not roles or not set(roles) <= set(ROLES):
        raise PluginError(f"check {name}: its roles are not among {', '.join(ROLES)}")
    if check_id in IDS:
        raise PluginError(f"check {name}: svc has a check {check_id} of its own")

    def find(context: CheckContext) -> Iterable[Finding]:
        facts = RoleFacts(
            role=context.role,
            cluster=context.settings.cluster,
            config=Path(context.settings.path),
            state=context.state,
            at=context.at,
        )
        run = _Run(lambda: provider.find(facts))
        Thread(target=run.work, name=f"doctor-{name}", daemon=True).start()
        if not run.done.wait(seconds):
            return (fail(f"the drop-in took longer than {seconds:g} seconds", _TELL_ITS_MAKER),)
        if run.error:
            return (fail(f"the drop-in failed ({run.error})", _TELL_ITS_MAKER),)
        return run.found

    return Check(check_id, roles, find)

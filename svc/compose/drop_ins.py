"""The drop-ins that a configuration enables: kinds, and the record of every one (rule R21)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any

from attrs import field, frozen
from zope.interface import Interface
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from svc.audit.log.kind_events import kind_events
from svc.config import RoleSettings
from svc.errors import PluginError
from svc.interfaces.checks import IRoleCheck
from svc.interfaces.kinds import IDialer, ILocalEndpoint, IResourceKind, KindTerms, ServedKind
from svc.model.audit.record import Event
from svc.model.policy.access import OPENING_REQUESTS, SESSION_REQUESTS
from svc.model.session.parameters import MAX_PARAMETERS, is_name
from svc.plugin import LoadedPlugin, load, with_modules

CHECK = "check"
"""What the names of drop-ins with checks begin with."""


class KindSide(Enum):
    """The side of each kind that a program imports, in addition to its terms."""

    DIALER = "dialer"
    GATE = "gate"
    LOCAL = "local"


_INTERFACES: Mapping[KindSide, type[Interface]] = {
    KindSide.DIALER: IDialer,
    KindSide.LOCAL: ILocalEndpoint,
}


@frozen
class Kinds:
    """The kinds the configuration names, by the operator's words, and their records."""

    by_name: Mapping[str, ServedKind]
    loaded: tuple[LoadedPlugin, ...] = field(default=())

    @property
    def records(self) -> list[str]:
        """Name, version and digest of each, for ``role.start`` (R21)."""
        return plugin_records(self.loaded)


def load_kinds(names: Iterable[str], *sides: KindSide) -> Kinds:
    """Import the named kinds: their terms, and of their sides those of this program alone.

    Raises:
        PluginError: naming the word and what is wrong with it.
    """
    loaded = tuple(_whole(one) for one in load(IResourceKind, "kind", names))
    return Kinds({one.record.name: _served(one, sides) for one in loaded}, loaded)


def plugin_records(loaded: Iterable[LoadedPlugin]) -> list[str]:
    """``name version sha256`` of each drop-in."""
    return [f"{one.record.name} {one.record.version or '-'} {one.record.sha256}" for one in loaded]


def check_records(settings: RoleSettings) -> list[str]:
    """The same of each drop-in whose checks run in the role; those of commands are not recorded.

    Raises:
        PluginError: one cannot be loaded.
    """
    if not settings.doctor.check_interval_secs:
        return []
    return plugin_records(load(IRoleCheck, CHECK, settings.plugins.checks))


def _whole(loaded: LoadedPlugin) -> LoadedPlugin:
    kind = loaded.provider
    named = ("terms", *(side.value for side in KindSide))
    return with_modules(loaded, [getattr(kind, name) for name in named if getattr(kind, name)])


def _served(loaded: LoadedPlugin, sides: Sequence[KindSide]) -> ServedKind:
    kind, name = loaded.provider, loaded.record.name
    terms = loaded.resolve(kind.terms)  # type: ignore[attr-defined]
    if not isinstance(terms, KindTerms):
        raise PluginError(f"kind {name}: terms: {type(terms).__name__} is no KindTerms")
    _check_actions(name, terms)
    _check_parameters(name, terms)
    is_gated = bool(kind.gate)  # type: ignore[attr-defined]
    dialer, local = (
        _side(loaded, side, is_gated) if side in sides else None
        for side in (KindSide.DIALER, KindSide.LOCAL)
    )
    if dialer is not None:
        _check_enforced(name, terms, dialer)
    return ServedKind(
        name=name,
        terms=terms,
        events=_events(name, terms),
        opaque=not is_gated,
        dialer=dialer,
        gate=_gate(loaded) if is_gated and KindSide.GATE in sides else None,
        local=local,
    )


def _check_actions(name: str, terms: KindTerms) -> None:
    if terms.open_action not in terms.actions:
        raise PluginError(f"kind {name}: terms: open_action is not among the actions")
    if terms.actions[terms.open_action] not in OPENING_REQUESTS:
        raise PluginError(
            f"kind {name}: terms: open_action counts as none of "
            f"{', '.join(sorted(OPENING_REQUESTS))}, which are what opens a session"
        )
    for action, counted in terms.actions.items():
        if counted not in SESSION_REQUESTS:
            raise PluginError(
                f"kind {name}: terms: action {action} counts as {ascii(counted)[:40]}, which is "
                f"none of {', '.join(sorted(SESSION_REQUESTS))}"
            )


def _check_parameters(name: str, terms: KindTerms) -> None:
    if len(terms.parameters) > MAX_PARAMETERS:
        raise PluginError(f"kind {name}: terms: more than {MAX_PARAMETERS} parameters")
    for word, one in terms.parameters.items():
        fault = "" if is_name(word) else "no name of a parameter: lower case, digits and _"
        try:
            re.compile(one.form)
            if not fault and one.default is not None and one.fault_of(one.default):
                fault = f"its default {one.fault_of(one.default)}"
        except re.error:
            fault = "its form is no regular expression"
        if not fault and one.fact not in ("", "public", "personal"):
            fault = "its fact is neither public nor personal, nor empty"
        if fault:
            raise PluginError(f"kind {name}: terms: parameter {ascii(word)[:66]}: {fault}")


def _events(name: str, terms: KindTerms) -> Mapping[str, Event]:
    try:
        return kind_events(name, terms.events)
    except ValueError as fault:
        raise PluginError(f"kind {name}: terms: event {fault}") from None


def _check_enforced(name: str, terms: KindTerms, dialer: object) -> None:
    """A ceiling that nobody enforces would decide what it does not hold (ADR 20)."""
    wanted = {word for word, one in terms.parameters.items() if one.enforced}
    missing = wanted - set(getattr(dialer, "enforces", ()))
    if missing:
        raise PluginError(
            f"kind {name}: dialer: its `enforces` does not name {', '.join(sorted(missing))}, "
            "which the terms say it enforces"
        )


def _gate(loaded: LoadedPlugin) -> Any:
    gate = loaded.resolve(loaded.provider.gate)  # type: ignore[attr-defined]
    if not iscoroutinefunction(gate):
        raise PluginError(f"kind {loaded.record.name}: gate: must be an async function")
    return gate


def _side(loaded: LoadedPlugin, side: KindSide, is_gated: bool) -> object:
    found = loaded.resolve(getattr(loaded.provider, side.value))
    try:
        verifyObject(_INTERFACES[side], found)
    except Invalid as error:
        what = " ".join(str(error).split())
        raise PluginError(f"kind {loaded.record.name}: {side.value}: {what}") from None
    if is_gated and not isinstance(getattr(found, "edits", None), Mapping):
        raise PluginError(
            f"kind {loaded.record.name}: {side.value}: its kind has a gate, so it must say which "
            "edits it makes: a mapping `edits`, which may be empty"
        )
    return found

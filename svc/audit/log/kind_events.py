"""Events that a resource kind brings: from what its terms say to events of the catalogue.

A kind's event begins with the kind's name, so that no two mean different things by
one name, and has the code of all such events of its severity: nobody hands out codes to
plug-ins.  Whoever lacks the plug-in verifies and shows the record all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from svc.interfaces.kinds import KindEvent
from svc.model.audit.events import (
    DETAILS,
    KIND_CODES,
    event_faults,
    is_our_group,
)
from svc.model.audit.record import Event, EventClass, Field, Sensitivity, Severity, Shape

_SHAPES = {shape.value: shape for shape in Shape}
_SENSITIVITIES = {one.value: one for one in Sensitivity}
_SEVERITIES = {severity.value: severity for severity in Severity}
_ALWAYS = (DETAILS["proxy_id"], DETAILS["source_address"])


def kind_events(kind: str, declared: Mapping[str, KindEvent]) -> dict[str, Event]:
    """The events of a kind, by name.

    Raises:
        ValueError: the text says which event is wrong, and how.
    """
    found = {name: _event(name, one) for name, one in declared.items()}
    faults = [f"{name}: does not begin with {kind}." for name in found if not _is_of(kind, name)]
    if found and is_our_group(kind):
        faults.append(f"{kind}: begins events that svc itself writes")
    faults += event_faults(list(found.values()))
    if faults:
        raise ValueError("; ".join(faults))
    return found


def kind_of_event(event: Event) -> str:
    """The kind that declares the event; empty for one of ours."""
    return event.name.partition(".")[0] if event.code in KIND_CODES.values() else ""


def _is_of(kind: str, name: str) -> bool:
    return name.startswith(f"{kind}.")


def _event(name: str, declared: KindEvent) -> Event:
    severity = _SEVERITIES.get(declared.severity)
    if severity is None:
        raise ValueError(f"{name}: its severity is none of {', '.join(_SEVERITIES)}")
    fields = [_field(name, word, form) for word, form in declared.fields.items()]
    return Event(
        name=name,
        code=KIND_CODES[severity],
        event_class=EventClass.ACCESS,
        severity=severity,
        meaning=declared.meaning,
        fields=(*fields, *_ALWAYS),
    )


def _field(event: str, name: str, form: str) -> Field:
    shape, _, sensitivity = form.partition(" ")
    if shape not in _SHAPES or sensitivity not in ("public", "personal"):
        raise ValueError(f"{event}: {name}: written as {_either(_SHAPES)}, then public or personal")
    known = DETAILS.get(name)
    if known is None:
        return Field(
            name=name,
            sensitivity=_SENSITIVITIES[sensitivity],
            meaning="Of its kind.",
            shape=_SHAPES[shape],
        )
    if (known.shape.value, known.sensitivity.value) != (shape, sensitivity):
        raise ValueError(f"{event}: {name} means something else elsewhere")
    return known


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"

r"""Seals a record: turns what a room reports into the bytes that are hashed.

This is the one place where a value enters the log, so the rules of what may
enter live here: every field is classified, a secret is left out, a personal
value goes in as a salted hash, and peer text cannot break the form.

* A lone surrogate and NUL become visible escapes (``\ud800``, ``\x00``).
* Text past :data:`MAX_TEXT` characters is cut and ends in its digest.
* What looks like a credential in text is replaced: a net, not the rule.
* The Cedar request is kept exactly, because it will be asked again.  One that
  cannot be kept exactly is tidied, and such a record must not say ``allow``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from json.scanner import make_scanner
from types import MappingProxyType
from typing import Any, cast

from attrs import field, frozen

from svc.errors import Fault, Malformed, SvcError
from svc.model.audit.ledger import PersonalValue
from svc.model.audit.record import (
    AuditRecord,
    Event,
    Field,
    SealedRecord,
    Sensitivity,
    Shape,
    rfc3339,
)
from svc.model.canonical import Json, encode, is_shallow
from svc.model.ids import Entropy
from svc.model.policy.access import AccessRequest, request_form
from svc.model.policy.terms import AttributeTerm

SALT_BYTES = 16
MAX_TEXT = 4096
MAX_TEXTS = 256
MAX_RECORD = 1 << 17
PERSONAL = "personal"
"""The one key of what stands in a record for a personal value."""

_SCAN: Callable[[str, int], tuple[object, int]] = make_scanner(cast("Any", json.JSONDecoder()))
_IS_TEXT = re.compile(r'"[^"\\\x00-\x1f]*"').fullmatch
"""Finds most JSON texts to be JSON, in a third of the time."""

_ONE = r"(?:T|\{T:T(?:,T:T)*+\})".replace("T", r'"[^"\\\x00-\x1f]*+"')
_ARE_TEXTS = re.compile(rf"{_ONE}(?:\n{_ONE})*+").fullmatch
"""The same of many, with line breaks between; and of objects of such texts."""

_CREDENTIAL = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|\b(?:bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|\b(?:password|passwd|secret|token|api_?key)\s*[=:]\s*\S+"
    r"|(?<=://)[^/\s:@]*:[^/\s@]*(?=@)",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = re.compile(rf"[A-Za-z0-9._-]{{0,{MAX_TEXT}}}\Z")
"""Text that is no credential by any of these, and is not cut: ids, names and hashes."""

_CUT = re.compile(r"\[cut, [0-9]{1,9} characters, sha256 [0-9a-f]{64}\]\Z")
MEMBERS: Mapping[str, Shape] = MappingProxyType(
    {
        "key_id": Shape.TEXT,
        "node_id": Shape.TEXT,
        "resource_id": Shape.TEXT,
        "resource_kind": Shape.TEXT,
        "session_uid": Shape.TEXT,
        "action": Shape.TEXT,
        "cedar_action": Shape.TEXT,
        "decision": Shape.TEXT,
        "decision_id": Shape.TEXT,
        "policy_version": Shape.NUMBER,
        "catalog_version": Shape.NUMBER,
        "reason": Shape.TEXT,
        "trace_id": Shape.TEXT,
        "entities_digest": Shape.TEXT,
    }
)
"""What a record may say beside who did what when; whoever seals and whoever checks goes by it."""


Hide = Callable[[str, Json], Json]


class Unrecordable(SvcError):
    """A record that may not be written; what it was to allow must not happen."""

    fault = Fault.INTERNAL
    reason = "audit_unrecordable"


@frozen
class Sealer:
    """Seals records.  Pure but for the salts it draws; called inside transactions.

    Args:
        entropy: Where salts come from.
        facts: The context facts of the vocabulary, by name.
    """

    entropy: Entropy
    facts: Mapping[str, AttributeTerm] = field(factory=lambda: MappingProxyType({}))

    def seal(self, record: AuditRecord) -> SealedRecord:
        """The form of *record* that the store appends.

        Raises:
            Unrecordable: a field that is not classified or not of its shape, an
                allowed request that cannot be kept exactly, a record too large.
        """
        return seal(record, self.entropy, self.facts)


def seal(
    record: AuditRecord, entropy: Entropy, facts: Mapping[str, AttributeTerm] | None = None
) -> SealedRecord:
    """As :meth:`Sealer.seal`."""
    hidden: list[PersonalValue] = []

    def hide(path: str, value: Json) -> Json:
        salt, text = entropy(SALT_BYTES), encode(value).decode()
        hidden.append(PersonalValue(path, salt, text))
        return {PERSONAL: personal_hash(salt, text)}

    try:
        form = _envelope(record)
        if record.request is not None:
            form["request"] = _request(record, facts or {}, hide)
        if record.details:
            form["details"] = _details(record.event, record.details, hide)
        if record.batch is not None:
            form["batch"] = record.batch
        if record.state is not None:
            form["state"] = record.state.form()
        if record.spool is not None:
            form["spool"] = record.spool.form()
        canonical = encode(form)
    except Malformed as refused:
        raise Unrecordable(f"audit record {record.event.name}: {refused.text}") from refused
    if len(canonical) > MAX_RECORD:
        raise Unrecordable(
            f"audit record {record.event.name}: it is longer than {MAX_RECORD} bytes"
        )
    return SealedRecord(canonical, tuple(hidden))


def personal_hash(salt: bytes, value: str) -> str:
    """The hash that replaces *value* (canonical JSON text) in the record, in hex."""
    return sha256(salt + value.encode("utf-8")).hexdigest()


def is_hidden(there: object, value: PersonalValue) -> bool:
    """Whether *there* is the marker of *value* in a record."""
    return type(there) is dict and len(there) == 1 and is_hashed(value, there.get(PERSONAL))


def is_hashed(value: PersonalValue, digest: object) -> bool:
    """Whether *digest* is the salted hash of *value*.

    The salt has one length, and the value is JSON: else a byte could pass from one to the other.
    """
    salt, text = value.salt, value.value
    if len(salt) != SALT_BYTES or digest != personal_hash(salt, text):
        return False
    return _IS_TEXT(text) is not None or _is_json(text)


def are_json(texts: Sequence[str]) -> bool:
    """Whether each of *texts* is JSON, as :func:`is_hashed` wants it.  Most are seen at once."""
    joined = "\n".join(texts)
    if joined.count("\n") == len(texts) - 1 and _ARE_TEXTS(joined) is not None:
        return True
    return all(_IS_TEXT(text) is not None or _is_json(text) for text in texts)


def _is_json(text: str) -> bool:
    """Whether *text* is JSON without a space around it, of no more levels than a record may have.

    Half the time of ``json.loads``.  No answer is remembered: values that were erased meanwhile
    are not to stay in memory.
    """
    try:
        value, end = _SCAN(text, 0)
        return end == len(text) and is_shallow(value)
    except (ValueError, RecursionError, StopIteration):
        return False


@lru_cache(maxsize=256)
def _names(path: str) -> tuple[str, ...]:
    """The members that lead to a value; few paths exist, and each record has them again."""
    return tuple(path.split("."))


def marker(record: Mapping[str, object], path: str) -> object:
    """The value in *record* at a dotted path, or None."""
    place: object = record
    for name in _names(path):
        if type(place) is not dict:
            return None
        place = place.get(name)
    return place


def tidy(text: str) -> str:
    """*text* in a form every store keeps and no reader stumbles over."""
    if _PLAIN.match(text) is not None:
        return text
    text = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    if len(text) > MAX_TEXT:
        digest = sha256(text.encode()).hexdigest()
        text = f"{text[:MAX_TEXT]}[cut, {len(text)} characters, sha256 {digest}]"
    return _CREDENTIAL.sub("[redacted]", text)


def is_tidy(text: str) -> bool:
    """Whether *text* may be what :func:`tidy` left."""
    if _PLAIN.match(text) is not None:
        return True
    cut = _CUT.search(text)
    kept = text if cut is None else text[: cut.start()]
    return len(kept) <= MAX_TEXT and "\0" not in kept and _CREDENTIAL.search(kept) is None


def _envelope(record: AuditRecord) -> dict[str, Json]:
    event = record.event
    who = {"id": record.actor.id, "kind": record.actor.kind}
    said: dict[str, Any] = {"event_id": record.event_id, "origin": record.origin}
    texts = [*who.values(), record.event_id, record.origin]
    for name in MEMBERS:
        value = getattr(record, name)
        if value is not None:
            said[name] = value
            if isinstance(value, str):
                texts.append(value)
    policies = list(record.policies)
    # Nearly always one look tells that none of them has to be made so.
    if _PLAIN.match("".join([*texts, *policies])) is None:
        who = {name: tidy(text) for name, text in who.items()}
        said = {
            name: tidy(value) if isinstance(value, str) else value for name, value in said.items()
        }
        policies = list(map(tidy, policies))
    form: dict[str, Json] = {
        "actor": who,
        "class": event.event_class._value_,  # a property of Python, asked for as what it is
        "code": event.code,
        "event": event.name,
        "severity": event.severity._value_,
        "time": rfc3339(record.time),
        **said,
    }
    if policies:
        form["policies"] = policies
    return form


_FIELDS: dict[str, tuple[tuple[Field, ...], Mapping[str, Field]]] = {}
"""Of each event that was recorded, by its name; there are no more than the code names."""


def _fields_of(event: Event) -> Mapping[str, Field]:
    kept = _FIELDS.get(event.name)
    if kept is None or kept[0] is not event.fields:
        kept = _FIELDS[event.name] = event.fields, {each.name: each for each in event.fields}
    return kept[1]


def _details(event: Event, details: Mapping[str, Json], hide: Hide) -> dict[str, Json]:
    known = _fields_of(event)
    form: dict[str, Json] = {}
    for name in sorted(details):
        if name not in known:
            raise Malformed(f"details.{name} is not classified")
        value = details[name]
        if value is None or known[name].sensitivity is Sensitivity.SECRET:
            continue
        field = known[name]
        is_plain = isinstance(value, str) and _PLAIN.match(value) is not None
        if not is_plain or field.shape is not Shape.TEXT:
            value = _shaped(field, value)
        personal = known[name].sensitivity is Sensitivity.PERSONAL
        form[name] = hide(f"details.{name}", value) if personal else value
    return form


def _shaped(known: Field, value: Json) -> Json:
    if known.shape is Shape.TEXT and isinstance(value, str):
        return tidy(value)
    if known.shape is Shape.FLAG and isinstance(value, bool):
        return value
    if known.shape is Shape.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return value
    if known.shape is Shape.TEXTS and isinstance(value, (list, tuple)):
        texts = [tidy(each) for each in value[:MAX_TEXTS] if isinstance(each, str)]
        if len(texts) == min(len(value), MAX_TEXTS):
            cut = len(value) - MAX_TEXTS
            return [*texts, f"[cut, {cut} more]"] if cut > 0 else texts
    raise Malformed(f"details.{known.name} is not of the shape {known.shape.value}")


def _request(record: AuditRecord, facts: Mapping[str, AttributeTerm], hide: Hide) -> Json:
    request = record.request
    assert request is not None
    exact = _exact(request)
    if exact is None:
        if record.decision == "allow":
            raise Malformed("an allowed request cannot be recorded exactly")
        return _tidied(request)
    exact["context"] = classified("request.context", exact["context"], facts, hide)
    return exact


def _exact(request: AccessRequest) -> dict[str, Json] | None:
    """The request as replay wants it, or None when it cannot be kept so."""
    try:
        form: dict[str, Json] = request_form(request)
    except Malformed:
        return None
    return form if is_storable(form) else None


def is_storable(value: Json) -> bool:
    """Whether a request's every text may be kept exactly."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            if len(one) > MAX_TEXT or "\0" in one:
                return False
        elif one is None or isinstance(one, int):
            continue
        elif isinstance(one, (list, tuple)):
            left += one
        elif isinstance(one, (dict, Mapping)):  # a class before an abstract one, which is slow
            left += one  # its keys
            left += one.values()
    return True


def _tidied(request: AccessRequest) -> Json:
    return {
        "request_kind": request.request_kind,
        "principal": {"type": tidy(request.principal.type), "id": tidy(request.principal.id)},
        "action": tidy(request.action),
        "resource": {"type": tidy(request.resource.type), "id": tidy(request.resource.id)},
        "context": {},
    }


def classified(
    path: str, values: Json, facts: Mapping[str, AttributeTerm], hide: Hide
) -> dict[str, Json]:
    """The context with its personal facts hidden; a fact nobody classified is refused."""
    assert isinstance(values, (dict, Mapping))
    form: dict[str, Json] = {}
    for name in sorted(values):
        value, term = values[name], facts.get(name)
        if term is None:
            raise Malformed(f"{path}.{name} is not classified")
        if term.classified != "public":
            form[name] = hide(f"{path}.{name}", value)
        elif isinstance(value, (str, int)):  # before an abstract class is asked, which is slow
            form[name] = value
        elif isinstance(term.type, tuple) and isinstance(value, Mapping):
            within = {each.name: each for each in term.type}
            form[name] = classified(f"{path}.{name}", value, within, hide)
        elif isinstance(value, Mapping):
            raise Malformed(f"{path}.{name} contains a record that is not classified")
        else:
            form[name] = value
    return form

"""What a record is about, in a few words: who or what was added, changed, refused.  Pure.

A record names people, nodes, tokens and keys by opaque id; who shows it looks their names up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import frozen

from svc.audit.log.record import PERSONAL
from svc.model.canonical import Json
from svc.model.cluster.agent import caller_kind

NameOf = Callable[[str, str], str | None]
"""``name_of(kind, id)``: what a person, a node, an operator, a token or a key is called today."""

SHORT = 8
"""So many digits of a digest or an opaque id are shown where there is little room."""

_MOST = 3
"""So many resources are named."""

_ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "session": "resource",
        "request": "resource",
        "refusals": "person|connector|proxy times",
        "recording": "resource|connector",
        "tunnel": "resources|proxy|node",
        "token": "person|token",
        "node": "node",
        "enroll": "token|key|role",
        "renew": "person|node",
        "key": "key",
        "credential": "person|node|certificate",
        "person": "person",
        "user": "person",
        "sign_in": "person|issuer",
        "identity": "person",
        "account": "person",
        "agent": "agent",
        "group.add": "group",
        "group": "person of",
        "policy": "policy",
        "state": "subject|policy|count",
        "scope": "row",
        "epoch": "row",
        "root": "owners|certificate",
        "rotation": "note|row",
        "ca": "purpose generation",
        "resource": "resource",
        "role": "role version",
        "store": "migrations|head",
        "operator": "asked|count",
        "audit.key": "purpose",
        "audit.cut": "records",
        "audit.erased": "person|count",
        "audit.request.erased": "erased",
        "audit": "spool rows",
        "spool": "spool",
        "authority": "leader",
    }
)
"""By event, or by its group: parts in their order; of parts with ``|`` between them the first."""

_OTHERS = "resource|person|node|row"
"""Events of kinds that are not ours."""


def about(record: Mapping[str, Json], name_of: NameOf) -> str:
    """The words; empty where the record names nothing.  Not escaped."""
    event = str(record.get("event"))
    wanted = _ABOUT.get(event) or _ABOUT.get(event.partition(".")[0]) or _OTHERS
    details = record.get("details")
    it = _Told(record, details if isinstance(details, Mapping) else {}, name_of)
    found = [next(filter(None, map(it.part, part.split("|"))), "") for part in wanted.split()]
    return " ".join(filter(None, found))


@frozen
class _Told:
    """One record, part by part; whatever is in it, since an altered one is shown too."""

    record: Mapping[str, Json]
    details: Mapping[str, Json]
    name_of: NameOf

    def part(self, name: str) -> str:
        """The words of one part; empty where the record does not have it."""
        found: str = getattr(self, f"_{name}")()
        return found

    def _resource(self) -> str:
        return _text(self.record.get("resource_id"))

    def _resources(self) -> str:
        ids = self._texts("resources")
        more = f" and {len(ids) - _MOST} more" if len(ids) > _MOST else ""
        return ", ".join(ids[:_MOST]) + more

    def _person(self) -> str:
        id = self._detail("person_id")
        return id and (self.name_of(caller_kind(id), id) or self._detail("name") or id)

    def _agent(self) -> str:
        id = self._detail("agent_id")
        return id and (self.name_of("agent", id) or id)

    def _node(self) -> str:
        return self._named(_text(self.record.get("node_id")), self._role() or "node")

    def _connector(self) -> str:
        return self._named(self._detail("connector_id"), "connector")

    def _proxy(self) -> str:
        return self._named(self._detail("proxy_id"), "proxy")

    def _leader(self) -> str:
        return self._named(self._detail("leader_id"), "leader")

    def _named(self, id: str, role: str) -> str:
        return id and f"{role} {self.name_of('node', id) or id}"

    def _token(self) -> str:
        id = self._detail("token_id")
        name = id and self.name_of("token", id)
        return f"{self._role()} {name}".lstrip() if name else id and f"token {id}"

    def _key(self) -> str:
        id = self._detail("expected_id")
        name = id and self.name_of("key", id)
        return f"{self._role()} {name}".lstrip() if name else id and f"key {id[:SHORT]}"

    def _issuer(self) -> str:
        return self._detail("issuer")

    def _group(self) -> str:
        return self._word("group", "group")

    def _of(self) -> str:
        return self._word("of group", "group")

    def _role(self) -> str:
        return self._detail("role")

    def _version(self) -> str:
        return self._detail("version")

    def _policy(self) -> str:
        number = _text(self.record.get("policy_version"))
        digest = self._detail("policy_digest")[:SHORT]
        return f"version {number}" if number else digest and f"sha256 {digest}"

    def _subject(self) -> str:
        return self._detail("subject")

    def _certificate(self) -> str:
        return self._word("sha256", "certificate_sha256")[: len("sha256 ") + SHORT]

    def _owners(self) -> str:
        return ", ".join(self._texts("owners")[:_MOST])

    def _note(self) -> str:
        return self._detail("note")

    def _purpose(self) -> str:
        return self._detail("key_purpose")

    def _generation(self) -> str:
        return self._word("generation", "generation")

    def _migrations(self) -> str:
        count = len(self._texts("migrations"))
        return f"{count} migrations" if count else ""

    def _head(self) -> str:
        size = self._detail("head_size") or self._detail("shared_size")
        return f"{size} records kept" if size else self._word("until", "until")

    def _asked(self) -> str:
        return _text(self.record.get("cedar_action")) or _text(self.record.get("action"))

    def _erased(self) -> str:
        """Of values of requests the first, and how many more."""
        named = self._texts("erased")
        more = f" and {len(named) - 1} more" if len(named) > 1 else ""
        return f"value {named[0]}{more}" if named else ""

    def _count(self) -> str:
        return self._word("count", "count")

    def _times(self) -> str:
        count = self._detail("count")
        return count and f"{count} times"

    def _spool(self) -> str:
        return self._word("spool", "spool_id")[: len("spool ") + SHORT]

    def _rows(self) -> str:
        return self._stretch("row")

    def _records(self) -> str:
        return self._stretch("record")

    def _stretch(self, what: str) -> str:
        first, last = self._detail("first_n"), self._detail("last_n")
        if first and last not in ("", first):
            return f"{what}s {first} to {last}"
        return first and f"{what} {first}"

    def _row(self) -> str:
        """The first of the rows that it puts in force, as sort and id."""
        state = self.record.get("state")
        rows = state.get("rows") if isinstance(state, Mapping) else None
        first = rows[0] if isinstance(rows, (list, tuple)) and rows else None
        return _text(first[0]) if isinstance(first, (list, tuple)) and first else ""

    def _word(self, word: str, field: str) -> str:
        text = self._detail(field)
        return text and f"{word} {text}"

    def _texts(self, field: str) -> list[str]:
        found = self.details.get(field)
        return [str(one) for one in found] if isinstance(found, (list, tuple)) else []

    def _detail(self, field: str) -> str:
        return _text(self.details.get(field))


def _text(value: Json) -> str:
    """A word or a number; of a personal value what was not erased."""
    if isinstance(value, Mapping):
        value = value.get("value") if PERSONAL in value else None
    return str(value) if isinstance(value, (str, int)) else ""

"""Checks a row that another instance wrote: unsigned, of an unknown key, forged, or valid.

A row enters the log only if all of it holds: the signature is that of a key in
force, and the record is one that its signer may write, in the very form that
sealing gives it, about members of the cluster.  Whoever has a Proxy's key can
thus write nothing but what a Proxy says, in its own name, and no text of his own
choice.  Pure; whether a good row is new is asked of the
memory of its spool (``svc.model.audit.replay``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import field, frozen

from svc.audit.ingest.entries import KnownEntries
from svc.audit.ingest.facts import FactForm, fact_forms, is_marker, require_marker
from svc.audit.ingest.members import (
    NEEDED,
    OF_A_SPOOL,
    EventForm,
    RecordMembers,
    members_of,
)
from svc.audit.ingest.noted import OF_WHOM, KnownRows, NotedRow
from svc.audit.ingest.requests import BatchChecks, GatedKind, no_session
from svc.audit.ingest.sampled import Pick, SampledAllow, SessionRow, pick_none
from svc.audit.ingest.sessions import check_of_session
from svc.audit.log.forms import check_time, exact_text, is_shaped, listed, mapping, text
from svc.audit.log.record import MAX_RECORD, is_hashed, is_hidden, marker
from svc.errors import Malformed
from svc.model.audit.batch import is_batch
from svc.model.audit.events import (
    AUTHORITY_DOUBT,
    AUTHORITY_STANDBY,
    REFUSALS_SUMMARY,
    REQUEST_BATCH,
    REQUEST_DECISION,
    SPOOL_CLOSE,
    SPOOL_OPEN,
)
from svc.model.audit.ledger import GENESIS
from svc.model.audit.outbox import Hold
from svc.model.audit.record import Event, Sensitivity
from svc.model.audit.spool import (
    FIRST_N,
    LARGEST_N,
    SpoolPlace,
    SpoolRow,
    place_of,
    row_hash,
    verify_row,
)
from svc.model.canonical import Json, decode
from svc.model.cluster.agent import caller_kind
from svc.model.cluster.node import Node
from svc.model.ids import is_agent_id, is_opaque_id
from svc.model.policy.terms import AttributeTerm
from svc.model.session.recorded import RangedRecords
from svc.model.signing import BadSignature
from svc.ratelimit.limits import BUDGETS


@frozen
class WriteRights:
    """What may come through the queue.

    Attributes:
        events: By role, by name.
        kinds: Those that are gated, by name.
        forms: Of the events.
    """

    events: Mapping[str, Mapping[str, Event]]
    kinds: Mapping[str, GatedKind] = field(factory=dict)
    forms: Mapping[str, Mapping[str, EventForm]] = field(init=False)

    @forms.default
    def _of_events(self) -> dict[str, dict[str, EventForm]]:
        return {
            role: {name: EventForm.of(event) for name, event in events.items()}
            for role, events in self.events.items()
        }


def _named(*events: Event) -> Mapping[str, Event]:
    return {event.name: event for event in events}


MAY_WRITE = WriteRights(
    {
        # A kind that is recorded brings recording.delivered: it comes in here with what writes it.
        "proxy": _named(SPOOL_OPEN, SPOOL_CLOSE, REFUSALS_SUMMARY),
        "authority": _named(SPOOL_OPEN, SPOOL_CLOSE, AUTHORITY_STANDBY, AUTHORITY_DOUBT),
    }
)
"""Where no kind has a gate."""


def may_write_with(events: Iterable[Event], kinds: Mapping[str, GatedKind]) -> WriteRights:
    """Where kinds with a gate are enabled: Proxies record requests, and events of theirs.

    Args:
        events: Of those kinds.
        kinds: By name.
    """
    # Of requests only batches: what they say is held against the Connector's checkpoints.
    proxy = {**MAY_WRITE.events["proxy"], **_named(REQUEST_BATCH, *events)}
    return WriteRights({**MAY_WRITE.events, "proxy": proxy}, kinds)


_OF_A_BATCH = NEEDED | {"node_id", "decision_id", "batch", "details"}
_OF_A_KIND = NEEDED | {"session_uid", "resource_id", "resource_kind", "details"}
"""What a kind's own event says: what was decided is told by no other than request.batch."""

_OF_ITSELF = NEEDED | {"node_id", "reason", "details"}
"""What there is to say of oneself; a summary in particular says nothing of what was asked for."""

_REASONS = frozenset((*BUDGETS, "other"))
_ACTORS = frozenset(["person", "agent", "node", "service", "anonymous"])
_HOLDERS = ("person", "agent")
_IDS: Mapping[str, Callable[[str], bool]] = {
    "person": is_opaque_id,
    "agent": is_agent_id,
    "node": is_opaque_id,
}
_EVENT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_FORMER = re.compile(r"([0-9a-f]{32}):([1-9][0-9]{0,15})\Z")


Signer = Callable[[str], Node | None]
"""``signer(key_id)``: the node whose audit key has that id and is in force, or None."""

Members = Callable[[str, str], bool]
"""``is_member(kind, id)``: whether there is, or was, such a ``person`` or ``node``."""


def anybody(_kind: str, _id: str) -> bool:
    """Accepts every member, for checks that do not need the registry."""
    return True


@frozen
class ValidRow:
    """A row whose signature and record are good."""

    origin: str
    event: Event
    event_id: str
    place: SpoolPlace
    hash: bytes = field(repr=False)
    ids: tuple[str, ...] = field(default=(), repr=False)
    """Of the decisions in a batch, ascending."""

    ranged: tuple[RangedRecords, ...] = ()
    sampled: tuple[SampledAllow, ...] = field(default=(), repr=False)

    former: Mapping[str, int] = field(factory=dict)
    """The spools that a ``spool.open`` says are still kept, with the last row of each."""


@frozen
class RowVerdict:
    """What the leader makes of a row: good, or held for a reason.

    Attributes:
        why: For the log; what is wrong with a row that is forged.
    """

    judged: ValidRow | None = None
    hold: Hold | None = None
    why: str = ""


def validate_row(
    row: SpoolRow,
    signer: Signer,
    facts: Mapping[str, AttributeTerm],
    members: Members = anybody,
    may_write: WriteRights = MAY_WRITE,
    session_row: SessionRow = no_session,
    pick: Pick = pick_none,
) -> RowVerdict:
    """As :meth:`RowChecks.verdict`, of one row."""
    return RowChecks(
        signer=signer,
        facts=fact_forms(facts.values()),
        members=members,
        may_write=may_write,
        session_row=session_row,
        pick=pick,
    ).verdict(row)


@frozen(kw_only=True)
class RowChecks:
    """What rows are held against.

    Attributes:
        signer: The node whose audit key has that id and is in force, or None.
        facts: The context facts of the vocabulary, by name.
        members: Of whom a record may be.
        may_write: The events of each role.
        session_row: A session as Authority granted it.
        pick: Chooses the allowed requests of batches that are given back to be decided again.
        forms: Of the entries of batches that were judged before by the same facts and kinds.
        rows: Of rows that are no batches, likewise.
    """

    signer: Signer
    facts: Mapping[str, FactForm]
    members: Members = anybody
    may_write: WriteRights = MAY_WRITE
    session_row: SessionRow = no_session
    pick: Pick = pick_none
    forms: KnownEntries = field(factory=KnownEntries)
    rows: KnownRows = field(factory=KnownRows)
    _batch: BatchChecks = field(init=False)

    @_batch.default
    def _of_batches(self) -> BatchChecks:
        return BatchChecks(
            kinds=self.may_write.kinds,
            facts=self.facts,
            session_row=self.session_row,
            pick=self.pick,
            forms=self.forms,
        )

    def verdict(self, row: SpoolRow, *, is_verified: bool = False) -> RowVerdict:
        """Check *row* for unsigned, unknown key, forged, in this order; the first fault is why.

        Args:
            is_verified: Its signature was found good, by the key that ``signer`` gives.
        """
        if not row.is_signed:
            return RowVerdict(hold=Hold.UNSIGNED)
        node = self.signer(row.key_id)
        if node is None:
            return RowVerdict(hold=Hold.UNKNOWN_KEY)
        try:
            if not is_verified:
                verify_row(row, node.audit_key)
            noted = self.rows.read(row, node)
            if noted is not None and self._is_good(row, node, noted):
                return RowVerdict(_valid(row, node, noted))
            return RowVerdict(self._read(row, node))
        except (BadSignature, Malformed) as refused:
            return RowVerdict(hold=Hold.FORGED, why=refused.text)

    def _is_good(self, row: SpoolRow, node: Node, noted: NotedRow) -> bool:
        """Whether what its form does not say of a row is good; if not, :meth:`_read` names it."""
        try:
            kind, id = noted.said["actor"]["kind"], noted.said["actor"]["id"]
            if kind in _IDS and not _IDS[kind](id):
                return False
            check_of_session(noted.said, node.id, self.may_write.kinds, self.session_row)
            _check_members(noted.said, noted.details, self.members)
        except Malformed:
            return False
        hidden = noted.hidden
        return len(row.personal) == len(hidden) == len({one.path for one in row.personal}) and all(
            one.path in hidden and is_hashed(one, hidden[one.path]) for one in row.personal
        )

    def _read(self, row: SpoolRow, node: Node) -> ValidRow:
        if len(row.canonical) > MAX_RECORD:
            raise Malformed("audit row: the record is too long")
        record = decode(row.canonical)
        origin, place = place_of(record)
        assert isinstance(record, dict)  # or it had no place
        names = members_of(tuple(record))
        if names is None or ("batch" in record) is not is_batch(record):
            raise Malformed("audit row: its members are not those of a record")
        if (origin, record["key_id"]) != (node.id, row.key_id):
            raise Malformed(
                "audit row: it names a different origin or key from the one that signed it"
            )
        form = _form_of(record, self.may_write.forms.get(node.role, {}), node.role)
        event, details = form.event, mapping(record.get("details", {}))
        _check_forms(record, names)
        _check_actor(record, form, node.id)
        _check_details(details, form)
        _check_spool(details, event, place, row.key_id)
        self._check_said(record, details, form)
        batch = self._batch.check(row, record) if event is REQUEST_BATCH else None
        if batch is None:
            _check_personal(row, record)
        _check_members(record, details, self.members)
        self.rows.judged(row, node, form, record)
        return ValidRow(
            origin=origin,
            event=event,
            event_id=str(record["event_id"]),
            place=place,
            hash=row_hash(row.canonical),
            ids=() if batch is None else batch.ids,
            ranged=() if batch is None else batch.ranged,
            sampled=() if batch is None else batch.sampled,
            former=_former(details) if event is SPOOL_OPEN else {},
        )

    def _check_said(
        self, record: Mapping[str, Json], details: Mapping[str, Json], form: EventForm
    ) -> None:
        """What an event of this sort may say."""
        if form.is_own:
            _check_own(record, details, form.event)
        if form.kind:
            _check_of_a_kind(record, form.kind)
            check_of_session(record, str(record["origin"]), self.may_write.kinds, self.session_row)


def _valid(row: SpoolRow, node: Node, noted: NotedRow) -> ValidRow:
    return ValidRow(
        origin=node.id,
        event=noted.event.event,
        event_id=noted.event_id,
        place=noted.place,
        hash=row_hash(row.canonical),
    )


def _former(details: Mapping[str, Json]) -> dict[str, int]:
    found = (_FORMER.match(str(one)) for one in listed(details.get("former_spools", ())))
    return {one[1]: int(one[2]) for one in found if one is not None}


def _form_of(record: Mapping[str, Json], known: Mapping[str, EventForm], role: str) -> EventForm:
    form = known.get(str(record["event"]))
    if form is None and record["event"] == REQUEST_DECISION.name:
        raise Malformed(
            f"audit row: a {role} may not write this event: it records requests in batches, and no "
            "build that was released wrote one alone; discard the row, the log keeps its digest"
        )
    if form is None:
        raise Malformed(f"audit row: a {role} may not write this event")
    if (record["code"], record["class"], record["severity"]) != form.claimed:
        raise Malformed("audit row: its code, class or severity does not match its event")
    return form


def _check_forms(record: Mapping[str, Json], names: RecordMembers) -> None:
    if _EVENT_ID.match(exact_text(record["event_id"])) is None:
        raise Malformed("audit row: its event id is malformed")
    check_time(exact_text(record["time"]))
    for name in names.texts:
        text(record[name])
    for name in names.counts:
        if not _is_count(record[name]):
            raise Malformed(f"audit row: {name} is not a count")


def _is_count(value: Json) -> bool:
    return type(value) is int and value >= 0


def _check_actor(record: Mapping[str, Json], form: EventForm, origin: str) -> None:
    actor = mapping(record["actor"])
    kind, id = text(actor.get("kind")), text(actor.get("id"))
    if len(actor) != 2 or kind not in _ACTORS:
        raise Malformed("audit row: it may not name this actor")
    if kind in _IDS and not _IDS[kind](id):
        raise Malformed("audit row: its actor's id is malformed")
    if form.is_own and (kind, id) != ("node", origin):
        raise Malformed("audit row: its actor is not its origin")
    if form.is_own and record.get("node_id", origin) != origin:
        raise Malformed("audit row: it is about a different node from its origin")
    claimed = mapping(record.get("details", {})).get("proxy_id", origin)
    if claimed != origin:
        raise Malformed("audit row: it names a different Proxy from its origin")


def _check_own(record: Mapping[str, Json], details: Mapping[str, Json], event: Event) -> None:
    """What an origin says of itself, in words that are known: it has nothing to tell by text."""
    if not set(record) <= (_OF_A_BATCH if event is REQUEST_BATCH else _OF_ITSELF):
        raise Malformed("audit row: it has members that an event about its origin may not have")
    if event is not REFUSALS_SUMMARY:
        return
    if record.get("reason", "other") not in _REASONS:
        raise Malformed("audit row: its reason is not the name of a budget")
    count = details.get("count", 1)
    if not isinstance(count, int) or count < 1:
        raise Malformed("audit row: its count is missing")
    times = [details[name] for name in ("since", "until") if name in details]
    for time in times:
        check_time(text(time))
    if times != sorted(times, key=str):
        raise Malformed("audit row: its end is earlier than its start")
    if {"person_id", "connector_id"} <= set(details):
        raise Malformed("audit row: it names both a person and a node as the caller")


def _check_of_a_kind(record: Mapping[str, Json], kind: str) -> None:
    """What a gate notes is about a session of a person, of the kind that brings the event."""
    if not set(record) <= _OF_A_KIND:
        raise Malformed("audit row: it says more than a kind's own event has to say")
    if record.get("resource_kind") != kind:
        raise Malformed("audit row: it is about a resource of another kind than its event's")
    if mapping(record["actor"]).get("kind") not in _HOLDERS or "session_uid" not in record:
        raise Malformed("audit row: a kind's own event is of a person's session")


def _check_members(
    record: Mapping[str, Json], details: Mapping[str, Json], members: Members
) -> None:
    """Whoever a record names is one whose certificate this cluster signed, at some time."""
    actor = mapping(record["actor"])
    named = [(str(actor["kind"]), str(actor["id"]))] if actor["kind"] in _IDS else []
    named += [
        (_member(name, str(details[name])), str(details[name]))
        for name in OF_WHOM
        if name in details
    ]
    for kind, id in named:
        if not members(kind, id):
            raise Malformed(f"audit row: it names an unknown {kind}")


def _check_details(details: Mapping[str, Json], form: EventForm) -> None:
    for name, value in details.items():
        each = form.fields.get(name)
        if each is None or each.sensitivity is Sensitivity.SECRET:
            raise Malformed(f"audit row: details.{name} is not classified, or is a secret")
        if each.sensitivity is Sensitivity.PERSONAL:
            require_marker(f"details.{name}", value)
        elif not is_shaped(each.shape, value):
            raise Malformed(f"audit row: details.{name} has the wrong type")


def _check_spool(details: Mapping[str, Json], event: Event, place: SpoolPlace, key_id: str) -> None:
    """A spool begins with its announcement, and its last row is where that says."""
    if (place.n == FIRST_N) is not (event is SPOOL_OPEN):
        raise Malformed("audit row: spool.open must be the first row of a spool, and only that")
    if place.n == FIRST_N and place.prev != GENESIS:
        raise Malformed("audit row: the first row of a spool names a row before it")
    if event.name in OF_A_SPOOL and details.get("spool_id") != place.spool_id:
        raise Malformed("audit row: it is about a different spool from its own")
    if event is SPOOL_OPEN and details.get("key_digest") != key_id:
        raise Malformed("audit row: it announces the spool for a different key")
    for one in listed(details.get("former_spools", ())):
        former = _FORMER.match(text(one))
        if former is None or int(former[2]) > LARGEST_N:
            raise Malformed("audit row: the name of a former spool is malformed")
    if event is SPOOL_CLOSE and details.get("last_n") != place.n:
        raise Malformed("audit row: spool.close names a last number that is not its own")


def _check_personal(row: SpoolRow, record: dict[str, Json]) -> None:
    """Beside the record is exactly what it hides: each value once, and each the one hashed."""
    hidden = sorted(_hidden(record))
    if sorted(one.path for one in row.personal) != hidden:
        raise Malformed(
            "audit row: the personal values that came with it are not those that it hides"
        )
    for value in row.personal:
        if not is_hidden(marker(record, value.path), value):
            raise Malformed(
                "audit row: a personal value that came with it differs from the one that it hides"
            )


def _hidden(record: Mapping[str, Json]) -> Iterator[str]:
    details = record.get("details")
    if isinstance(details, dict):
        yield from _markers("details", details)


def _markers(path: str, values: Mapping[str, Json]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            if is_marker(value):
                yield f"{path}.{name}"
            else:
                yield from _markers(f"{path}.{name}", value)


def _member(name: str, id: str) -> str:
    return caller_kind(id) if OF_WHOM[name] == "person" else OF_WHOM[name]

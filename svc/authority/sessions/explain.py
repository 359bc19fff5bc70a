"""``svc why``: what a decision's explanation may contain, and who may read it (rule R16).

The decision's own person is told; anybody else, and anybody who may no longer
view the resource, hears what an unknown id would hear.  Why it was decided is told in the words of
the policy version that decided; how to ask for access by the policy in force, which an approval
would have to satisfy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from attrs import define, field, frozen

from svc.audit.log.entries import entry_record
from svc.audit.log.find import decisions_meant, find_entry, opened_session
from svc.audit.log.record import PERSONAL
from svc.authority.policy.past_reasons import PolicyReasons
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.standing import require_certificate
from svc.errors import Denied, Malformed
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ServedKind
from svc.interfaces.policy import IPolicyEngine
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.messages.session import Explanation, decode_why_request
from svc.model.audit.events import REQUEST_DECISION, SESSION_ABANDONED, SESSION_END
from svc.model.certificate import CertificateFacts
from svc.model.cluster.agent import caller_kind
from svc.model.cluster.node import Node
from svc.model.policy.access import EntityUid, request_from_form
from svc.model.policy.approval import MAX_VALID_SECS
from svc.model.policy.requested import exact_command, request_command
from svc.model.policy.requests import may_view
from svc.model.principal import CALLERS
from svc.model.session.reasons import ReasonWords, words_of
from svc.model.session.request import is_fresh, stale
from svc.model.short_ids import DECISION, whole_id
from svc.model.signing import Purpose, verify
from svc.policy.requestable import would_turn
from svc.policy.requestable_reasons import requestable_reasons

_ENDS = frozenset({SESSION_END.name, SESSION_ABANDONED.name})

_NO_END: Mapping[str, Any] = MappingProxyType({})

ON_REQUEST = "another person can approve it"
"""What is told of a permit that people may ask for and that has no ``@reason``."""

_VALUE = "value"
_REASON = 500
"""Characters of a policy's ``@reason`` that are told."""


@define
class Explainer:
    """Answers ``Control/Why``."""

    cluster: str
    state_cache: ClusterStateCache
    engine: Callable[[], IPolicyEngine | None]
    kinds: Mapping[str, ServedKind]
    store: IReadOnlyStore
    verifier: IChainVerifier
    now: Callable[[], float]
    reasons: PolicyReasons

    async def explain(
        self, data: bytes, signature: bytes, chain: tuple[bytes, ...], proxy: Node
    ) -> Explanation:
        """What the signer of this question may know.

        Instead of a decision they may have named the session that it let open, and instead of
        either id how it begins, if of no other decision of theirs.

        Raises:
            AmbiguousId: the ids of several of their decisions begin so.
            SvcError: the question is not a person's own and fresh.
        """
        certificate = self.verifier.verify(chain, CALLERS)
        verify(certificate.public_key, Purpose.WHY_REQUEST, data, signature)
        request = decode_why_request(data)
        right = (self.cluster, proxy.id, certificate.sha256)
        if (request.cluster, request.proxy_id, request.certificate_sha256) != right:
            raise Denied("the request was made for another Proxy", reason="request_wrong_proxy")
        if not is_fresh(request.issued_at_ms, self.now()):
            raise Denied(stale(request.issued_at_ms, self.now()), reason="request_stale")
        asker = self.state_cache.caller(certificate.principal)
        record, end = await self._records(request.decision_id, certificate, asker.id)
        told = None if record is None else await self.explained(asker.id, record, end)
        # Of what may not be told it is not even told what id it has.
        return told if told is not None and told.explained else Explanation(request.decision_id)

    async def explained(
        self, asker_id: str, record: Mapping[str, Any], end: Mapping[str, Any] = _NO_END
    ) -> Explanation:
        """What this person or agent may know of a decision, of which *record* was made.

        Args:
            end: The record of its session's end; empty where there is none.
        """
        if _is_of(asker_id, record) and self._may_view(asker_id, *_resource_of(record)):
            return await self._told(record, end)
        return Explanation(record["decision_id"])

    async def _records(
        self, word: str, certificate: CertificateFacts, asker_id: str
    ) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
        """The decision's record, and that of its session's end; None and nothing without them."""
        may_view = cache(partial(self._may_view, asker_id))

        def may_be_told(record: Mapping[str, Any] | None) -> bool:
            return _is_of(asker_id, record) and may_view(*_resource_of(record or _NO_END))

        def look(tx: ITransaction) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
            require_certificate(self.state_cache.rows(tx), certificate)
            meant = decisions_meant(tx, word)
            found = {one: _decided(_records_of(tx, of)) for one, of in meant.items()}
            # Nothing may be told of how many of another's begin so, or of hidden resources.
            own = [one for one, (record, _) in found.items() if may_be_told(record)]
            whole = whole_id(DECISION, word, own)
            return (None, _NO_END) if whole is None else found[whole]

        return await self.store.read("why", look)

    def _may_view(self, person_id: str, resource_kind: str, resource_id: str) -> bool:
        engine, kind = self.engine(), self.kinds.get(resource_kind)
        if engine is None or kind is None:
            return False
        target = EntityUid(kind.terms.entity_type, resource_id)
        return engine.decide(may_view(person_id, target, self.now())).allowed

    async def _told(self, record: Mapping[str, Any], end: Mapping[str, Any]) -> Explanation:
        version, named = record.get("policy_version", 0), _policies(record)
        reasons = await self.reasons.of(version)
        deciding = {one: reasons[one] for one in named if one in reasons}
        way = self._way_to_ask(record)
        told = {**way.permits, **deciding}
        details = record.get("details", {})
        words = self._words(record, way)
        return Explanation(
            decision_id=record["decision_id"],
            explained=True,
            decision=record["decision"],
            reason=record.get("reason", ""),
            policies=named,
            action=record.get("cedar_action", ""),
            resource=record.get("resource_id", ""),
            policy_version=version,
            time=record["time"],
            why={one: reason[:_REASON] for one, reason in told.items()},
            session_ended=end.get("time", ""),
            session_reason=end.get("reason", ""),
            session_lane=end.get("details", {}).get("lane", ""),
            request_hint=way.command,
            rights=tuple(details.get("rights", ())),
            rights_denied=tuple(details.get("rights_denied", ())),
            reason_text="" if words is None else words.text,
            hint="" if words is None else words.hint,
        )

    def _words(self, record: Mapping[str, Any], way: _WayToAsk) -> ReasonWords | None:
        kind = self.kinds.get(record.get("resource_kind", ""))
        return words_of(
            record["decision"],
            record.get("reason", ""),
            policies=bool(_policies(record)),
            requestable=bool(way.command),
            kind_reasons={} if kind is None else kind.terms.reasons,
        )

    def _way_to_ask(self, record: Mapping[str, Any]) -> _WayToAsk:
        """By the policy in force: what is denied no longer needs no request."""
        engine = self.engine()
        if engine is None or record["decision"] != "deny" or record["actor"]["kind"] != "person":
            return _NO_WAY
        try:
            asked = request_from_form(_readable(record.get("request")))
        except Malformed:
            return _NO_WAY  # of an earlier build, or with values that were erased since
        if engine.decide(asked).allowed:
            return _NO_WAY
        has_text = record.get("event") == REQUEST_DECISION.name
        ends_at = int(self.now()) + MAX_VALID_SECS
        found = requestable_reasons(engine, asked, ends_at, has_text=has_text)
        if not found:
            return _NO_WAY
        if would_turn(engine, asked, ends_at):
            command = request_command(record.get("resource_id", ""), asked.action)
        else:
            command = exact_command(record["decision_id"])
        return _WayToAsk(
            permits={one: reason or ON_REQUEST for one, reason in found.items()}, command=command
        )


@frozen
class _WayToAsk:
    """How a denial could be turned.

    Attributes:
        permits: Those that people may ask for, by ``@id``, with what they say of themselves.
        command: What to type; empty where no approval would turn it.
    """

    permits: Mapping[str, str] = field(factory=dict)
    command: str = ""


_NO_WAY = _WayToAsk()


def _readable(form: Any) -> Any:
    """What a record holds, as a policy reads it.

    Of personal values it has salted hashes, with the value beside it unless that was erased.
    """
    if not isinstance(form, Mapping):
        return form
    if {PERSONAL} <= set(form) <= {PERSONAL, _VALUE}:
        return form.get(_VALUE)
    told = {name: _readable(one) for name, one in form.items()}
    return {name: one for name, one in told.items() if one is not None}


def _is_of(asker_id: str, record: Mapping[str, Any] | None) -> bool:
    """Whether the decision of this record is about them."""
    actor = {"kind": caller_kind(asker_id), "id": asker_id}
    return record is not None and record["actor"] == actor


def _policies(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that decided; of what nobody serves, the record names those that allowed it."""
    return () if record["decision"] == "not_served" else tuple(record.get("policies", ()))


def _resource_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """The kind and the id of what the decision of this record is about."""
    return record.get("resource_kind", ""), record.get("resource_id", "")


def _decided(
    records: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """Of the records that name a decision: its own, and that of its session's end."""
    decided, end = None, _NO_END
    for record in records:
        if record["event"] in _ENDS:
            end = record
        elif decided is None and "decision" in record and "actor" in record:
            decided = record
    return decided, end


def _records_of(tx: ITransaction, decision_id: str) -> list[Mapping[str, Any]]:
    """The records that name a decision, and the entry of a batch as one of its own."""
    found = [json.loads(row.canonical) for row in tx.audit.by_decision(decision_id)]
    if not found and (entry := find_entry(tx, decision_id)) is not None:
        session_of = partial(opened_session, tx)
        found.append(entry_record(entry.record, entry.batch, entry.index, session_of))
    return found

"""Which Proxies may open sessions whose requests they decide (rule R25).

A Proxy whose records are not what a Connector passed on is trusted with none, until it is revoked.
One that leaves sessions unconfirmed again and again is trusted with none for a day.  Both are on
record, where the next leader finds them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import islice
from math import inf
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger

from svc.authority.state.recorder import RecordedOnce, Recorder, node
from svc.errors import Denied
from svc.interfaces.store import IStore, ITransaction
from svc.model.audit.events import PROXY_DISTRUSTED, SESSION_MISMATCH, SESSION_UNCONFIRMED
from svc.model.audit.ledger import ChainRow
from svc.model.audit.record import Event
from svc.model.canonical import Json, decode
from svc.model.session.ending import SESSION_MISMATCH as MISMATCH
from svc.model.session.incidents import DAY_SECS, Incidents

_log = Logger(namespace="svc_authority")

DISTRUSTED = "proxy_distrusted"
UNCONFIRMED = "sessions_unconfirmed"
"""Why a Proxy is distrusted for a day; ``session_mismatch`` is why for ever."""

RESTARTED = "connector_restarted"
"""Why a session is unconfirmed, where that says nothing of its Proxy."""

_BATCH = 500


@frozen
class _Word:
    """What is said of a session, and of the Proxies that carried it, as far as they are known."""

    event: Event
    reason: str
    proxy_id: str
    egress_proxy_id: str


@frozen
class _Said:
    """A record about a session, and the Proxy that carried it."""

    event: Event
    session_uid: str
    proxy_id: str
    word: str
    details: Mapping[str, Json]
    about: Mapping[str, Any]


@define
class _OwedRecords:
    """What one transaction writes of sessions, and of Proxies."""

    sessions: Mapping[str, _Word]
    proxies: Mapping[str, str]
    record: RecordedOnce = field(factory=RecordedOnce)


@define
class ProxyTrust:
    """What sessions say of the Proxies that carried them."""

    store: IStore
    recorder: Recorder
    now: Callable[[], float]
    _until: dict[str, float] = field(factory=dict, init=False)
    _incidents: dict[str, Incidents] = field(factory=dict, init=False)
    _here_since: dict[str, float] = field(factory=dict, init=False)
    _sessions: dict[str, _Word] = field(factory=dict, init=False)
    _proxies: dict[str, str] = field(factory=dict, init=False)
    _owed: deque[_OwedRecords] = field(factory=deque, init=False)

    async def load(self, proxy_ids: Iterable[str]) -> None:
        """Learn from the log which of these are distrusted."""
        known = tuple(proxy_ids)

        def read(tx: ITransaction) -> dict[str, float]:
            return {one: _recorded_until(tx, one) for one in known}

        found = await self.store.read("Proxies that are distrusted", read)
        for proxy_id, until in found.items():
            self._until[proxy_id] = max(until, self._until.get(proxy_id, 0.0))

    def is_trusted(self, proxy_id: str) -> bool:
        """Whether this Proxy may open gated sessions."""
        return self._until.get(proxy_id, 0.0) <= self.now()

    def require_trusted(self, proxy_id: str, name: str = "this Proxy") -> None:
        """Return if this Proxy may open gated sessions.

        Args:
            name: What the person's refusal calls it.

        Raises:
            Denied: ``proxy_distrusted``.
        """
        if self.is_trusted(proxy_id):
            return
        if self._until[proxy_id] == inf:
            raise Denied(
                f"the records of {name} are not what Connectors passed on; it opens and relays no "
                "session whose requests a Proxy decides",
                reason=DISTRUSTED,
            )
        raise Denied(
            f"{name} left sessions without their Connectors' last checkpoints too often; for a day "
            "it opens and relays no session whose requests a Proxy decides",
            reason=DISTRUSTED,
        )

    def here(self, proxy_id: str) -> None:
        """The Proxy follows this Authority."""
        self._here_since.setdefault(proxy_id, self.now())

    def away(self, proxy_id: str) -> None:
        """It does not any more."""
        self._here_since.pop(proxy_id, None)

    def was_here_since(self, proxy_id: str, at: float) -> bool:
        """Whether it followed this Authority all the time from then on."""
        return self._here_since.get(proxy_id, inf) <= at

    def mismatched(
        self, session_uid: str, proxy_id: str, word: str, egress_proxy_id: str = ""
    ) -> None:
        """The Proxy's records of a session are not what its Connector passed on.

        Args:
            egress_proxy_id: Of a session that was relayed: it may have altered what was decided,
                and nobody can tell which of the two did.
        """
        self._sessions[session_uid] = _Word(
            event=SESSION_MISMATCH,
            reason=word,
            proxy_id=proxy_id,
            egress_proxy_id=egress_proxy_id,
        )
        for one in filter(None, (proxy_id, egress_proxy_id)):
            self._distrust(one, MISMATCH, inf)
        _log.error(
            "a Proxy's records of a session are not what its Connector passed on; revoke the Proxy",
            session=session_uid,
            proxy=proxy_id,
            egress_proxy=egress_proxy_id,
            reason=word,
        )

    def unconfirmed(
        self,
        session_uid: str,
        proxy_id: str,
        word: str,
        ended_at: float,
        egress_proxy_id: str = "",
    ) -> None:
        """Nobody knows whether the records of a session that is over are all there were."""
        self._sessions[session_uid] = _Word(
            event=SESSION_UNCONFIRMED,
            reason=word,
            proxy_id=proxy_id,
            egress_proxy_id=egress_proxy_id,
        )
        if word == RESTARTED:
            return
        for one in (proxy_id, *filter(None, (egress_proxy_id,))):
            self._add_incident(session_uid, one, word, ended_at)

    def _add_incident(self, session_uid: str, proxy_id: str, word: str, ended_at: float) -> None:
        incidents = self._incidents.setdefault(proxy_id, Incidents())
        before = incidents.count
        is_too_many = incidents.add(ended_at)
        if incidents.count != before:
            _log.warn(
                "sessions of a Proxy ended without their Connector's last checkpoint, or records",
                proxy=proxy_id,
                session=session_uid,
                reason=word,
                incidents=incidents.count or before + 1,
            )
        if is_too_many:
            self._distrust(proxy_id, UNCONFIRMED, self.now() + DAY_SECS)

    def _distrust(self, proxy_id: str, reason: str, until: float) -> None:
        if self._until.get(proxy_id, 0.0) >= until:
            return
        self._until[proxy_id] = until
        self._proxies[proxy_id] = reason
        _log.error("a Proxy opens no gated sessions any more", proxy=proxy_id, reason=reason)

    async def write(self) -> None:
        """Put on record what is not yet; what cannot be written now stays for the next time.

        It stays together with what one transaction was to write with it: where the answer to that
        was lost, all of it is in the log, or none.

        Raises:
            SvcError: some of it is not on record.
        """
        # Another call must not write them too.
        owed, self._owed = self._owed, deque()
        try:
            while owed or self._sessions or self._proxies:
                if not owed:
                    owed.append(self._taken())
                found = await self.store.run(
                    "what sessions say of Proxies", partial(self._write, owed[0])
                )
                owed.popleft()
                for proxy_id in found:
                    self._distrust(proxy_id, MISMATCH, inf)
        finally:
            self._owed.extendleft(reversed(owed))

    def _taken(self) -> _OwedRecords:
        """What the next transaction is to write."""
        sessions = dict(islice(self._sessions.items(), _BATCH))
        self._sessions = {k: v for k, v in self._sessions.items() if k not in sessions}
        proxies, self._proxies = self._proxies, {}
        return _OwedRecords(sessions, proxies)

    def _write(self, owed: _OwedRecords, tx: ITransaction) -> set[str]:
        """The Proxies of mismatched sessions."""
        said = list(_said(tx, owed.sessions))
        owed.record.append(tx, partial(self._append, said, owed.proxies))
        return {one.proxy_id for one in said if one.event is SESSION_MISMATCH}

    def _append(
        self, said: Iterable[_Said], proxies: Mapping[str, str], tx: ITransaction
    ) -> ChainRow | None:
        """Append a record of each; the last one."""
        last = None
        for one in said:
            last = self.recorder.append(
                tx,
                one.event,
                node(one.proxy_id),
                session_uid=one.session_uid,
                reason=one.word,
                details=one.details,
                **one.about,
            )
        for proxy_id, reason in proxies.items():
            last = self.recorder.append(
                tx,
                PROXY_DISTRUSTED,
                node(proxy_id),
                node_id=proxy_id,
                decision_id=_filed_under(proxy_id),
                reason=reason,
                details={"proxy_id": proxy_id},
            )
        return last


def _said(tx: ITransaction, sessions: Mapping[str, _Word]) -> Iterator[_Said]:
    """What is to be recorded of sessions, of those whose Proxy is known."""
    for uid, word in sessions.items():
        session = tx.sessions.get(uid)
        # By the grant, where it was seen: the row is not signed, and may be gone.
        proxy_id = word.proxy_id or ("" if session is None else session.proxy_id)
        if not proxy_id:
            continue
        details: dict[str, Json] = {"proxy_id": proxy_id}
        if word.egress_proxy_id:
            details["egress_proxy_id"] = word.egress_proxy_id
        about: dict[str, Any] = {}
        if session is not None:
            details["connector_id"] = session.connector_id
            about = {
                "resource_id": session.resource_id,
                "resource_kind": session.kind,
                "decision_id": session.decision_id,
            }
        yield _Said(
            event=word.event,
            session_uid=uid,
            proxy_id=proxy_id,
            word=word.reason,
            details=details,
            about=about,
        )


def _filed_under(proxy_id: str) -> str:
    """The id that finds what is on record against a Proxy: the log has an index of decisions."""
    return sha256(b"svc-proxy-distrusted-v1\0" + proxy_id.encode()).hexdigest()[:32]


def _recorded_until(tx: ITransaction, proxy_id: str) -> float:
    until = 0.0
    for row in tx.audit.by_decision(_filed_under(proxy_id)):
        record = decode(row.canonical)
        assert isinstance(record, dict)  # or it were not in the log
        # A Proxy chooses the ids of its own decisions; those are other events.
        if (record.get("event"), record.get("node_id")) != (PROXY_DISTRUSTED.name, proxy_id):
            continue
        if record.get("reason") == MISMATCH:
            return inf
        until = max(until, datetime.fromisoformat(str(record["time"])).timestamp() + DAY_SECS)
    return until

"""Verifies a session itself before the Connector opens it (rule R2).

Neither the Proxy that sent the notice nor anything it says is believed: the
grant is Authority's by its signature, the request is the person's by theirs, and
both must speak of this Connector, this Proxy, this session, now, once.

Pure and synchronous but for its memory of sessions seen; it dials nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from attrs import frozen

from svc.connector.inventories import ProxyInventories
from svc.errors import Malformed, SvcError
from svc.interfaces.identity import IChainVerifier
from svc.interfaces.kinds import ILimitedDialer, ServedKind, ends_here
from svc.messages.session import decode_grant, decode_request
from svc.messages.tunnel import OpenNotice
from svc.model.certificate import CertificateFacts
from svc.model.cluster.target import Target
from svc.model.principal import CALLERS
from svc.model.session.grant import OPEN_WITHIN_MS, Grant
from svc.model.session.parameters import resolved
from svc.model.session.request import MAX_AGE_MS, SessionRequest
from svc.model.signing import Purpose, verify
from svc.tunnel.refusals import refused

MAX_SEEN = 20_000
"""Sessions remembered at once; each for at most the time its grant could open it."""

_REMEMBERED_MS = 86_400_000
"""How far ahead the end of a grant may be that is to be remembered until then."""


@frozen
class AdmittedSession:
    """A session that may open, and all that it may do."""

    grant: Grant
    request: SessionRequest
    person: CertificateFacts
    target: Target


class SeenSessions:
    """Which sessions were asked for: each opens once.

    An entry is kept until its grant can open nothing any more; then the
    grant's own time refuses it.  A restart forgets them all: so a grant
    issued before the start is refused as well, by whoever asks here.  So is one
    that ends before the time up to which entries were dropped: the host's clock
    may have been set back since, and would call it good again.  Where it ran far
    ahead when that happened, only a restart, or the time, brings grants back.
    """

    def __init__(self, most: int = MAX_SEEN) -> None:
        self._most = most
        self._until: dict[str, int] = {}
        self._dropped_ms = 0

    def __len__(self) -> int:
        return len(self._until)

    def take(self, session_uid: str, until_ms: int, now_ms: int) -> None:
        """Remember a session.

        Raises:
            OpenRefusedHere: it was seen before, or too many are remembered.
        """
        if session_uid in self._until:
            raise refused("session_replayed", "this session was already requested")
        if until_ms < self._dropped_ms:
            raise refused(
                "session_replayed",
                "the grant is too old: the Connector can no longer tell whether it was used",
            )
        if len(self._until) >= self._most:
            kept = {uid: until for uid, until in self._until.items() if until >= now_ms}
            self._until = kept
            self._dropped_ms = max(self._dropped_ms, now_ms)
            if len(kept) >= self._most:
                raise refused("too_many_sessions", "too many sessions were requested at once")
        self._until[session_uid] = until_ms


class Admission:
    """Checks open notices.

    Args:
        node_id: Ours.
        verifier: Judges chains against the pinned root.
        targets: Our own configuration, by resource id.
        kinds: Those enabled here, of each target one.
        now: Wall time in seconds.  The time of construction counts as our
            start: no grant from before it opens anything.
        inventories: What we were told to serve.
    """

    def __init__(
        self,
        node_id: str,
        verifier: IChainVerifier,
        targets: Mapping[str, Target],
        kinds: Mapping[str, ServedKind],
        now: Callable[[], float],
        seen: SeenSessions | None = None,
        inventories: ProxyInventories | None = None,
    ) -> None:
        self._node_id = node_id
        self._verifier = verifier
        self._targets = targets
        self._kinds = kinds
        self._now = now
        self._started_ms = int(now() * 1000)
        self._seen = SeenSessions() if seen is None else seen
        self._inventories = ProxyInventories() if inventories is None else inventories

    @property
    def verifier(self) -> IChainVerifier:
        """Judges chains against the pinned root."""
        return self._verifier

    def admit(self, notice: OpenNotice, proxy_id: str) -> AdmittedSession:
        """The session, if it may open.

        Args:
            notice: As it came.
            proxy_id: Of the node at the other end of the tunnel it came over,
                from its certificate.

        Raises:
            OpenRefusedHere: in every other case, with a word of
                ``svc.tunnel.refusals``; the session then stays unseen, but
                for a replay.
        """
        now_ms = int(self._now() * 1000)
        grant = self._grant(notice)
        self._check_parties(grant, notice, proxy_id)
        self._check_times(grant, now_ms)
        request = self._request(grant, notice)
        person = self._person(grant, request, notice)
        target = self._target(grant)
        self._check_ceiling(self._kinds[target.kind], target, grant, request)
        self._inventories.check(grant, proxy_id)
        self._seen.take(grant.session_uid, grant.open_before_ms, now_ms)
        return AdmittedSession(grant=grant, request=request, person=person, target=target)

    def spend(self, notice: OpenNotice, proxy_id: str) -> Grant | None:
        """The grant of a gated session that was refused; it opens nothing from now on.

        So whoever refused it may say for good that the session never opened.  None where that
        cannot be said: it is no grant for us, or has opened a session, or its times are so far off
        that we would forget it first.
        """
        now_ms = int(self._now() * 1000)
        try:
            grant = self._grant(notice)
            self._check_parties(grant, notice, proxy_id)
            if not grant.is_gated or grant.open_before_ms > now_ms + _REMEMBERED_MS:
                return None
            self._seen.take(grant.session_uid, grant.open_before_ms, now_ms)
        except SvcError:
            return None
        return grant

    def _grant(self, notice: OpenNotice) -> Grant:
        try:
            self._verifier.verify_signed(notice.grant, Purpose.GRANT)
        except Exception as error:
            raise refused("grant_refused", _why(error)) from error
        try:
            return decode_grant(notice.grant.payload)
        except Malformed as error:
            raise refused("grant_malformed", error.text) from error

    def _check_parties(self, grant: Grant, notice: OpenNotice, proxy_id: str) -> None:
        if grant.cluster != self._verifier.cluster:
            raise refused("grant_cluster", "the grant belongs to another cluster")
        if grant.session_uid != notice.session_uid:
            raise refused("grant_session", "the grant is for another session")
        if grant.connector_id != self._node_id:
            raise refused("grant_not_for_us", "the grant names another Connector")
        if grant.tunnel_proxy_id != proxy_id:
            raise refused("grant_other_proxy", "the grant names another Proxy")

    def _check_times(self, grant: Grant, now_ms: int) -> None:
        if now_ms > grant.open_before_ms:
            raise refused(
                "grant_too_old", "the grant has expired: the time to open its session is over"
            )
        if grant.issued_at_ms < self._started_ms:
            raise refused(
                "grant_before_start", "the grant was issued before this Connector started"
            )
        if (
            grant.issued_at_ms > now_ms + MAX_AGE_MS
            or grant.open_before_ms - grant.issued_at_ms > OPEN_WITHIN_MS
            or grant.end_before_ms <= now_ms
        ):
            raise refused("grant_times", "the grant's times are inconsistent")

    def _request(self, grant: Grant, notice: OpenNotice) -> SessionRequest:
        if sha256(notice.request).digest() != grant.request_sha256:
            raise refused("request_mismatch", "the grant is for another session request")
        try:
            request = decode_request(notice.request)
        except Malformed as error:
            raise refused("request_refused", error.text) from error
        asked = (request.cluster, request.session_uid, request.resource, request.kind)
        if (*asked, request.proxy_id) != (
            grant.cluster,
            grant.session_uid,
            grant.resource,
            grant.kind,
            grant.proxy_id,
        ):
            raise refused("request_mismatch", "the session request does not match the grant")
        return request

    def _person(
        self, grant: Grant, request: SessionRequest, notice: OpenNotice
    ) -> CertificateFacts:
        try:
            person = self._verifier.verify(notice.person_chain, CALLERS)
        except Exception as error:
            raise refused("person_refused", _why(error)) from error
        if (
            person.sha256 != grant.person_certificate_sha256
            or person.sha256 != request.certificate_sha256
            or person.principal.id != grant.person_id
        ):
            raise refused("person_mismatch", "the grant is for another person or certificate")
        if grant.end_before_ms > int(person.not_after * 1000):
            raise refused("grant_times", "the grant lasts longer than the person's certificate")
        try:
            verify(person.public_key, Purpose.SESSION_REQUEST, notice.request, notice.signature)
        except SvcError as error:
            raise refused("request_refused", error.text) from error
        return person

    def _target(self, grant: Grant) -> Target:
        target = self._targets.get(grant.resource)
        if target is None:
            raise refused(
                "resource_not_here", "the resource is not in this Connector's configuration"
            )
        if target.kind != grant.kind:
            raise refused(
                "kind_mismatch",
                "the resource has a different kind in this Connector's configuration",
            )
        return target

    def _check_ceiling(
        self, kind: ServedKind, target: Target, grant: Grant, request: SessionRequest
    ) -> None:
        """Take a ceiling that the kind enforces whole, and that is what the person asked for."""
        if grant.is_gated is kind.opaque or bool(request.half) is kind.opaque:
            raise refused(
                "kind_mismatch",
                "the resource's kind is gated at one of person, Authority and here, and not at all",
            )
        ends = ends_here(kind.dialer, target)
        if kind.terms.rights and ends is (grant.operations is None):
            here = "a" if ends else "no"
            raise refused(
                "ceiling_unenforced",
                f"this Connector's configuration gives the resource {here} gate, and the catalog "
                "says otherwise; make both the same: the key onward there, and --onward-auth of "
                "`svc authority resources add`",
            )
        if grant.operations is not None and not (ends or ILimitedDialer.providedBy(kind.dialer)):
            raise refused(
                "ceiling_unenforced",
                f"the grant allows only some operations of {kind.name}, which the kind's dialer "
                "cannot tell apart; run the same version of svc at Authority and here",
            )
        try:
            asked = kind.asked(request, ends=ends).ceiling
        except Malformed as error:
            raise refused("request_refused", error.text) from error
        if set(grant.ceiling) != set(asked):
            raise refused(
                "ceiling_unenforced",
                f"the grant's ceiling is not of what {kind.name} enforces here; run the same "
                "version of its plug-in at Authority and here",
            )
        # Bytes, not defaults: those are Authority's, which decided by them.
        named = {name: request.parameters.get(name, said) for name, said in grant.ceiling.items()}
        if named != grant.ceiling:
            raise refused("request_mismatch", "the ceiling is not what the person asked for")
        try:
            resolved(kind.taken(ends=ends), grant.ceiling, kind.name)
        except Malformed as error:
            raise refused("ceiling_unenforced", error.text) from error


def _why(error: Exception) -> str:
    """What a verifier said; whatever else a peer's bytes made it trip over refuses them too."""
    return error.text if isinstance(error, SvcError) else "it cannot be decoded"

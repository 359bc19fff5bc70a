"""Who asks for a page: the person in the token that a Connector adds (rule R34).

With what certificate and what second factor, the record of the session's opening says; the
token says by its hash that this is the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, frozen

from svc.authority.access.opened import held_opening
from svc.authority.registry.operators import factor_at
from svc.authority.state.cache import ClusterStateCache
from svc.errors import Denied, Fault, SvcError, Unauthenticated
from svc.interfaces.store import IReadOnlyStore, ITransaction
from svc.model.canonical import Json
from svc.model.cluster.person import Person, require_active
from svc.model.policy.requests import FACTOR_AGE
from svc.model.session.session import SessionState

ACTS_AS = "acts_as"
"""Why a request in another person's name is refused: what is done here is done in one's own."""


@frozen(kw_only=True)
class PageVisitor:
    """A person at the page.

    Attributes:
        session_uid: Of the session that the request came in.
        certificate_sha256: Of the certificate that the session was opened with.
        factor_at: When a second factor was presented, as the policy saw it when the session opened;
            None where that is not known.
    """

    person: Person
    session_uid: str
    certificate_sha256: bytes
    factor_at: float | None


@define
class Visitors:
    """Finds the person of a request.

    Attributes:
        resource: The id of the resource that the page is.
        verify: Gives the claims of a token that this cluster signed.
    """

    cluster: str
    resource: str
    state_cache: ClusterStateCache
    store: IReadOnlyStore
    verify: Callable[[bytes], Mapping[str, Json]]
    now: Callable[[], float]

    async def visitor(self, tokens: Sequence[bytes]) -> PageVisitor:
        """The person in whose session a request came.

        Args:
            tokens: Every value of the header field ``svc-identity``.

        Raises:
            Unauthenticated: nobody, as far as the page can tell.
            Denied: somebody who acts as another, or is not let in any more.
        """
        if len(tokens) != 1:
            raise _nobody()
        claims = self.verify(tokens[0])
        self._check(claims)
        person_id, uid = str(claims["sub"]), str(claims["sid"])
        audit_hash = _digest(str(claims["audit_hash"]))
        if "act" in claims:
            raise Denied(
                "this page answers only for the person who asks; ask without `svc-identity`",
                reason=ACTS_AS,
            )
        person = require_active(self.state_cache.state.people.get(person_id))
        return await self.store.read(
            "who is at the page", lambda tx: self._visitor(tx, uid, audit_hash, person)
        )

    def _check(self, claims: Mapping[str, Json]) -> None:
        """The token is for this page, and for now."""
        resource = self.state_cache.state.catalog.get(self.resource)
        if resource is None:
            raise SvcError(
                f"the catalog has no resource {self.resource}, which `page.resource` names; add"
                f" it: svc authority resources add {self.resource} --kind web --node CONNECTOR",
                reason="page_not_in_catalog",
                fault=Fault.PRECONDITION,
            )
        begins, ends = claims.get("nbf"), claims.get("exp")
        is_now = isinstance(begins, int) and isinstance(ends, int) and begins <= self.now() < ends
        is_ours = (claims.get("iss"), claims.get("aud")) == (self.cluster, resource.identity)
        texts = (claims.get("sub"), claims.get("sid"), claims.get("audit_hash"))
        if not (is_now and is_ours and all(isinstance(one, str) for one in texts)):
            raise _nobody()

    def _visitor(
        self, tx: ITransaction, uid: str, audit_hash: bytes, person: Person
    ) -> PageVisitor:
        """The person, if the session of the token is still open and its certificate good."""
        session = tx.sessions.get(uid)
        if (
            session is None
            or session.state is not SessionState.OPEN
            or session.end_reason
            or (session.person_id, session.resource_id) != (person.id, self.resource)
        ):
            raise _nobody()
        rows = self.state_cache.rows(tx)
        opening = held_opening(tx, uid, audit_hash)
        if opening is None:
            raise _nobody()
        issued = rows.certificate(bytes.fromhex(opening["details"]["certificate_sha256"]))
        if issued is None or issued.revoked_at is not None or issued.person_id != person.id:
            raise _nobody()
        return PageVisitor(
            person=person,
            session_uid=uid,
            certificate_sha256=issued.sha256,
            factor_at=_presented(opening) or factor_at(rows, issued),
        )


def _presented(opening: Mapping[str, Any]) -> float | None:
    """When a second factor was presented, as the certificate says: a provider's too.

    The certificate itself is not kept; the session's opening was decided by what it says.
    """
    context = opening["request"]["context"]
    age = context.get(FACTOR_AGE)
    return None if age is None else float(context["now"] - age)


def _digest(claim: str) -> bytes:
    try:
        return bytes.fromhex(claim)
    except ValueError:
        raise _nobody() from None


def _nobody() -> Unauthenticated:
    return Unauthenticated("the page could not be told who asks")

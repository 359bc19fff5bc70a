"""What the target of a session is told of who makes its requests: times, and names of claims."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from svc.model.canonical import Json

LIFETIME_SECS = 60
"""From the beginning of a token to its end."""

BACKDATE_SECS = 5
"""The part of it that lies before its issue, for targets whose clocks lag."""

CACHED_SECS = 30.0
"""How long a Connector goes on using one."""

MOST_GROUPS_BYTES = 4096
"""Of the names of groups in a token: servers take 8 KiB of one header field."""

DENIED = "identity_denied"
"""The person that a request names is not there, or may not be named, or is not allowed either."""

UNAVAILABLE = "identity_unavailable"
"""Nobody can tell the target now who makes the request."""


@frozen
class Named:
    """A person as a token names one."""

    id: str
    name: str
    groups: tuple[str, ...] = ()

    def claims(self) -> dict[str, Json]:
        """What stands of a person beside the id; nothing that is not known."""
        found: dict[str, Json] = {"name": self.name} if self.name else {}
        if sum(map(len, self.groups)) <= MOST_GROUPS_BYTES:
            found["groups"] = list(self.groups)
        else:
            found["groups_omitted"] = True
        return found


@frozen(kw_only=True)
class Identity:
    """Who makes the requests of a session, for one target.

    Attributes:
        audience: The identity of the resource, which no other one ever has.
        audit_hash: The chain hash of the record of that decision, as the grant says it.
        acts_as: The person that requests are made as; None: ``person``.
    """

    cluster: str
    audience: str
    person: Named
    session_uid: str
    decision_id: str
    audit_hash: bytes
    acts_as: Named | None = None

    def claims(self, token_id: str, now: float) -> Mapping[str, Json]:
        """The claims of a token that is issued now."""
        issued = int(now)
        said: dict[str, Json] = {
            "iss": self.cluster,
            "aud": self.audience,
            "sub": self.person.id,
            **self.person.claims(),
            "sid": self.session_uid,
            "decision_id": self.decision_id,
            "audit_hash": self.audit_hash.hex(),
            "jti": token_id,
            "iat": issued,
            "nbf": issued - BACKDATE_SECS,
            "exp": issued - BACKDATE_SECS + LIFETIME_SECS,
        }
        if self.acts_as is not None:
            said["act"] = {"sub": self.acts_as.id, **self.acts_as.claims()}
        return said

"""The grant: the Authority's signed permission to open one session (rule R2).

A grant names everything it is good for, so that the Connector can check it by
itself and no other session, Connector, Proxy or time can use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from svc.model.cluster.resource import Assigned

OPEN_WITHIN_MS = 30_000
"""A grant opens a session within this time of its issue, or never."""

RECORDING_KEY_BYTES = 32


@frozen
class Grant:
    """One session that may open; see R2 for who checks which field.

    Attributes:
        request_sha256: Of the SessionRequest's bytes as the person signed them.
        resource_identity: Which resource of that id; empty: by an Authority that kept none.
        assignment_revision: Of the assignment that makes it this Connector's.
        ceiling: Parameters of the kind, by name, that the Connector holds the session to.
        operations: Of the kind, by name: those that the Connector lets pass; None: all.  Of a
            session whose protocol ends at the Connector: its rights.
        is_gated: Whether the Proxy reads the session's bytes; otherwise its two ends alone do.
        decision_id: Of the decision, where the Connector tells it to the person; else empty.
        recording_key: The public key that recordings of the session are sealed to; empty where
            its protocol does not end at the Connector.
        onward_certificate: OpenSSH's, by which the Connector logs in at the target; empty: it does
            so by other means, or not at all.
        egress_proxy_id: The Proxy that holds the Connector's tunnel, where that is another one than
            ``proxy_id``, which the session entered; empty: it is the same.
        audit_hash: The chain hash of the record that allowed the session.
        open_before_ms: Unix milliseconds after which nothing opens by it.
        end_before_ms: Unix milliseconds at which the session is closed; never
            past the end of the person's certificate.
    """

    cluster: str
    session_uid: str
    request_sha256: bytes
    person_id: str
    person_certificate_sha256: bytes
    resource: str
    resource_revision: int
    kind: str
    connector_id: str
    proxy_id: str
    policy_version: int
    audit_hash: bytes
    issued_at_ms: int
    open_before_ms: int
    end_before_ms: int
    resource_identity: str = ""
    assignment_revision: int = 0
    ceiling: Mapping[str, str] = field(factory=dict)
    is_gated: bool = False
    operations: frozenset[str] | None = None
    decision_id: str = ""
    recording_key: bytes = b""
    onward_certificate: bytes = field(default=b"", repr=False)
    egress_proxy_id: str = ""

    @property
    def is_relayed(self) -> bool:
        """Whether it goes from the Proxy that it entered to another one."""
        return bool(self.egress_proxy_id)

    @property
    def tunnel_proxy_id(self) -> str:
        """The Proxy over whose tunnel its Connector is told of it."""
        return self.egress_proxy_id or self.proxy_id

    @property
    def assigned(self) -> Assigned:
        """What it is for, as its Connector is meant to serve it."""
        return Assigned(self.resource, self.resource_identity, self.assignment_revision)

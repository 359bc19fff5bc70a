from svc.proto.gate.v1 import session_pb2 as _session_pb2
from svc.proto.gate.v1 import tunnel_pb2 as _tunnel_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthReports(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[_tunnel_pb2.SignedHealthReport]
    def __init__(self, reports: _Optional[_Iterable[_Union[_tunnel_pb2.SignedHealthReport, _Mapping]]] = ...) -> None: ...

class HelloRequest(_message.Message):
    __slots__ = ("version", "open_sessions", "instance_id", "audit_head", "peer_address")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    AUDIT_HEAD_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    version: str
    open_sessions: _containers.RepeatedScalarFieldContainer[str]
    instance_id: str
    audit_head: bytes
    peer_address: str
    def __init__(self, version: _Optional[str] = ..., open_sessions: _Optional[_Iterable[str]] = ..., instance_id: _Optional[str] = ..., audit_head: _Optional[bytes] = ..., peer_address: _Optional[str] = ...) -> None: ...

class HelloResponse(_message.Message):
    __slots__ = ("cluster", "authority_id", "version", "join_port", "renewal_port", "admin_port")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOIN_PORT_FIELD_NUMBER: _ClassVar[int]
    RENEWAL_PORT_FIELD_NUMBER: _ClassVar[int]
    ADMIN_PORT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    authority_id: str
    version: str
    join_port: int
    renewal_port: int
    admin_port: int
    def __init__(self, cluster: _Optional[str] = ..., authority_id: _Optional[str] = ..., version: _Optional[str] = ..., join_port: _Optional[int] = ..., renewal_port: _Optional[int] = ..., admin_port: _Optional[int] = ...) -> None: ...

class ProxyDecision(_message.Message):
    __slots__ = ("decision_id", "decision", "reason", "policies", "policy_version", "entities_digest", "source_address")
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    decision: str
    reason: str
    policies: _containers.RepeatedScalarFieldContainer[str]
    policy_version: int
    entities_digest: str
    source_address: str
    def __init__(self, decision_id: _Optional[str] = ..., decision: _Optional[str] = ..., reason: _Optional[str] = ..., policies: _Optional[_Iterable[str]] = ..., policy_version: _Optional[int] = ..., entities_digest: _Optional[str] = ..., source_address: _Optional[str] = ...) -> None: ...

class AuthorizeRequest(_message.Message):
    __slots__ = ("request", "signature", "person_chain", "proxy_decision", "seen_at_ms")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PERSON_CHAIN_FIELD_NUMBER: _ClassVar[int]
    PROXY_DECISION_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    request: bytes
    signature: bytes
    person_chain: _containers.RepeatedScalarFieldContainer[bytes]
    proxy_decision: ProxyDecision
    seen_at_ms: int
    def __init__(self, request: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., person_chain: _Optional[_Iterable[bytes]] = ..., proxy_decision: _Optional[_Union[ProxyDecision, _Mapping]] = ..., seen_at_ms: _Optional[int] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ("checkpoint", "grant", "request", "person_chain", "source_address")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PERSON_CHAIN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    checkpoint: _session_pb2.SignedCheckpoint
    grant: _session_pb2.SignedGrant
    request: bytes
    person_chain: _containers.RepeatedScalarFieldContainer[bytes]
    source_address: str
    def __init__(self, checkpoint: _Optional[_Union[_session_pb2.SignedCheckpoint, _Mapping]] = ..., grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., request: _Optional[bytes] = ..., person_chain: _Optional[_Iterable[bytes]] = ..., source_address: _Optional[str] = ...) -> None: ...

class AuthorizeResponse(_message.Message):
    __slots__ = ("grant", "decision_id", "reason", "text", "policies", "may_view", "request_hint", "approved", "peer_address")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    MAY_VIEW_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HINT_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    grant: _session_pb2.SignedGrant
    decision_id: str
    reason: str
    text: str
    policies: _containers.RepeatedScalarFieldContainer[str]
    may_view: bool
    request_hint: str
    approved: ApprovedAccess
    peer_address: str
    def __init__(self, grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., decision_id: _Optional[str] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., policies: _Optional[_Iterable[str]] = ..., may_view: _Optional[bool] = ..., request_hint: _Optional[str] = ..., approved: _Optional[_Union[ApprovedAccess, _Mapping]] = ..., peer_address: _Optional[str] = ...) -> None: ...

class UseApprovalRequest(_message.Message):
    __slots__ = ("action", "text_sha256", "only_exact", "grant")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TEXT_SHA256_FIELD_NUMBER: _ClassVar[int]
    ONLY_EXACT_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    action: str
    text_sha256: bytes
    only_exact: bool
    grant: _session_pb2.SignedGrant
    def __init__(self, action: _Optional[str] = ..., text_sha256: _Optional[bytes] = ..., only_exact: _Optional[bool] = ..., grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ...) -> None: ...

class UseApprovalResponse(_message.Message):
    __slots__ = ("approved", "lasting", "exact")
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    approved: ApprovedAccess
    lasting: bool
    exact: bool
    def __init__(self, approved: _Optional[_Union[ApprovedAccess, _Mapping]] = ..., lasting: _Optional[bool] = ..., exact: _Optional[bool] = ...) -> None: ...

class ApprovedAccess(_message.Message):
    __slots__ = ("request_id", "approver", "ends_at", "exact")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVER_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    approver: str
    ends_at: int
    exact: bool
    def __init__(self, request_id: _Optional[str] = ..., approver: _Optional[str] = ..., ends_at: _Optional[int] = ..., exact: _Optional[bool] = ...) -> None: ...

class ConnectorUp(_message.Message):
    __slots__ = ("tunnel", "registration")
    TUNNEL_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    tunnel: ConnectorTunnel
    registration: _tunnel_pb2.SignedRegistration
    def __init__(self, tunnel: _Optional[_Union[ConnectorTunnel, _Mapping]] = ..., registration: _Optional[_Union[_tunnel_pb2.SignedRegistration, _Mapping]] = ...) -> None: ...

class ConnectorTunnel(_message.Message):
    __slots__ = ("tunnel_id", "peer_node_id")
    TUNNEL_ID_FIELD_NUMBER: _ClassVar[int]
    PEER_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    tunnel_id: str
    peer_node_id: str
    def __init__(self, tunnel_id: _Optional[str] = ..., peer_node_id: _Optional[str] = ...) -> None: ...

class ConnectorDown(_message.Message):
    __slots__ = ("nonce", "answer", "evict")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    nonce: _tunnel_pb2.Nonce
    answer: RegistrationAnswer
    evict: Evict
    def __init__(self, nonce: _Optional[_Union[_tunnel_pb2.Nonce, _Mapping]] = ..., answer: _Optional[_Union[RegistrationAnswer, _Mapping]] = ..., evict: _Optional[_Union[Evict, _Mapping]] = ...) -> None: ...

class RegistrationAnswer(_message.Message):
    __slots__ = ("accepted", "reason", "text", "lease_secs", "served", "withheld", "superseded", "inventory")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECS_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    text: str
    lease_secs: int
    served: _containers.RepeatedScalarFieldContainer[str]
    withheld: _containers.RepeatedCompositeFieldContainer[_tunnel_pb2.WithheldResource]
    superseded: int
    inventory: _tunnel_pb2.Inventory
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., lease_secs: _Optional[int] = ..., served: _Optional[_Iterable[str]] = ..., withheld: _Optional[_Iterable[_Union[_tunnel_pb2.WithheldResource, _Mapping]]] = ..., superseded: _Optional[int] = ..., inventory: _Optional[_Union[_tunnel_pb2.Inventory, _Mapping]] = ...) -> None: ...

class Evict(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("have_serial", "have_digest")
    HAVE_SERIAL_FIELD_NUMBER: _ClassVar[int]
    HAVE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    have_serial: int
    have_digest: bytes
    def __init__(self, have_serial: _Optional[int] = ..., have_digest: _Optional[bytes] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("cluster", "serial", "policy_version", "entity_revision", "issued_at_ms", "valid_secs", "bundle_sha256", "revocations", "lease_epoch", "asked_ends", "revoked_certificates")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENTITY_REVISION_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    VALID_SECS_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_SHA256_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASKED_ENDS_FIELD_NUMBER: _ClassVar[int]
    REVOKED_CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    serial: int
    policy_version: int
    entity_revision: int
    issued_at_ms: int
    valid_secs: int
    bundle_sha256: bytes
    revocations: _containers.RepeatedCompositeFieldContainer[Revocation]
    lease_epoch: int
    asked_ends: _containers.RepeatedCompositeFieldContainer[AskedEnd]
    revoked_certificates: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, cluster: _Optional[str] = ..., serial: _Optional[int] = ..., policy_version: _Optional[int] = ..., entity_revision: _Optional[int] = ..., issued_at_ms: _Optional[int] = ..., valid_secs: _Optional[int] = ..., bundle_sha256: _Optional[bytes] = ..., revocations: _Optional[_Iterable[_Union[Revocation, _Mapping]]] = ..., lease_epoch: _Optional[int] = ..., asked_ends: _Optional[_Iterable[_Union[AskedEnd, _Mapping]]] = ..., revoked_certificates: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AskedEnd(_message.Message):
    __slots__ = ("session_uid", "reason")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    reason: str
    def __init__(self, session_uid: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("principal", "generation", "reason")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    principal: str
    generation: int
    reason: str
    def __init__(self, principal: _Optional[str] = ..., generation: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class SnapshotFrame(_message.Message):
    __slots__ = ("snapshot", "signature", "chain", "bundle", "delta", "audit_heads", "served_by_peers")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    AUDIT_HEADS_FIELD_NUMBER: _ClassVar[int]
    SERVED_BY_PEERS_FIELD_NUMBER: _ClassVar[int]
    snapshot: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    bundle: bytes
    delta: bytes
    audit_heads: _containers.RepeatedScalarFieldContainer[bytes]
    served_by_peers: ServedByPeers
    def __init__(self, snapshot: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ..., bundle: _Optional[bytes] = ..., delta: _Optional[bytes] = ..., audit_heads: _Optional[_Iterable[bytes]] = ..., served_by_peers: _Optional[_Union[ServedByPeers, _Mapping]] = ...) -> None: ...

class ServedByPeers(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, resources: _Optional[_Iterable[str]] = ...) -> None: ...

class EndedSession(_message.Message):
    __slots__ = ("session_uid", "reason", "bytes_up", "bytes_down", "lane")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BYTES_UP_FIELD_NUMBER: _ClassVar[int]
    BYTES_DOWN_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    reason: str
    bytes_up: int
    bytes_down: int
    lane: str
    def __init__(self, session_uid: _Optional[str] = ..., reason: _Optional[str] = ..., bytes_up: _Optional[int] = ..., bytes_down: _Optional[int] = ..., lane: _Optional[str] = ...) -> None: ...

class EndSessionsRequest(_message.Message):
    __slots__ = ("sessions", "moved")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[EndedSession]
    moved: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sessions: _Optional[_Iterable[_Union[EndedSession, _Mapping]]] = ..., moved: _Optional[_Iterable[str]] = ...) -> None: ...

class EndSessionsResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[SessionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SessionOutcome, _Mapping]]] = ...) -> None: ...

class SessionOutcome(_message.Message):
    __slots__ = ("session_uid", "outcome")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    outcome: str
    def __init__(self, session_uid: _Optional[str] = ..., outcome: _Optional[str] = ...) -> None: ...

class DepartureNotice(_message.Message):
    __slots__ = ("tunnel_node_id", "reason", "session_uids", "ended")
    TUNNEL_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SESSION_UIDS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    tunnel_node_id: str
    reason: str
    session_uids: _containers.RepeatedScalarFieldContainer[str]
    ended: _containers.RepeatedCompositeFieldContainer[EndedSession]
    def __init__(self, tunnel_node_id: _Optional[str] = ..., reason: _Optional[str] = ..., session_uids: _Optional[_Iterable[str]] = ..., ended: _Optional[_Iterable[_Union[EndedSession, _Mapping]]] = ...) -> None: ...

class DepartureAnswer(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[SessionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[SessionOutcome, _Mapping]]] = ...) -> None: ...

class SpooledRequest(_message.Message):
    __slots__ = ("spool_id", "rows")
    SPOOL_ID_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    spool_id: bytes
    rows: _containers.RepeatedCompositeFieldContainer[SpooledRow]
    def __init__(self, spool_id: _Optional[bytes] = ..., rows: _Optional[_Iterable[_Union[SpooledRow, _Mapping]]] = ...) -> None: ...

class SpooledRow(_message.Message):
    __slots__ = ("record", "signature", "key_id", "personal")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    PERSONAL_FIELD_NUMBER: _ClassVar[int]
    record: bytes
    signature: bytes
    key_id: str
    personal: _containers.RepeatedCompositeFieldContainer[SpooledValue]
    def __init__(self, record: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key_id: _Optional[str] = ..., personal: _Optional[_Iterable[_Union[SpooledValue, _Mapping]]] = ...) -> None: ...

class SpooledValue(_message.Message):
    __slots__ = ("path", "salt", "value")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    path: str
    salt: bytes
    value: str
    def __init__(self, path: _Optional[str] = ..., salt: _Optional[bytes] = ..., value: _Optional[str] = ...) -> None: ...

class SpooledResponse(_message.Message):
    __slots__ = ("received", "covered")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    received: int
    covered: int
    def __init__(self, received: _Optional[int] = ..., covered: _Optional[int] = ...) -> None: ...

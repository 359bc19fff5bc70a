from svc.proto.gate.v1 import policy_change_pb2 as _policy_change_pb2
from svc.proto.gate.v1 import recording_pb2 as _recording_pb2
from svc.proto.gate.v1 import root_pb2 as _root_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("version", "cluster", "authority_id", "policy_version", "catalog_version", "audit_seq", "audit_head", "connectors", "proxies", "open_sessions", "not_ready", "ca_pin", "state_seq", "unsigned", "unsigned_count", "queued_rows", "held_rows", "leader", "store_level", "store_count", "last_event", "last_event_at", "serving", "root_epoch", "material_revision", "prepared_root", "rotation_paused")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    AUDIT_SEQ_FIELD_NUMBER: _ClassVar[int]
    AUDIT_HEAD_FIELD_NUMBER: _ClassVar[int]
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    CA_PIN_FIELD_NUMBER: _ClassVar[int]
    STATE_SEQ_FIELD_NUMBER: _ClassVar[int]
    UNSIGNED_FIELD_NUMBER: _ClassVar[int]
    UNSIGNED_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_ROWS_FIELD_NUMBER: _ClassVar[int]
    HELD_ROWS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    STORE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    STORE_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_AT_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    ROOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_REVISION_FIELD_NUMBER: _ClassVar[int]
    PREPARED_ROOT_FIELD_NUMBER: _ClassVar[int]
    ROTATION_PAUSED_FIELD_NUMBER: _ClassVar[int]
    version: str
    cluster: str
    authority_id: str
    policy_version: int
    catalog_version: int
    audit_seq: int
    audit_head: str
    connectors: int
    proxies: int
    open_sessions: int
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    ca_pin: str
    state_seq: int
    unsigned: _containers.RepeatedScalarFieldContainer[str]
    unsigned_count: int
    queued_rows: int
    held_rows: int
    leader: str
    store_level: str
    store_count: int
    last_event: str
    last_event_at: int
    serving: _containers.RepeatedCompositeFieldContainer[ServingRow]
    root_epoch: int
    material_revision: int
    prepared_root: int
    rotation_paused: bool
    def __init__(self, version: _Optional[str] = ..., cluster: _Optional[str] = ..., authority_id: _Optional[str] = ..., policy_version: _Optional[int] = ..., catalog_version: _Optional[int] = ..., audit_seq: _Optional[int] = ..., audit_head: _Optional[str] = ..., connectors: _Optional[int] = ..., proxies: _Optional[int] = ..., open_sessions: _Optional[int] = ..., not_ready: _Optional[_Iterable[str]] = ..., ca_pin: _Optional[str] = ..., state_seq: _Optional[int] = ..., unsigned: _Optional[_Iterable[str]] = ..., unsigned_count: _Optional[int] = ..., queued_rows: _Optional[int] = ..., held_rows: _Optional[int] = ..., leader: _Optional[str] = ..., store_level: _Optional[str] = ..., store_count: _Optional[int] = ..., last_event: _Optional[str] = ..., last_event_at: _Optional[int] = ..., serving: _Optional[_Iterable[_Union[ServingRow, _Mapping]]] = ..., root_epoch: _Optional[int] = ..., material_revision: _Optional[int] = ..., prepared_root: _Optional[int] = ..., rotation_paused: _Optional[bool] = ...) -> None: ...

class ServingRow(_message.Message):
    __slots__ = ("node_id", "node_name", "connected", "resources", "resources_served")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_SERVED_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    node_name: str
    connected: bool
    resources: int
    resources_served: int
    def __init__(self, node_id: _Optional[str] = ..., node_name: _Optional[str] = ..., connected: _Optional[bool] = ..., resources: _Optional[int] = ..., resources_served: _Optional[int] = ...) -> None: ...

class AddNodeRequest(_message.Message):
    __slots__ = ("role", "name", "ttl_secs", "public_names")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_SECS_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    ttl_secs: int
    public_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., ttl_secs: _Optional[int] = ..., public_names: _Optional[_Iterable[str]] = ...) -> None: ...

class TokenResponse(_message.Message):
    __slots__ = ("token", "ca_pin", "expires_at", "id")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CA_PIN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    token: str
    ca_pin: str
    expires_at: int
    id: str
    def __init__(self, token: _Optional[str] = ..., ca_pin: _Optional[str] = ..., expires_at: _Optional[int] = ..., id: _Optional[str] = ...) -> None: ...

class ExpectNodeRequest(_message.Message):
    __slots__ = ("role", "name", "key_sha256", "ttl_secs", "public_names")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_SHA256_FIELD_NUMBER: _ClassVar[int]
    TTL_SECS_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_NAMES_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    key_sha256: bytes
    ttl_secs: int
    public_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., key_sha256: _Optional[bytes] = ..., ttl_secs: _Optional[int] = ..., public_names: _Optional[_Iterable[str]] = ...) -> None: ...

class ExpectNodeResponse(_message.Message):
    __slots__ = ("id", "expires_at", "ca_pin")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    CA_PIN_FIELD_NUMBER: _ClassVar[int]
    id: str
    expires_at: int
    ca_pin: str
    def __init__(self, id: _Optional[str] = ..., expires_at: _Optional[int] = ..., ca_pin: _Optional[str] = ...) -> None: ...

class ListExpectedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExpectedRow(_message.Message):
    __slots__ = ("id", "role", "name", "key_sha256", "issuer", "expires_at", "used")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_SHA256_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    name: str
    key_sha256: bytes
    issuer: str
    expires_at: int
    used: bool
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., name: _Optional[str] = ..., key_sha256: _Optional[bytes] = ..., issuer: _Optional[str] = ..., expires_at: _Optional[int] = ..., used: _Optional[bool] = ...) -> None: ...

class ListExpectedResponse(_message.Message):
    __slots__ = ("expected",)
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    expected: _containers.RepeatedCompositeFieldContainer[ExpectedRow]
    def __init__(self, expected: _Optional[_Iterable[_Union[ExpectedRow, _Mapping]]] = ...) -> None: ...

class WithdrawExpectedRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class WithdrawExpectedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeRow(_message.Message):
    __slots__ = ("id", "name", "role", "state", "version", "leaf_serial", "leaf_expires", "last_seen", "enrolled_at", "inventory_generation", "inventory_served", "publication", "resources", "health", "epoch_capability", "connected", "proxies", "missing", "refusal", "certificate")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEAF_SERIAL_FIELD_NUMBER: _ClassVar[int]
    LEAF_EXPIRES_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    ENROLLED_AT_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_GENERATION_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_SERVED_FIELD_NUMBER: _ClassVar[int]
    PUBLICATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    role: str
    state: str
    version: str
    leaf_serial: str
    leaf_expires: int
    last_seen: int
    enrolled_at: int
    inventory_generation: int
    inventory_served: int
    publication: str
    resources: int
    health: NodeHealthRow
    epoch_capability: int
    connected: bool
    proxies: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    refusal: str
    certificate: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., state: _Optional[str] = ..., version: _Optional[str] = ..., leaf_serial: _Optional[str] = ..., leaf_expires: _Optional[int] = ..., last_seen: _Optional[int] = ..., enrolled_at: _Optional[int] = ..., inventory_generation: _Optional[int] = ..., inventory_served: _Optional[int] = ..., publication: _Optional[str] = ..., resources: _Optional[int] = ..., health: _Optional[_Union[NodeHealthRow, _Mapping]] = ..., epoch_capability: _Optional[int] = ..., connected: _Optional[bool] = ..., proxies: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ..., refusal: _Optional[str] = ..., certificate: _Optional[str] = ...) -> None: ...

class NodeHealthRow(_message.Message):
    __slots__ = ("at", "stale", "version", "worst", "failed", "warnings", "found", "clock_secs")
    AT_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WORST_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SECS_FIELD_NUMBER: _ClassVar[int]
    at: int
    stale: bool
    version: str
    worst: str
    failed: int
    warnings: int
    found: _containers.RepeatedCompositeFieldContainer[CheckFoundRow]
    clock_secs: int
    def __init__(self, at: _Optional[int] = ..., stale: _Optional[bool] = ..., version: _Optional[str] = ..., worst: _Optional[str] = ..., failed: _Optional[int] = ..., warnings: _Optional[int] = ..., found: _Optional[_Iterable[_Union[CheckFoundRow, _Mapping]]] = ..., clock_secs: _Optional[int] = ...) -> None: ...

class CheckFoundRow(_message.Message):
    __slots__ = ("id", "severity")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    severity: str
    def __init__(self, id: _Optional[str] = ..., severity: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeRow]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeRow, _Mapping]]] = ...) -> None: ...

class RevokeNodeRequest(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RevokeNodeResponse(_message.Message):
    __slots__ = ("id", "tunnels_ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    TUNNELS_ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    tunnels_ended: int
    def __init__(self, id: _Optional[str] = ..., tunnels_ended: _Optional[int] = ...) -> None: ...

class SetPublicationRequest(_message.Message):
    __slots__ = ("node", "mode")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    mode: str
    def __init__(self, node: _Optional[str] = ..., mode: _Optional[str] = ...) -> None: ...

class SetPublicationResponse(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    def __init__(self, mode: _Optional[str] = ...) -> None: ...

class AddPersonRequest(_message.Message):
    __slots__ = ("name", "groups", "ttl_secs", "join_groups", "create_groups")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECS_FIELD_NUMBER: _ClassVar[int]
    JOIN_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CREATE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    ttl_secs: int
    join_groups: bool
    create_groups: bool
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., ttl_secs: _Optional[int] = ..., join_groups: _Optional[bool] = ..., create_groups: _Optional[bool] = ...) -> None: ...

class ListPersonsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PersonRow(_message.Message):
    __slots__ = ("id", "name", "state", "groups")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class ListPersonsResponse(_message.Message):
    __slots__ = ("persons",)
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    persons: _containers.RepeatedCompositeFieldContainer[PersonRow]
    def __init__(self, persons: _Optional[_Iterable[_Union[PersonRow, _Mapping]]] = ...) -> None: ...

class ChangePersonRequest(_message.Message):
    __slots__ = ("person", "note")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    person: str
    note: str
    def __init__(self, person: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class ChangePersonResponse(_message.Message):
    __slots__ = ("id", "name", "changed", "open_sessions")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    changed: bool
    open_sessions: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., changed: _Optional[bool] = ..., open_sessions: _Optional[int] = ...) -> None: ...

class AddGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AddGroupResponse(_message.Message):
    __slots__ = ("added",)
    ADDED_FIELD_NUMBER: _ClassVar[int]
    added: bool
    def __init__(self, added: _Optional[bool] = ...) -> None: ...

class ShowPersonRequest(_message.Message):
    __slots__ = ("person",)
    PERSON_FIELD_NUMBER: _ClassVar[int]
    person: str
    def __init__(self, person: _Optional[str] = ...) -> None: ...

class CertificateRow(_message.Message):
    __slots__ = ("serial", "issued_at", "expires_at", "revoked")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    serial: str
    issued_at: int
    expires_at: int
    revoked: bool
    def __init__(self, serial: _Optional[str] = ..., issued_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., revoked: _Optional[bool] = ...) -> None: ...

class ShowPersonResponse(_message.Message):
    __slots__ = ("person", "certificates", "tokens", "open_sessions")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    person: PersonRow
    certificates: _containers.RepeatedCompositeFieldContainer[CertificateRow]
    tokens: _containers.RepeatedCompositeFieldContainer[TokenRow]
    open_sessions: int
    def __init__(self, person: _Optional[_Union[PersonRow, _Mapping]] = ..., certificates: _Optional[_Iterable[_Union[CertificateRow, _Mapping]]] = ..., tokens: _Optional[_Iterable[_Union[TokenRow, _Mapping]]] = ..., open_sessions: _Optional[int] = ...) -> None: ...

class ForgetNameRequest(_message.Message):
    __slots__ = ("person", "records")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    person: str
    records: bool
    def __init__(self, person: _Optional[str] = ..., records: _Optional[bool] = ...) -> None: ...

class ForgetNameResponse(_message.Message):
    __slots__ = ("id", "changed", "erased")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    ERASED_FIELD_NUMBER: _ClassVar[int]
    id: str
    changed: bool
    erased: int
    def __init__(self, id: _Optional[str] = ..., changed: _Optional[bool] = ..., erased: _Optional[int] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupRow(_message.Message):
    __slots__ = ("name", "members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    members: int
    def __init__(self, name: _Optional[str] = ..., members: _Optional[int] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupRow]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupRow, _Mapping]]] = ...) -> None: ...

class GroupMembersRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GroupMembersResponse(_message.Message):
    __slots__ = ("persons",)
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    persons: _containers.RepeatedCompositeFieldContainer[PersonRow]
    def __init__(self, persons: _Optional[_Iterable[_Union[PersonRow, _Mapping]]] = ...) -> None: ...

class ChangeMembersRequest(_message.Message):
    __slots__ = ("group", "add", "remove", "note")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    group: str
    add: _containers.RepeatedScalarFieldContainer[str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    note: str
    def __init__(self, group: _Optional[str] = ..., add: _Optional[_Iterable[str]] = ..., remove: _Optional[_Iterable[str]] = ..., note: _Optional[str] = ...) -> None: ...

class ChangeMembersResponse(_message.Message):
    __slots__ = ("added", "removed")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    added: _containers.RepeatedCompositeFieldContainer[PersonRow]
    removed: _containers.RepeatedCompositeFieldContainer[PersonRow]
    def __init__(self, added: _Optional[_Iterable[_Union[PersonRow, _Mapping]]] = ..., removed: _Optional[_Iterable[_Union[PersonRow, _Mapping]]] = ...) -> None: ...

class RemoveGroupRequest(_message.Message):
    __slots__ = ("group", "with_members", "note")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WITH_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    group: str
    with_members: bool
    note: str
    def __init__(self, group: _Optional[str] = ..., with_members: _Optional[bool] = ..., note: _Optional[str] = ...) -> None: ...

class RemoveGroupResponse(_message.Message):
    __slots__ = ("left",)
    LEFT_FIELD_NUMBER: _ClassVar[int]
    left: int
    def __init__(self, left: _Optional[int] = ...) -> None: ...

class RevokeCredentialsResponse(_message.Message):
    __slots__ = ("id", "name", "serials", "sign_ins", "tokens", "open_sessions")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERIALS_FIELD_NUMBER: _ClassVar[int]
    SIGN_INS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    serials: _containers.RepeatedScalarFieldContainer[str]
    sign_ins: int
    tokens: int
    open_sessions: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., serials: _Optional[_Iterable[str]] = ..., sign_ins: _Optional[int] = ..., tokens: _Optional[int] = ..., open_sessions: _Optional[int] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("person", "resource")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    person: str
    resource: str
    def __init__(self, person: _Optional[str] = ..., resource: _Optional[str] = ...) -> None: ...

class SessionRow(_message.Message):
    __slots__ = ("uid", "person_id", "person", "resource", "kind", "proxy_id", "proxy", "decision_id", "started_at", "ending", "away")
    UID_FIELD_NUMBER: _ClassVar[int]
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    PROXY_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    uid: str
    person_id: str
    person: str
    resource: str
    kind: str
    proxy_id: str
    proxy: str
    decision_id: str
    started_at: int
    ending: bool
    away: bool
    def __init__(self, uid: _Optional[str] = ..., person_id: _Optional[str] = ..., person: _Optional[str] = ..., resource: _Optional[str] = ..., kind: _Optional[str] = ..., proxy_id: _Optional[str] = ..., proxy: _Optional[str] = ..., decision_id: _Optional[str] = ..., started_at: _Optional[int] = ..., ending: _Optional[bool] = ..., away: _Optional[bool] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionRow]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionRow, _Mapping]]] = ...) -> None: ...

class EndOpenSessionsRequest(_message.Message):
    __slots__ = ("sessions", "person", "resource", "note")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    person: str
    resource: str
    note: str
    def __init__(self, sessions: _Optional[_Iterable[str]] = ..., person: _Optional[str] = ..., resource: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class EndOpenSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sessions: _Optional[_Iterable[str]] = ...) -> None: ...

class AddAgentRequest(_message.Message):
    __slots__ = ("name", "owner", "persons", "actions", "delegation_secs", "ttl_secs", "issuer", "audience", "claims")
    class ClaimsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_SECS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECS_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    persons: _containers.RepeatedScalarFieldContainer[str]
    actions: _containers.RepeatedScalarFieldContainer[str]
    delegation_secs: int
    ttl_secs: int
    issuer: str
    audience: str
    claims: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., persons: _Optional[_Iterable[str]] = ..., actions: _Optional[_Iterable[str]] = ..., delegation_secs: _Optional[int] = ..., ttl_secs: _Optional[int] = ..., issuer: _Optional[str] = ..., audience: _Optional[str] = ..., claims: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListAgentsRequest(_message.Message):
    __slots__ = ("route",)
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    route: str
    def __init__(self, route: _Optional[str] = ...) -> None: ...

class DelegationRow(_message.Message):
    __slots__ = ("id", "person_id", "person", "actions", "expires_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    person_id: str
    person: str
    actions: _containers.RepeatedScalarFieldContainer[str]
    expires_at: int
    def __init__(self, id: _Optional[str] = ..., person_id: _Optional[str] = ..., person: _Optional[str] = ..., actions: _Optional[_Iterable[str]] = ..., expires_at: _Optional[int] = ...) -> None: ...

class AgentRow(_message.Message):
    __slots__ = ("id", "name", "owner_id", "owner", "state", "seen", "issuer", "delegations")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    DELEGATIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    owner_id: str
    owner: str
    state: str
    seen: int
    issuer: str
    delegations: _containers.RepeatedCompositeFieldContainer[DelegationRow]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., owner_id: _Optional[str] = ..., owner: _Optional[str] = ..., state: _Optional[str] = ..., seen: _Optional[int] = ..., issuer: _Optional[str] = ..., delegations: _Optional[_Iterable[_Union[DelegationRow, _Mapping]]] = ...) -> None: ...

class ListAgentsResponse(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentRow]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentRow, _Mapping]]] = ...) -> None: ...

class RevokeAgentRequest(_message.Message):
    __slots__ = ("agent", "note")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    agent: str
    note: str
    def __init__(self, agent: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ("all",)
    ALL_FIELD_NUMBER: _ClassVar[int]
    all: bool
    def __init__(self, all: _Optional[bool] = ...) -> None: ...

class TokenRow(_message.Message):
    __slots__ = ("id", "role", "name", "person_id", "expires_at", "used")
    ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    id: str
    role: str
    name: str
    person_id: str
    expires_at: int
    used: bool
    def __init__(self, id: _Optional[str] = ..., role: _Optional[str] = ..., name: _Optional[str] = ..., person_id: _Optional[str] = ..., expires_at: _Optional[int] = ..., used: _Optional[bool] = ...) -> None: ...

class ListTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[TokenRow]
    def __init__(self, tokens: _Optional[_Iterable[_Union[TokenRow, _Mapping]]] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    note: str
    def __init__(self, id: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RevokeTokenResponse(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class AddResourceRequest(_message.Message):
    __slots__ = ("id", "kind", "node", "labels", "onward_auth")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ONWARD_AUTH_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    node: str
    labels: _containers.ScalarMap[str, str]
    onward_auth: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., onward_auth: _Optional[str] = ...) -> None: ...

class AddResourceResponse(_message.Message):
    __slots__ = ("catalog_version",)
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog_version: int
    def __init__(self, catalog_version: _Optional[int] = ...) -> None: ...

class ListResourcesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResourceRow(_message.Message):
    __slots__ = ("id", "kind", "labels", "node_id", "node_name", "state", "revision", "source", "identity", "assignment_revision", "node_state", "onward_auth", "scope", "refused", "problem", "problem_reason", "proxies", "missing")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    NODE_STATE_FIELD_NUMBER: _ClassVar[int]
    ONWARD_AUTH_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_REASON_FIELD_NUMBER: _ClassVar[int]
    PROXIES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    labels: _containers.ScalarMap[str, str]
    node_id: str
    node_name: str
    state: str
    revision: int
    source: str
    identity: str
    assignment_revision: int
    node_state: str
    onward_auth: str
    scope: str
    refused: str
    problem: str
    problem_reason: str
    proxies: _containers.RepeatedScalarFieldContainer[str]
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., node_id: _Optional[str] = ..., node_name: _Optional[str] = ..., state: _Optional[str] = ..., revision: _Optional[int] = ..., source: _Optional[str] = ..., identity: _Optional[str] = ..., assignment_revision: _Optional[int] = ..., node_state: _Optional[str] = ..., onward_auth: _Optional[str] = ..., scope: _Optional[str] = ..., refused: _Optional[str] = ..., problem: _Optional[str] = ..., problem_reason: _Optional[str] = ..., proxies: _Optional[_Iterable[str]] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class ListResourcesResponse(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceRow]
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceRow, _Mapping]]] = ...) -> None: ...

class SetResourceRequest(_message.Message):
    __slots__ = ("id", "onward_auth")
    ID_FIELD_NUMBER: _ClassVar[int]
    ONWARD_AUTH_FIELD_NUMBER: _ClassVar[int]
    id: str
    onward_auth: str
    def __init__(self, id: _Optional[str] = ..., onward_auth: _Optional[str] = ...) -> None: ...

class SetResourceResponse(_message.Message):
    __slots__ = ("catalog_version", "changed")
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    catalog_version: int
    changed: bool
    def __init__(self, catalog_version: _Optional[int] = ..., changed: _Optional[bool] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("name", "kinds", "onward_auth", "connectors", "id_prefix", "match_labels", "labels", "origin", "revision", "set_at", "set_by", "resources")
    class MatchLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    ONWARD_AUTH_FIELD_NUMBER: _ClassVar[int]
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MATCH_LABELS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SET_AT_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    onward_auth: _containers.RepeatedScalarFieldContainer[str]
    connectors: _containers.RepeatedScalarFieldContainer[str]
    id_prefix: str
    match_labels: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    origin: str
    revision: int
    set_at: float
    set_by: str
    resources: int
    def __init__(self, name: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., onward_auth: _Optional[_Iterable[str]] = ..., connectors: _Optional[_Iterable[str]] = ..., id_prefix: _Optional[str] = ..., match_labels: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., origin: _Optional[str] = ..., revision: _Optional[int] = ..., set_at: _Optional[float] = ..., set_by: _Optional[str] = ..., resources: _Optional[int] = ...) -> None: ...

class SetScopeRequest(_message.Message):
    __slots__ = ("scope",)
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ...) -> None: ...

class SetScopeResponse(_message.Message):
    __slots__ = ("revision", "changed")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    changed: bool
    def __init__(self, revision: _Optional[int] = ..., changed: _Optional[bool] = ...) -> None: ...

class ListScopesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListScopesResponse(_message.Message):
    __slots__ = ("scopes",)
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    scopes: _containers.RepeatedCompositeFieldContainer[Scope]
    def __init__(self, scopes: _Optional[_Iterable[_Union[Scope, _Mapping]]] = ...) -> None: ...

class ShowScopeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ScopedResource(_message.Message):
    __slots__ = ("id", "kind", "node_id", "node_name", "source", "refused", "expires_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    node_id: str
    node_name: str
    source: str
    refused: str
    expires_at: float
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., node_id: _Optional[str] = ..., node_name: _Optional[str] = ..., source: _Optional[str] = ..., refused: _Optional[str] = ..., expires_at: _Optional[float] = ...) -> None: ...

class ShowScopeResponse(_message.Message):
    __slots__ = ("scope", "resources")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    resources: _containers.RepeatedCompositeFieldContainer[ScopedResource]
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[ScopedResource, _Mapping]]] = ...) -> None: ...

class EpochStatusRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class EpochConnector(_message.Message):
    __slots__ = ("id", "name", "offered", "resources")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    offered: int
    resources: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., offered: _Optional[int] = ..., resources: _Optional[int] = ...) -> None: ...

class EpochStatusResponse(_message.Message):
    __slots__ = ("epoch", "highest", "losing")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    LOSING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    highest: int
    losing: _containers.RepeatedCompositeFieldContainer[EpochConnector]
    def __init__(self, epoch: _Optional[int] = ..., highest: _Optional[int] = ..., losing: _Optional[_Iterable[_Union[EpochConnector, _Mapping]]] = ...) -> None: ...

class ActivateEpochRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ActivateEpochResponse(_message.Message):
    __slots__ = ("epoch", "changed", "losing")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    LOSING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    changed: bool
    losing: _containers.RepeatedCompositeFieldContainer[EpochConnector]
    def __init__(self, epoch: _Optional[int] = ..., changed: _Optional[bool] = ..., losing: _Optional[_Iterable[_Union[EpochConnector, _Mapping]]] = ...) -> None: ...

class RemoveScopeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveScopeResponse(_message.Message):
    __slots__ = ("departed",)
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    departed: int
    def __init__(self, departed: _Optional[int] = ...) -> None: ...

class AssignResourceRequest(_message.Message):
    __slots__ = ("id", "node")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class AssignResourceResponse(_message.Message):
    __slots__ = ("catalog_version", "assignment_revision", "changed")
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    catalog_version: int
    assignment_revision: int
    changed: bool
    def __init__(self, catalog_version: _Optional[int] = ..., assignment_revision: _Optional[int] = ..., changed: _Optional[bool] = ...) -> None: ...

class MoveResourcesRequest(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ..., **kwargs) -> None: ...

class MovedNode(_message.Message):
    __slots__ = ("id", "name", "state")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class MoveResourcesResponse(_message.Message):
    __slots__ = ("ids", "to", "catalog_version")
    IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    to: MovedNode
    catalog_version: int
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., to: _Optional[_Union[MovedNode, _Mapping]] = ..., catalog_version: _Optional[int] = ..., **kwargs) -> None: ...

class RemoveResourceRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveResourceResponse(_message.Message):
    __slots__ = ("catalog_version",)
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    catalog_version: int
    def __init__(self, catalog_version: _Optional[int] = ...) -> None: ...

class ListBindingsRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class BindingRow(_message.Message):
    __slots__ = ("identity", "node_id", "node_name", "revision", "assignment_revision", "current", "bound_at")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    BOUND_AT_FIELD_NUMBER: _ClassVar[int]
    identity: str
    node_id: str
    node_name: str
    revision: int
    assignment_revision: int
    current: bool
    bound_at: int
    def __init__(self, identity: _Optional[str] = ..., node_id: _Optional[str] = ..., node_name: _Optional[str] = ..., revision: _Optional[int] = ..., assignment_revision: _Optional[int] = ..., current: _Optional[bool] = ..., bound_at: _Optional[int] = ...) -> None: ...

class ListBindingsResponse(_message.Message):
    __slots__ = ("bindings",)
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[BindingRow]
    def __init__(self, bindings: _Optional[_Iterable[_Union[BindingRow, _Mapping]]] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("text", "replay", "break_glass")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    BREAK_GLASS_FIELD_NUMBER: _ClassVar[int]
    text: str
    replay: bytes
    break_glass: bool
    def __init__(self, text: _Optional[str] = ..., replay: _Optional[bytes] = ..., break_glass: _Optional[bool] = ...) -> None: ...

class SetPolicyResponse(_message.Message):
    __slots__ = ("version", "sha256", "unchanged")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    version: int
    sha256: str
    unchanged: bool
    def __init__(self, version: _Optional[int] = ..., sha256: _Optional[str] = ..., unchanged: _Optional[bool] = ...) -> None: ...

class ShowPolicyRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class ShowPolicyResponse(_message.Message):
    __slots__ = ("version", "text", "sha256", "author", "created_at", "author_name")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_NAME_FIELD_NUMBER: _ClassVar[int]
    version: int
    text: str
    sha256: str
    author: str
    created_at: int
    author_name: str
    def __init__(self, version: _Optional[int] = ..., text: _Optional[str] = ..., sha256: _Optional[str] = ..., author: _Optional[str] = ..., created_at: _Optional[int] = ..., author_name: _Optional[str] = ...) -> None: ...

class CheckPolicyRequest(_message.Message):
    __slots__ = ("candidate", "text", "request", "replay")
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    candidate: bool
    text: str
    request: CheckedRequest
    replay: bool
    def __init__(self, candidate: _Optional[bool] = ..., text: _Optional[str] = ..., request: _Optional[_Union[CheckedRequest, _Mapping]] = ..., replay: _Optional[bool] = ...) -> None: ...

class CheckedRequest(_message.Message):
    __slots__ = ("person", "action", "resource", "facts")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    person: str
    action: str
    resource: str
    facts: _containers.RepeatedCompositeFieldContainer[CheckedFact]
    def __init__(self, person: _Optional[str] = ..., action: _Optional[str] = ..., resource: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[CheckedFact, _Mapping]]] = ...) -> None: ...

class CheckedFact(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class CheckPolicyResponse(_message.Message):
    __slots__ = ("version", "sha256", "decision", "active")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    version: int
    sha256: str
    decision: CheckedDecision
    active: ShowPolicyResponse
    def __init__(self, version: _Optional[int] = ..., sha256: _Optional[str] = ..., decision: _Optional[_Union[CheckedDecision, _Mapping]] = ..., active: _Optional[_Union[ShowPolicyResponse, _Mapping]] = ...) -> None: ...

class CheckedDecision(_message.Message):
    __slots__ = ("decision", "policies", "considered", "missing_facts", "errors", "assumed")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    CONSIDERED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FACTS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    ASSUMED_FIELD_NUMBER: _ClassVar[int]
    decision: str
    policies: _containers.RepeatedCompositeFieldContainer[CheckedPolicy]
    considered: _containers.RepeatedScalarFieldContainer[str]
    missing_facts: _containers.RepeatedScalarFieldContainer[str]
    errors: _containers.RepeatedScalarFieldContainer[str]
    assumed: _containers.RepeatedCompositeFieldContainer[CheckedFact]
    def __init__(self, decision: _Optional[str] = ..., policies: _Optional[_Iterable[_Union[CheckedPolicy, _Mapping]]] = ..., considered: _Optional[_Iterable[str]] = ..., missing_facts: _Optional[_Iterable[str]] = ..., errors: _Optional[_Iterable[str]] = ..., assumed: _Optional[_Iterable[_Union[CheckedFact, _Mapping]]] = ...) -> None: ...

class CheckedPolicy(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReleaseRowRequest(_message.Message):
    __slots__ = ("id", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: int
    note: str
    def __init__(self, id: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class ReleaseRowResponse(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class DiscardRowRequest(_message.Message):
    __slots__ = ("id", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: int
    note: str
    def __init__(self, id: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class DiscardRowResponse(_message.Message):
    __slots__ = ("record_digest",)
    RECORD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    record_digest: str
    def __init__(self, record_digest: _Optional[str] = ...) -> None: ...

class EraseValueRequest(_message.Message):
    __slots__ = ("seq", "index", "path", "note")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    index: int
    path: str
    note: str
    def __init__(self, seq: _Optional[int] = ..., index: _Optional[int] = ..., path: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class EraseValueResponse(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class ShowRecordsRequest(_message.Message):
    __slots__ = ("decision_id", "seq", "most", "person", "resource", "event", "decision", "session", "since", "until", "before", "after")
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    seq: int
    most: int
    person: str
    resource: str
    event: str
    decision: str
    session: str
    since: float
    until: float
    before: int
    after: int
    def __init__(self, decision_id: _Optional[str] = ..., seq: _Optional[int] = ..., most: _Optional[int] = ..., person: _Optional[str] = ..., resource: _Optional[str] = ..., event: _Optional[str] = ..., decision: _Optional[str] = ..., session: _Optional[str] = ..., since: _Optional[float] = ..., until: _Optional[float] = ..., before: _Optional[int] = ..., after: _Optional[int] = ...) -> None: ...

class ShowRecordsResponse(_message.Message):
    __slots__ = ("records", "end", "more", "before")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedScalarFieldContainer[bytes]
    end: int
    more: bool
    before: int
    def __init__(self, records: _Optional[_Iterable[bytes]] = ..., end: _Optional[int] = ..., more: _Optional[bool] = ..., before: _Optional[int] = ...) -> None: ...

class ListQueueRequest(_message.Message):
    __slots__ = ("held", "after")
    HELD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    held: bool
    after: int
    def __init__(self, held: _Optional[bool] = ..., after: _Optional[int] = ...) -> None: ...

class QueuedRow(_message.Message):
    __slots__ = ("id", "reason", "origin", "spool_id", "n", "event", "event_id", "key_id", "record_digest", "queued_at", "held_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SPOOL_ID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    RECORD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    HELD_AT_FIELD_NUMBER: _ClassVar[int]
    id: int
    reason: str
    origin: str
    spool_id: str
    n: int
    event: str
    event_id: str
    key_id: str
    record_digest: str
    queued_at: float
    held_at: float
    def __init__(self, id: _Optional[int] = ..., reason: _Optional[str] = ..., origin: _Optional[str] = ..., spool_id: _Optional[str] = ..., n: _Optional[int] = ..., event: _Optional[str] = ..., event_id: _Optional[str] = ..., key_id: _Optional[str] = ..., record_digest: _Optional[str] = ..., queued_at: _Optional[float] = ..., held_at: _Optional[float] = ...) -> None: ...

class ListQueueResponse(_message.Message):
    __slots__ = ("rows", "next")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[QueuedRow]
    next: int
    def __init__(self, rows: _Optional[_Iterable[_Union[QueuedRow, _Mapping]]] = ..., next: _Optional[int] = ...) -> None: ...

class PolicyHistoryRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PolicyHistoryResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[ShowPolicyResponse]
    def __init__(self, versions: _Optional[_Iterable[_Union[ShowPolicyResponse, _Mapping]]] = ...) -> None: ...

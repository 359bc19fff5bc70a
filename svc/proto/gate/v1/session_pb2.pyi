from svc.proto.gate.v1 import stream_pb2 as _stream_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Carriage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CARRIAGE_UNSPECIFIED: _ClassVar[Carriage]
    CARRIAGE_END_TO_END: _ClassVar[Carriage]
    CARRIAGE_GATED: _ClassVar[Carriage]
CARRIAGE_UNSPECIFIED: Carriage
CARRIAGE_END_TO_END: Carriage
CARRIAGE_GATED: Carriage

class SessionRequest(_message.Message):
    __slots__ = ("cluster", "session_uid", "resource", "kind", "action", "proxy_id", "issued_at_ms", "certificate_sha256", "parameters", "format", "half")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SHA256_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    HALF_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session_uid: bytes
    resource: str
    kind: str
    action: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    format: int
    half: bytes
    def __init__(self, cluster: _Optional[str] = ..., session_uid: _Optional[bytes] = ..., resource: _Optional[str] = ..., kind: _Optional[str] = ..., action: _Optional[str] = ..., proxy_id: _Optional[str] = ..., issued_at_ms: _Optional[int] = ..., certificate_sha256: _Optional[bytes] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., format: _Optional[int] = ..., half: _Optional[bytes] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SessionOpen(_message.Message):
    __slots__ = ("request", "signature")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    request: bytes
    signature: bytes
    def __init__(self, request: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("grant", "decision_id", "answer")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    grant: SignedGrant
    decision_id: str
    answer: SignedAnswer
    def __init__(self, grant: _Optional[_Union[SignedGrant, _Mapping]] = ..., decision_id: _Optional[str] = ..., answer: _Optional[_Union[SignedAnswer, _Mapping]] = ...) -> None: ...

class SessionAnswer(_message.Message):
    __slots__ = ("cluster", "session_uid", "connector_id", "request_sha256", "half", "format")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    HALF_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session_uid: bytes
    connector_id: str
    request_sha256: bytes
    half: bytes
    format: int
    def __init__(self, cluster: _Optional[str] = ..., session_uid: _Optional[bytes] = ..., connector_id: _Optional[str] = ..., request_sha256: _Optional[bytes] = ..., half: _Optional[bytes] = ..., format: _Optional[int] = ...) -> None: ...

class SignedAnswer(_message.Message):
    __slots__ = ("answer", "signature", "chain")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    answer: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, answer: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("cluster", "session_uid", "request_sha256", "person_id", "person_certificate_sha256", "resource", "resource_revision", "kind", "connector_id", "proxy_id", "ceiling", "policy_version", "audit_hash", "issued_at_ms", "open_before_ms", "end_before_ms", "resource_identity", "assignment_revision", "format", "carriage", "operations", "decision_id", "recording_key", "onward_certificate", "egress_proxy_id")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_CERTIFICATE_SHA256_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_REVISION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    AUDIT_HASH_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    OPEN_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    END_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_REVISION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    CARRIAGE_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDING_KEY_FIELD_NUMBER: _ClassVar[int]
    ONWARD_CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    EGRESS_PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session_uid: bytes
    request_sha256: bytes
    person_id: str
    person_certificate_sha256: bytes
    resource: str
    resource_revision: int
    kind: str
    connector_id: str
    proxy_id: str
    ceiling: Ceiling
    policy_version: int
    audit_hash: bytes
    issued_at_ms: int
    open_before_ms: int
    end_before_ms: int
    resource_identity: str
    assignment_revision: int
    format: int
    carriage: Carriage
    operations: Operations
    decision_id: str
    recording_key: bytes
    onward_certificate: bytes
    egress_proxy_id: str
    def __init__(self, cluster: _Optional[str] = ..., session_uid: _Optional[bytes] = ..., request_sha256: _Optional[bytes] = ..., person_id: _Optional[str] = ..., person_certificate_sha256: _Optional[bytes] = ..., resource: _Optional[str] = ..., resource_revision: _Optional[int] = ..., kind: _Optional[str] = ..., connector_id: _Optional[str] = ..., proxy_id: _Optional[str] = ..., ceiling: _Optional[_Union[Ceiling, _Mapping]] = ..., policy_version: _Optional[int] = ..., audit_hash: _Optional[bytes] = ..., issued_at_ms: _Optional[int] = ..., open_before_ms: _Optional[int] = ..., end_before_ms: _Optional[int] = ..., resource_identity: _Optional[str] = ..., assignment_revision: _Optional[int] = ..., format: _Optional[int] = ..., carriage: _Optional[_Union[Carriage, str]] = ..., operations: _Optional[_Union[Operations, _Mapping]] = ..., decision_id: _Optional[str] = ..., recording_key: _Optional[bytes] = ..., onward_certificate: _Optional[bytes] = ..., egress_proxy_id: _Optional[str] = ...) -> None: ...

class Operations(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Ceiling(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Parameter]
    def __init__(self, values: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ...) -> None: ...

class SignedGrant(_message.Message):
    __slots__ = ("grant", "signature", "chain")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    grant: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, grant: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SessionCheckpoint(_message.Message):
    __slots__ = ("cluster", "session_uid", "connector_id", "n", "decisions", "head", "last", "whole", "reason", "format")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session_uid: bytes
    connector_id: str
    n: int
    decisions: int
    head: bytes
    last: bool
    whole: bool
    reason: str
    format: int
    def __init__(self, cluster: _Optional[str] = ..., session_uid: _Optional[bytes] = ..., connector_id: _Optional[str] = ..., n: _Optional[int] = ..., decisions: _Optional[int] = ..., head: _Optional[bytes] = ..., last: _Optional[bool] = ..., whole: _Optional[bool] = ..., reason: _Optional[str] = ..., format: _Optional[int] = ...) -> None: ...

class SignedCheckpoint(_message.Message):
    __slots__ = ("checkpoint", "signature", "chain")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    checkpoint: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, checkpoint: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GrantExtension(_message.Message):
    __slots__ = ("cluster", "session_uid", "n", "end_before_ms", "policy_version", "format")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    END_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    session_uid: bytes
    n: int
    end_before_ms: int
    policy_version: int
    format: int
    def __init__(self, cluster: _Optional[str] = ..., session_uid: _Optional[bytes] = ..., n: _Optional[int] = ..., end_before_ms: _Optional[int] = ..., policy_version: _Optional[int] = ..., format: _Optional[int] = ...) -> None: ...

class SignedExtension(_message.Message):
    __slots__ = ("extension", "signature", "chain")
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    extension: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, extension: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CheckpointAnswer(_message.Message):
    __slots__ = ("extension", "reason")
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    extension: SignedExtension
    reason: str
    def __init__(self, extension: _Optional[_Union[SignedExtension, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class SessionListRequest(_message.Message):
    __slots__ = ("audit_head",)
    AUDIT_HEAD_FIELD_NUMBER: _ClassVar[int]
    audit_head: bytes
    def __init__(self, audit_head: _Optional[bytes] = ...) -> None: ...

class SessionListing(_message.Message):
    __slots__ = ("complete", "upsert", "removed", "audit_heads", "lacking")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    UPSERT_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    AUDIT_HEADS_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    upsert: _containers.RepeatedCompositeFieldContainer[ListedResource]
    removed: _containers.RepeatedScalarFieldContainer[str]
    audit_heads: _containers.RepeatedScalarFieldContainer[bytes]
    lacking: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, complete: _Optional[bool] = ..., upsert: _Optional[_Iterable[_Union[ListedResource, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ..., audit_heads: _Optional[_Iterable[bytes]] = ..., lacking: _Optional[_Iterable[str]] = ...) -> None: ...

class ListedResource(_message.Message):
    __slots__ = ("id", "kind", "labels", "served")
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
    SERVED_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    labels: _containers.ScalarMap[str, str]
    served: bool
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., served: _Optional[bool] = ...) -> None: ...

class SessionLaneRequest(_message.Message):
    __slots__ = ("session_uid",)
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    session_uid: bytes
    def __init__(self, session_uid: _Optional[bytes] = ...) -> None: ...

class SessionLaneResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: bytes
    def __init__(self, token: _Optional[bytes] = ...) -> None: ...

class WhyRequest(_message.Message):
    __slots__ = ("cluster", "decision_id", "proxy_id", "issued_at_ms", "certificate_sha256")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SHA256_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    decision_id: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes
    def __init__(self, cluster: _Optional[str] = ..., decision_id: _Optional[str] = ..., proxy_id: _Optional[str] = ..., issued_at_ms: _Optional[int] = ..., certificate_sha256: _Optional[bytes] = ...) -> None: ...

class SessionWhyRequest(_message.Message):
    __slots__ = ("request", "signature", "chain")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    request: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, request: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SessionWhyResponse(_message.Message):
    __slots__ = ("decision_id", "decision", "reason", "policies", "action", "resource", "policy_version", "time", "explained", "why", "session_ended", "session_reason", "session_lane", "request_hint", "rights", "rights_denied", "reason_text", "hint")
    class WhyEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXPLAINED_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENDED_FIELD_NUMBER: _ClassVar[int]
    SESSION_REASON_FIELD_NUMBER: _ClassVar[int]
    SESSION_LANE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HINT_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_FIELD_NUMBER: _ClassVar[int]
    RIGHTS_DENIED_FIELD_NUMBER: _ClassVar[int]
    REASON_TEXT_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    decision: str
    reason: str
    policies: _containers.RepeatedScalarFieldContainer[str]
    action: str
    resource: str
    policy_version: int
    time: str
    explained: bool
    why: _containers.ScalarMap[str, str]
    session_ended: str
    session_reason: str
    session_lane: str
    request_hint: str
    rights: _containers.RepeatedScalarFieldContainer[str]
    rights_denied: _containers.RepeatedScalarFieldContainer[str]
    reason_text: str
    hint: str
    def __init__(self, decision_id: _Optional[str] = ..., decision: _Optional[str] = ..., reason: _Optional[str] = ..., policies: _Optional[_Iterable[str]] = ..., action: _Optional[str] = ..., resource: _Optional[str] = ..., policy_version: _Optional[int] = ..., time: _Optional[str] = ..., explained: _Optional[bool] = ..., why: _Optional[_Mapping[str, str]] = ..., session_ended: _Optional[str] = ..., session_reason: _Optional[str] = ..., session_lane: _Optional[str] = ..., request_hint: _Optional[str] = ..., rights: _Optional[_Iterable[str]] = ..., rights_denied: _Optional[_Iterable[str]] = ..., reason_text: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class AccessCall(_message.Message):
    __slots__ = ("cluster", "proxy_id", "issued_at_ms", "certificate_sha256", "nonce", "ask", "list", "show", "decide", "withdraw")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SHA256_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    SHOW_FIELD_NUMBER: _ClassVar[int]
    DECIDE_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    proxy_id: str
    issued_at_ms: int
    certificate_sha256: bytes
    nonce: bytes
    ask: AccessAsk
    list: AccessList
    show: AccessShow
    decide: AccessDecide
    withdraw: AccessWithdraw
    def __init__(self, cluster: _Optional[str] = ..., proxy_id: _Optional[str] = ..., issued_at_ms: _Optional[int] = ..., certificate_sha256: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., ask: _Optional[_Union[AccessAsk, _Mapping]] = ..., list: _Optional[_Union[AccessList, _Mapping]] = ..., show: _Optional[_Union[AccessShow, _Mapping]] = ..., decide: _Optional[_Union[AccessDecide, _Mapping]] = ..., withdraw: _Optional[_Union[AccessWithdraw, _Mapping]] = ...) -> None: ...

class AccessAsk(_message.Message):
    __slots__ = ("resource", "action", "parameters", "reason", "secs", "uses", "text")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SECS_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    resource: str
    action: str
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    reason: str
    secs: int
    uses: int
    text: bytes
    def __init__(self, resource: _Optional[str] = ..., action: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., reason: _Optional[str] = ..., secs: _Optional[int] = ..., uses: _Optional[int] = ..., text: _Optional[bytes] = ...) -> None: ...

class AccessList(_message.Message):
    __slots__ = ("to_decide",)
    TO_DECIDE_FIELD_NUMBER: _ClassVar[int]
    to_decide: bool
    def __init__(self, to_decide: _Optional[bool] = ...) -> None: ...

class AccessShow(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class AccessDecide(_message.Message):
    __slots__ = ("id", "approval", "signature")
    ID_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    approval: bytes
    signature: bytes
    def __init__(self, id: _Optional[str] = ..., approval: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class AccessWithdraw(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class SessionDeniedRequest(_message.Message):
    __slots__ = ("decision_id",)
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    def __init__(self, decision_id: _Optional[str] = ...) -> None: ...

class SessionDeniedResponse(_message.Message):
    __slots__ = ("resource", "action", "parameters", "text")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    resource: str
    action: str
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    text: bytes
    def __init__(self, resource: _Optional[str] = ..., action: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., text: _Optional[bytes] = ...) -> None: ...

class SessionAccessRequest(_message.Message):
    __slots__ = ("call", "signature", "chain", "source_address")
    CALL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    call: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    source_address: str
    def __init__(self, call: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ..., source_address: _Optional[str] = ...) -> None: ...

class SessionAccessResponse(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[AccessEntry]
    def __init__(self, requests: _Optional[_Iterable[_Union[AccessEntry, _Mapping]]] = ...) -> None: ...

class AccessEntry(_message.Message):
    __slots__ = ("document", "state", "ends_at", "used", "decided_by", "text")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    state: str
    ends_at: int
    used: int
    decided_by: str
    text: bytes
    def __init__(self, document: _Optional[bytes] = ..., state: _Optional[str] = ..., ends_at: _Optional[int] = ..., used: _Optional[int] = ..., decided_by: _Optional[str] = ..., text: _Optional[bytes] = ...) -> None: ...

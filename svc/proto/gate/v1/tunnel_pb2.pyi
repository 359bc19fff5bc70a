from svc.proto.gate.v1 import session_pb2 as _session_pb2
from svc.proto.gate.v1 import stream_pb2 as _stream_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HealthReport(_message.Message):
    __slots__ = ("cluster", "node_id", "made_at_ms", "version", "worst", "failed", "warnings", "found", "format")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MADE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WORST_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node_id: str
    made_at_ms: int
    version: str
    worst: str
    failed: int
    warnings: int
    found: _containers.RepeatedCompositeFieldContainer[CheckFound]
    format: int
    def __init__(self, cluster: _Optional[str] = ..., node_id: _Optional[str] = ..., made_at_ms: _Optional[int] = ..., version: _Optional[str] = ..., worst: _Optional[str] = ..., failed: _Optional[int] = ..., warnings: _Optional[int] = ..., found: _Optional[_Iterable[_Union[CheckFound, _Mapping]]] = ..., format: _Optional[int] = ...) -> None: ...

class CheckFound(_message.Message):
    __slots__ = ("id", "severity")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    severity: str
    def __init__(self, id: _Optional[str] = ..., severity: _Optional[str] = ...) -> None: ...

class SignedHealthReport(_message.Message):
    __slots__ = ("report", "signature", "chain")
    REPORT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    report: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, report: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HealthReceipt(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _containers.RepeatedCompositeFieldContainer[RefusedHealthReport]
    def __init__(self, refused: _Optional[_Iterable[_Union[RefusedHealthReport, _Mapping]]] = ...) -> None: ...

class RefusedHealthReport(_message.Message):
    __slots__ = ("index", "reason")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    index: int
    reason: str
    def __init__(self, index: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TunnelUp(_message.Message):
    __slots__ = ("hello", "registration", "renew", "open_refused", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    OPEN_REFUSED_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: TunnelHello
    registration: SignedRegistration
    renew: LeaseRenew
    open_refused: OpenRefused
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[TunnelHello, _Mapping]] = ..., registration: _Optional[_Union[SignedRegistration, _Mapping]] = ..., renew: _Optional[_Union[LeaseRenew, _Mapping]] = ..., open_refused: _Optional[_Union[OpenRefused, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class TunnelDown(_message.Message):
    __slots__ = ("nonce", "accepted", "renewed", "open", "draining", "lane")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    nonce: Nonce
    accepted: RegistrationAccepted
    renewed: LeaseRenewed
    open: OpenNotice
    draining: Draining
    lane: LaneOffer
    def __init__(self, nonce: _Optional[_Union[Nonce, _Mapping]] = ..., accepted: _Optional[_Union[RegistrationAccepted, _Mapping]] = ..., renewed: _Optional[_Union[LeaseRenewed, _Mapping]] = ..., open: _Optional[_Union[OpenNotice, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., lane: _Optional[_Union[LaneOffer, _Mapping]] = ...) -> None: ...

class TunnelHello(_message.Message):
    __slots__ = ("instance_id", "version", "takes_lanes", "takes_first_flight")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAKES_LANES_FIELD_NUMBER: _ClassVar[int]
    TAKES_FIRST_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    version: str
    takes_lanes: bool
    takes_first_flight: bool
    def __init__(self, instance_id: _Optional[str] = ..., version: _Optional[str] = ..., takes_lanes: _Optional[bool] = ..., takes_first_flight: _Optional[bool] = ...) -> None: ...

class Nonce(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    def __init__(self, nonce: _Optional[bytes] = ...) -> None: ...

class LeaseRenew(_message.Message):
    __slots__ = ("health",)
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    health: SignedHealthReport
    def __init__(self, health: _Optional[_Union[SignedHealthReport, _Mapping]] = ...) -> None: ...

class LeaseRenewed(_message.Message):
    __slots__ = ("health_taken",)
    HEALTH_TAKEN_FIELD_NUMBER: _ClassVar[int]
    health_taken: bool
    def __init__(self, health_taken: _Optional[bool] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Draining(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeclaredResource(_message.Message):
    __slots__ = ("id", "kind", "discovered")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DISCOVERED_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    discovered: bool
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., discovered: _Optional[bool] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("cluster", "node_id", "proxy_id", "nonce", "resources", "instance_id", "generation", "version", "capabilities", "inventory_generation", "gate_epoch", "onward_key")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PROXY_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_GENERATION_FIELD_NUMBER: _ClassVar[int]
    GATE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ONWARD_KEY_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node_id: str
    proxy_id: str
    nonce: bytes
    resources: _containers.RepeatedCompositeFieldContainer[DeclaredResource]
    instance_id: str
    generation: int
    version: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    inventory_generation: int
    gate_epoch: int
    onward_key: bytes
    def __init__(self, cluster: _Optional[str] = ..., node_id: _Optional[str] = ..., proxy_id: _Optional[str] = ..., nonce: _Optional[bytes] = ..., resources: _Optional[_Iterable[_Union[DeclaredResource, _Mapping]]] = ..., instance_id: _Optional[str] = ..., generation: _Optional[int] = ..., version: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., inventory_generation: _Optional[int] = ..., gate_epoch: _Optional[int] = ..., onward_key: _Optional[bytes] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("generation", "assigned")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    generation: int
    assigned: _containers.RepeatedCompositeFieldContainer[AssignedResource]
    def __init__(self, generation: _Optional[int] = ..., assigned: _Optional[_Iterable[_Union[AssignedResource, _Mapping]]] = ...) -> None: ...

class AssignedResource(_message.Message):
    __slots__ = ("id", "identity", "revision")
    ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    id: str
    identity: str
    revision: int
    def __init__(self, id: _Optional[str] = ..., identity: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class SignedRegistration(_message.Message):
    __slots__ = ("registration", "signature", "chain")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    registration: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, registration: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class WithheldResource(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RegistrationAccepted(_message.Message):
    __slots__ = ("lease_secs", "withheld", "inventory")
    LEASE_SECS_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    lease_secs: int
    withheld: _containers.RepeatedCompositeFieldContainer[WithheldResource]
    inventory: Inventory
    def __init__(self, lease_secs: _Optional[int] = ..., withheld: _Optional[_Iterable[_Union[WithheldResource, _Mapping]]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ...) -> None: ...

class OpenNotice(_message.Message):
    __slots__ = ("session_uid", "grant", "request", "signature", "person_chain", "secret", "traceparent", "first_flight")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PERSON_CHAIN_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    grant: _session_pb2.SignedGrant
    request: bytes
    signature: bytes
    person_chain: _containers.RepeatedScalarFieldContainer[bytes]
    secret: bytes
    traceparent: str
    first_flight: bytes
    def __init__(self, session_uid: _Optional[str] = ..., grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., request: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., person_chain: _Optional[_Iterable[bytes]] = ..., secret: _Optional[bytes] = ..., traceparent: _Optional[str] = ..., first_flight: _Optional[bytes] = ...) -> None: ...

class OpenRefused(_message.Message):
    __slots__ = ("session_uid", "reason")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    reason: str
    def __init__(self, session_uid: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CarryOpen(_message.Message):
    __slots__ = ("session_uid", "secret", "answer")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    secret: bytes
    answer: _session_pb2.SignedAnswer
    def __init__(self, session_uid: _Optional[str] = ..., secret: _Optional[bytes] = ..., answer: _Optional[_Union[_session_pb2.SignedAnswer, _Mapping]] = ...) -> None: ...

class LaneOffer(_message.Message):
    __slots__ = ("session_uid", "token")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    token: bytes
    def __init__(self, session_uid: _Optional[str] = ..., token: _Optional[bytes] = ...) -> None: ...

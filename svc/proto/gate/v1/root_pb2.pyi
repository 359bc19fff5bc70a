from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReceiverReport(_message.Message):
    __slots__ = ("owner", "receiver_key", "sealing_key", "signature", "key_set")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_KEY_FIELD_NUMBER: _ClassVar[int]
    SEALING_KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KEY_SET_FIELD_NUMBER: _ClassVar[int]
    owner: str
    receiver_key: bytes
    sealing_key: bytes
    signature: bytes
    key_set: bytes
    def __init__(self, owner: _Optional[str] = ..., receiver_key: _Optional[bytes] = ..., sealing_key: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., key_set: _Optional[bytes] = ...) -> None: ...

class ReceiverReceipt(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RootWord(_message.Message):
    __slots__ = ("owner", "epoch", "cancel", "signature", "by")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    epoch: int
    cancel: bool
    signature: bytes
    by: str
    def __init__(self, owner: _Optional[str] = ..., epoch: _Optional[int] = ..., cancel: _Optional[bool] = ..., signature: _Optional[bytes] = ..., by: _Optional[str] = ...) -> None: ...

class RootWordReceipt(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RootStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrepareRootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AckRootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ActivateRootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelRootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WithdrawOwnerRequest(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class ReadmitOwnerRequest(_message.Message):
    __slots__ = ("owner", "key_digest")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    KEY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    owner: str
    key_digest: str
    def __init__(self, owner: _Optional[str] = ..., key_digest: _Optional[str] = ...) -> None: ...

class RootStatusResponse(_message.Message):
    __slots__ = ("epoch", "material_revision", "prepared", "owners", "owner", "distributed_revision", "automatic_distribution", "paused", "key_digest")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_REVISION_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    KEY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    material_revision: int
    prepared: PreparedRoot
    owners: _containers.RepeatedCompositeFieldContainer[RootOwnerRow]
    owner: str
    distributed_revision: int
    automatic_distribution: bool
    paused: bool
    key_digest: str
    def __init__(self, epoch: _Optional[int] = ..., material_revision: _Optional[int] = ..., prepared: _Optional[_Union[PreparedRoot, _Mapping]] = ..., owners: _Optional[_Iterable[_Union[RootOwnerRow, _Mapping]]] = ..., owner: _Optional[str] = ..., distributed_revision: _Optional[int] = ..., automatic_distribution: _Optional[bool] = ..., paused: _Optional[bool] = ..., key_digest: _Optional[str] = ...) -> None: ...

class PreparedRoot(_message.Message):
    __slots__ = ("epoch", "material_revision", "prepared_at", "acknowledged", "waiting")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MATERIAL_REVISION_FIELD_NUMBER: _ClassVar[int]
    PREPARED_AT_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    material_revision: int
    prepared_at: float
    acknowledged: _containers.RepeatedScalarFieldContainer[str]
    waiting: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, epoch: _Optional[int] = ..., material_revision: _Optional[int] = ..., prepared_at: _Optional[float] = ..., acknowledged: _Optional[_Iterable[str]] = ..., waiting: _Optional[_Iterable[str]] = ...) -> None: ...

class RootOwnerRow(_message.Message):
    __slots__ = ("owner", "node_id", "state", "since", "revision", "has_root", "key_digest")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    HAS_ROOT_FIELD_NUMBER: _ClassVar[int]
    KEY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    owner: str
    node_id: str
    state: str
    since: float
    revision: int
    has_root: bool
    key_digest: str
    def __init__(self, owner: _Optional[str] = ..., node_id: _Optional[str] = ..., state: _Optional[str] = ..., since: _Optional[float] = ..., revision: _Optional[int] = ..., has_root: _Optional[bool] = ..., key_digest: _Optional[str] = ...) -> None: ...

class RotationStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseRotationRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ResumeRotationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RotationStatusResponse(_message.Message):
    __slots__ = ("paused", "since", "by", "reason")
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    since: float
    by: str
    reason: str
    def __init__(self, paused: _Optional[bool] = ..., since: _Optional[float] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

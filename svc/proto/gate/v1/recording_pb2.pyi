from svc.proto.gate.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutRecordingRequest(_message.Message):
    __slots__ = ("grant", "channel", "offset", "data", "last", "reason")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    grant: _session_pb2.SignedGrant
    channel: int
    offset: int
    data: bytes
    last: bool
    reason: str
    def __init__(self, grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., channel: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., last: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class PutRecordingResponse(_message.Message):
    __slots__ = ("held", "done")
    HELD_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    held: int
    done: bool
    def __init__(self, held: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class RecordingHeader(_message.Message):
    __slots__ = ("grant", "channel", "key", "began_ms")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    grant: _session_pb2.SignedGrant
    channel: int
    key: bytes
    began_ms: int
    def __init__(self, grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., channel: _Optional[int] = ..., key: _Optional[bytes] = ..., began_ms: _Optional[int] = ...) -> None: ...

class ListRecordingsRequest(_message.Message):
    __slots__ = ("session", "person", "resource", "state", "most")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    session: str
    person: str
    resource: str
    state: str
    most: int
    def __init__(self, session: _Optional[str] = ..., person: _Optional[str] = ..., resource: _Optional[str] = ..., state: _Optional[str] = ..., most: _Optional[int] = ...) -> None: ...

class ListRecordingsResponse(_message.Message):
    __slots__ = ("recordings", "more")
    RECORDINGS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    recordings: _containers.RepeatedCompositeFieldContainer[RecordingRow]
    more: bool
    def __init__(self, recordings: _Optional[_Iterable[_Union[RecordingRow, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class RecordingRow(_message.Message):
    __slots__ = ("id", "session_uid", "channel", "person_id", "person", "resource", "kind", "connector_id", "decision_id", "began_ms", "state", "reason", "form", "size", "duration_ms", "sha256", "sealed_size", "sealed_sha256")
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SEALED_SIZE_FIELD_NUMBER: _ClassVar[int]
    SEALED_SHA256_FIELD_NUMBER: _ClassVar[int]
    id: str
    session_uid: str
    channel: int
    person_id: str
    person: str
    resource: str
    kind: str
    connector_id: str
    decision_id: str
    began_ms: int
    state: str
    reason: str
    form: str
    size: int
    duration_ms: int
    sha256: str
    sealed_size: int
    sealed_sha256: str
    def __init__(self, id: _Optional[str] = ..., session_uid: _Optional[str] = ..., channel: _Optional[int] = ..., person_id: _Optional[str] = ..., person: _Optional[str] = ..., resource: _Optional[str] = ..., kind: _Optional[str] = ..., connector_id: _Optional[str] = ..., decision_id: _Optional[str] = ..., began_ms: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., form: _Optional[str] = ..., size: _Optional[int] = ..., duration_ms: _Optional[int] = ..., sha256: _Optional[str] = ..., sealed_size: _Optional[int] = ..., sealed_sha256: _Optional[str] = ...) -> None: ...

class ReadRecordingRequest(_message.Message):
    __slots__ = ("id", "offset")
    ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    id: str
    offset: int
    def __init__(self, id: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadRecordingResponse(_message.Message):
    __slots__ = ("recording", "data", "next")
    RECORDING_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    recording: RecordingRow
    data: bytes
    next: int
    def __init__(self, recording: _Optional[_Union[RecordingRow, _Mapping]] = ..., data: _Optional[bytes] = ..., next: _Optional[int] = ...) -> None: ...

class RemoveRecordingRequest(_message.Message):
    __slots__ = ("id", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    note: str
    def __init__(self, id: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RemoveRecordingResponse(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

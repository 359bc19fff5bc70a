from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamFrame(_message.Message):
    __slots__ = ("open", "data", "eof", "moved", "end", "signal", "tagged", "note")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    TAGGED_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    open: bytes
    data: bytes
    eof: bool
    moved: bool
    end: StreamEnd
    signal: StreamSignal
    tagged: bytes
    note: StreamNote
    def __init__(self, open: _Optional[bytes] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., moved: _Optional[bool] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ..., signal: _Optional[_Union[StreamSignal, _Mapping]] = ..., tagged: _Optional[bytes] = ..., note: _Optional[_Union[StreamNote, _Mapping]] = ...) -> None: ...

class StreamNote(_message.Message):
    __slots__ = ("pass_to", "decisions", "edits", "closes")
    PASS_TO_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    CLOSES_FIELD_NUMBER: _ClassVar[int]
    pass_to: int
    decisions: _containers.RepeatedCompositeFieldContainer[StreamDecision]
    edits: _containers.RepeatedCompositeFieldContainer[StreamEdit]
    closes: bool
    def __init__(self, pass_to: _Optional[int] = ..., decisions: _Optional[_Iterable[_Union[StreamDecision, _Mapping]]] = ..., edits: _Optional[_Iterable[_Union[StreamEdit, _Mapping]]] = ..., closes: _Optional[bool] = ...) -> None: ...

class StreamDecision(_message.Message):
    __slots__ = ("n", "offset", "size", "allowed")
    N_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    n: int
    offset: int
    size: int
    allowed: bool
    def __init__(self, n: _Optional[int] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ..., allowed: _Optional[bool] = ...) -> None: ...

class StreamEdit(_message.Message):
    __slots__ = ("offset", "size", "name", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    offset: int
    size: int
    name: str
    values: _containers.ScalarMap[str, str]
    def __init__(self, offset: _Optional[int] = ..., size: _Optional[int] = ..., name: _Optional[str] = ..., values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ("reason", "decision_id")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    reason: str
    decision_id: str
    def __init__(self, reason: _Optional[str] = ..., decision_id: _Optional[str] = ...) -> None: ...

class StreamSignal(_message.Message):
    __slots__ = ("cancel",)
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    cancel: StreamCancel
    def __init__(self, cancel: _Optional[_Union[StreamCancel, _Mapping]] = ...) -> None: ...

class StreamCancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

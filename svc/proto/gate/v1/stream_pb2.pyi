from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamFrame(_message.Message):
    __slots__ = ("open", "data", "eof", "moved", "end", "signal")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    open: bytes
    data: bytes
    eof: bool
    moved: bool
    end: StreamEnd
    signal: StreamSignal
    def __init__(self, open: _Optional[bytes] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., moved: _Optional[bool] = ..., end: _Optional[_Union[StreamEnd, _Mapping]] = ..., signal: _Optional[_Union[StreamSignal, _Mapping]] = ...) -> None: ...

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

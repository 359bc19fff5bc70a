from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class StreamFrame(_message.Message):
    __slots__ = ("open", "data", "eof", "moved")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EOF_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    open: bytes
    data: bytes
    eof: bool
    moved: bool
    def __init__(self, open: _Optional[bytes] = ..., data: _Optional[bytes] = ..., eof: _Optional[bool] = ..., moved: _Optional[bool] = ...) -> None: ...

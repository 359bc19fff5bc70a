from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class IdentityRequest(_message.Message):
    __slots__ = ("session_uid", "named")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    session_uid: bytes
    named: str
    def __init__(self, session_uid: _Optional[bytes] = ..., named: _Optional[str] = ...) -> None: ...

class IdentityResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

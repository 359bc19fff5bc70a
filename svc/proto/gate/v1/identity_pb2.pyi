from svc.proto.gate.v1 import session_pb2 as _session_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IdentityRequest(_message.Message):
    __slots__ = ("named", "grant")
    NAMED_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    named: str
    grant: _session_pb2.SignedGrant
    def __init__(self, named: _Optional[str] = ..., grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ...) -> None: ...

class IdentityResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

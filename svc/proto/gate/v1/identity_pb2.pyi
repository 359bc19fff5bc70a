from svc.proto.gate.v1 import session_pb2 as _session_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionUseRequest(_message.Message):
    __slots__ = ("grant", "used")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    grant: _session_pb2.SignedGrant
    used: _containers.RepeatedCompositeFieldContainer[UsedRight]
    def __init__(self, grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., used: _Optional[_Iterable[_Union[UsedRight, _Mapping]]] = ...) -> None: ...

class UsedRight(_message.Message):
    __slots__ = ("name", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class SessionUseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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

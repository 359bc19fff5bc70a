from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ReloadRequest(_message.Message):
    __slots__ = ("role", "config")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    role: str
    config: str
    def __init__(self, role: _Optional[str] = ..., config: _Optional[str] = ...) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("generation", "digest", "changed", "restart")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    generation: int
    digest: str
    changed: _containers.RepeatedScalarFieldContainer[str]
    restart: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, generation: _Optional[int] = ..., digest: _Optional[str] = ..., changed: _Optional[_Iterable[str]] = ..., restart: _Optional[_Iterable[str]] = ...) -> None: ...

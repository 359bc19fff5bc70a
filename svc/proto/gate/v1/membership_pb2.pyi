from svc.proto.gate.v1 import control_pb2 as _control_pb2
from svc.proto.gate.v1 import root_pb2 as _root_pb2
from svc.proto.gate.v1 import tunnel_pb2 as _tunnel_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class LeaderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaderResponse(_message.Message):
    __slots__ = ("leads", "epoch", "leader", "authority_id")
    LEADS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_ID_FIELD_NUMBER: _ClassVar[int]
    leads: bool
    epoch: int
    leader: str
    authority_id: str
    def __init__(self, leads: _Optional[bool] = ..., epoch: _Optional[int] = ..., leader: _Optional[str] = ..., authority_id: _Optional[str] = ...) -> None: ...

class ForwardRequest(_message.Message):
    __slots__ = ("method", "request", "chain", "host", "port")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    method: str
    request: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    host: str
    port: int
    def __init__(self, method: _Optional[str] = ..., request: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class ForwardResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: bytes
    def __init__(self, response: _Optional[bytes] = ...) -> None: ...

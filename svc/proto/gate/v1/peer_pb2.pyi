from svc.proto.gate.v1 import session_pb2 as _session_pb2
from svc.proto.gate.v1 import stream_pb2 as _stream_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerOpen(_message.Message):
    __slots__ = ("grant", "request", "signature", "person_chain", "source_address", "traceparent")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PERSON_CHAIN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    grant: _session_pb2.SignedGrant
    request: bytes
    signature: bytes
    person_chain: _containers.RepeatedScalarFieldContainer[bytes]
    source_address: str
    traceparent: str
    def __init__(self, grant: _Optional[_Union[_session_pb2.SignedGrant, _Mapping]] = ..., request: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., person_chain: _Optional[_Iterable[bytes]] = ..., source_address: _Optional[str] = ..., traceparent: _Optional[str] = ...) -> None: ...

class PeerOpened(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: _session_pb2.SignedAnswer
    def __init__(self, answer: _Optional[_Union[_session_pb2.SignedAnswer, _Mapping]] = ...) -> None: ...

class PeerEndRequest(_message.Message):
    __slots__ = ("session_uid", "reason")
    SESSION_UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_uid: str
    reason: str
    def __init__(self, session_uid: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PeerEndResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class EnrollRequest(_message.Message):
    __slots__ = ("token", "csr", "audit_public_key", "version", "audit_proof", "sent_at_ms")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    AUDIT_PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AUDIT_PROOF_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    token: str
    csr: bytes
    audit_public_key: bytes
    version: str
    audit_proof: bytes
    sent_at_ms: int
    def __init__(self, token: _Optional[str] = ..., csr: _Optional[bytes] = ..., audit_public_key: _Optional[bytes] = ..., version: _Optional[str] = ..., audit_proof: _Optional[bytes] = ..., sent_at_ms: _Optional[int] = ...) -> None: ...

class EnrollResponse(_message.Message):
    __slots__ = ("cluster", "principal", "chain", "root", "name")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    principal: str
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    root: bytes
    name: str
    def __init__(self, cluster: _Optional[str] = ..., principal: _Optional[str] = ..., chain: _Optional[_Iterable[bytes]] = ..., root: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("csr", "version")
    CSR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    version: str
    def __init__(self, csr: _Optional[bytes] = ..., version: _Optional[str] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("chain",)
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PublishedResource(_message.Message):
    __slots__ = ("id", "kind", "labels", "onward_auth")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ONWARD_AUTH_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    labels: _containers.ScalarMap[str, str]
    onward_auth: str
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., onward_auth: _Optional[str] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("source", "resources", "unchanged")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    source: str
    resources: _containers.RepeatedCompositeFieldContainer[PublishedResource]
    unchanged: bytes
    def __init__(self, source: _Optional[str] = ..., resources: _Optional[_Iterable[_Union[PublishedResource, _Mapping]]] = ..., unchanged: _Optional[bytes] = ...) -> None: ...

class RefusedResource(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("lease_secs", "refused", "digest", "again")
    LEASE_SECS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    lease_secs: int
    refused: _containers.RepeatedCompositeFieldContainer[RefusedResource]
    digest: bytes
    again: bool
    def __init__(self, lease_secs: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[RefusedResource, _Mapping]]] = ..., digest: _Optional[bytes] = ..., again: _Optional[bool] = ...) -> None: ...

from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignInProfile(_message.Message):
    __slots__ = ("cluster", "issuer", "client_id", "scopes", "extra_params", "groups_claim", "pending_errors", "interval", "expires_in")
    class ExtraParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    EXTRA_PARAMS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_CLAIM_FIELD_NUMBER: _ClassVar[int]
    PENDING_ERRORS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    issuer: str
    client_id: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    extra_params: _containers.ScalarMap[str, str]
    groups_claim: str
    pending_errors: _containers.RepeatedScalarFieldContainer[str]
    interval: int
    expires_in: int
    def __init__(self, cluster: _Optional[str] = ..., issuer: _Optional[str] = ..., client_id: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., extra_params: _Optional[_Mapping[str, str]] = ..., groups_claim: _Optional[str] = ..., pending_errors: _Optional[_Iterable[str]] = ..., interval: _Optional[int] = ..., expires_in: _Optional[int] = ...) -> None: ...

class SignInProfileRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignInProfileResponse(_message.Message):
    __slots__ = ("profile", "signature", "chain")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    profile: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, profile: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SignInBeginRequest(_message.Message):
    __slots__ = ("csr", "flow", "port", "version", "sent_at_ms")
    CSR_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    flow: str
    port: int
    version: str
    sent_at_ms: int
    def __init__(self, csr: _Optional[bytes] = ..., flow: _Optional[str] = ..., port: _Optional[int] = ..., version: _Optional[str] = ..., sent_at_ms: _Optional[int] = ...) -> None: ...

class SignInBeginResponse(_message.Message):
    __slots__ = ("attempt", "url", "state", "user_code", "complete_url", "interval", "expires_in", "issuer")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    USER_CODE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_URL_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    url: str
    state: str
    user_code: str
    complete_url: str
    interval: int
    expires_in: int
    issuer: str
    def __init__(self, attempt: _Optional[str] = ..., url: _Optional[str] = ..., state: _Optional[str] = ..., user_code: _Optional[str] = ..., complete_url: _Optional[str] = ..., interval: _Optional[int] = ..., expires_in: _Optional[int] = ..., issuer: _Optional[str] = ...) -> None: ...

class SignInCompleteRequest(_message.Message):
    __slots__ = ("attempt", "query")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    query: str
    def __init__(self, attempt: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class SignInPollRequest(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    def __init__(self, attempt: _Optional[str] = ...) -> None: ...

class SignInPollResponse(_message.Message):
    __slots__ = ("signed_in", "wait")
    SIGNED_IN_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    signed_in: SignInResponse
    wait: int
    def __init__(self, signed_in: _Optional[_Union[SignInResponse, _Mapping]] = ..., wait: _Optional[int] = ...) -> None: ...

class SignInAssertRequest(_message.Message):
    __slots__ = ("csr", "id_token", "version", "sent_at_ms")
    CSR_FIELD_NUMBER: _ClassVar[int]
    ID_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    id_token: str
    version: str
    sent_at_ms: int
    def __init__(self, csr: _Optional[bytes] = ..., id_token: _Optional[str] = ..., version: _Optional[str] = ..., sent_at_ms: _Optional[int] = ...) -> None: ...

class SignInResponse(_message.Message):
    __slots__ = ("cluster", "principal", "chain", "root", "name", "renew_until", "groups")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RENEW_UNTIL_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    principal: str
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    root: bytes
    name: str
    renew_until: int
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster: _Optional[str] = ..., principal: _Optional[str] = ..., chain: _Optional[_Iterable[bytes]] = ..., root: _Optional[bytes] = ..., name: _Optional[str] = ..., renew_until: _Optional[int] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class SignInRenewRequest(_message.Message):
    __slots__ = ("payload", "signature", "chain")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, payload: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SignInRenewal(_message.Message):
    __slots__ = ("cluster", "csr", "sent_at_ms")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    csr: bytes
    sent_at_ms: int
    def __init__(self, cluster: _Optional[str] = ..., csr: _Optional[bytes] = ..., sent_at_ms: _Optional[int] = ...) -> None: ...

class SignInEndRequest(_message.Message):
    __slots__ = ("payload", "signature", "chain")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, payload: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SignInEndResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LinkIdentityRequest(_message.Message):
    __slots__ = ("person", "issuer", "subject")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    person: str
    issuer: str
    subject: str
    def __init__(self, person: _Optional[str] = ..., issuer: _Optional[str] = ..., subject: _Optional[str] = ...) -> None: ...

class LinkIdentityResponse(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveIdentityRequest(_message.Message):
    __slots__ = ("id", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    note: str
    def __init__(self, id: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RemoveIdentityResponse(_message.Message):
    __slots__ = ("person_id", "sign_ins", "certificates")
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    SIGN_INS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    person_id: str
    sign_ins: int
    certificates: int
    def __init__(self, person_id: _Optional[str] = ..., sign_ins: _Optional[int] = ..., certificates: _Optional[int] = ...) -> None: ...

class ListIdentitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdentityRow(_message.Message):
    __slots__ = ("id", "person", "issuer", "subject")
    ID_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    id: str
    person: str
    issuer: str
    subject: str
    def __init__(self, id: _Optional[str] = ..., person: _Optional[str] = ..., issuer: _Optional[str] = ..., subject: _Optional[str] = ...) -> None: ...

class ListIdentitiesResponse(_message.Message):
    __slots__ = ("identities",)
    IDENTITIES_FIELD_NUMBER: _ClassVar[int]
    identities: _containers.RepeatedCompositeFieldContainer[IdentityRow]
    def __init__(self, identities: _Optional[_Iterable[_Union[IdentityRow, _Mapping]]] = ...) -> None: ...

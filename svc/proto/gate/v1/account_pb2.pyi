from svc.proto.gate.v1 import sign_in_pb2 as _sign_in_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PasswordRuleRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PasswordRuleResponse(_message.Message):
    __slots__ = ("least",)
    LEAST_FIELD_NUMBER: _ClassVar[int]
    least: int
    def __init__(self, least: _Optional[int] = ...) -> None: ...

class ChallengeRequest(_message.Message):
    __slots__ = ("csr",)
    CSR_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    def __init__(self, csr: _Optional[bytes] = ...) -> None: ...

class ChallengeResponse(_message.Message):
    __slots__ = ("attempt", "challenge", "rp_id", "origin")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    RP_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    challenge: bytes
    rp_id: str
    origin: str
    def __init__(self, attempt: _Optional[str] = ..., challenge: _Optional[bytes] = ..., rp_id: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class LocalSignInRequest(_message.Message):
    __slots__ = ("csr", "attempt", "name", "password", "code", "assertion", "device", "version", "sent_at_ms")
    CSR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ASSERTION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    attempt: str
    name: str
    password: str
    code: str
    assertion: KeyAssertion
    device: bytes
    version: str
    sent_at_ms: int
    def __init__(self, csr: _Optional[bytes] = ..., attempt: _Optional[str] = ..., name: _Optional[str] = ..., password: _Optional[str] = ..., code: _Optional[str] = ..., assertion: _Optional[_Union[KeyAssertion, _Mapping]] = ..., device: _Optional[bytes] = ..., version: _Optional[str] = ..., sent_at_ms: _Optional[int] = ...) -> None: ...

class KeyAssertion(_message.Message):
    __slots__ = ("credential_id", "client_data", "authenticator_data", "signature")
    CREDENTIAL_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATOR_DATA_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    def __init__(self, credential_id: _Optional[bytes] = ..., client_data: _Optional[bytes] = ..., authenticator_data: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LocalSignInResponse(_message.Message):
    __slots__ = ("signed_in", "device", "recovery_codes_left", "recovery_codes")
    SIGNED_IN_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_CODES_LEFT_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_CODES_FIELD_NUMBER: _ClassVar[int]
    signed_in: _sign_in_pb2.SignInResponse
    device: bytes
    recovery_codes_left: int
    recovery_codes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, signed_in: _Optional[_Union[_sign_in_pb2.SignInResponse, _Mapping]] = ..., device: _Optional[bytes] = ..., recovery_codes_left: _Optional[int] = ..., recovery_codes: _Optional[_Iterable[str]] = ...) -> None: ...

class BeginEnrollmentRequest(_message.Message):
    __slots__ = ("csr", "name", "code", "first_administrator", "password", "security_key", "version", "sent_at_ms", "passkey", "port")
    CSR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIRST_ADMINISTRATOR_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SECURITY_KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PASSKEY_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    name: str
    code: str
    first_administrator: bool
    password: str
    security_key: bool
    version: str
    sent_at_ms: int
    passkey: bool
    port: int
    def __init__(self, csr: _Optional[bytes] = ..., name: _Optional[str] = ..., code: _Optional[str] = ..., first_administrator: _Optional[bool] = ..., password: _Optional[str] = ..., security_key: _Optional[bool] = ..., version: _Optional[str] = ..., sent_at_ms: _Optional[int] = ..., passkey: _Optional[bool] = ..., port: _Optional[int] = ...) -> None: ...

class BeginEnrollmentResponse(_message.Message):
    __slots__ = ("attempt", "expires_in", "totp_uri", "challenge", "rp_id", "origin", "user_handle", "browser")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    TOTP_URI_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    RP_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    USER_HANDLE_FIELD_NUMBER: _ClassVar[int]
    BROWSER_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    expires_in: int
    totp_uri: str
    challenge: bytes
    rp_id: str
    origin: str
    user_handle: bytes
    browser: BrowserAttempt
    def __init__(self, attempt: _Optional[str] = ..., expires_in: _Optional[int] = ..., totp_uri: _Optional[str] = ..., challenge: _Optional[bytes] = ..., rp_id: _Optional[str] = ..., origin: _Optional[str] = ..., user_handle: _Optional[bytes] = ..., browser: _Optional[_Union[BrowserAttempt, _Mapping]] = ...) -> None: ...

class CompleteEnrollmentRequest(_message.Message):
    __slots__ = ("attempt", "code", "registration", "query")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    code: str
    registration: KeyRegistration
    query: str
    def __init__(self, attempt: _Optional[str] = ..., code: _Optional[str] = ..., registration: _Optional[_Union[KeyRegistration, _Mapping]] = ..., query: _Optional[str] = ...) -> None: ...

class BeginPasskeyRequest(_message.Message):
    __slots__ = ("csr", "port", "version", "sent_at_ms", "added_to")
    CSR_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ADDED_TO_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    port: int
    version: str
    sent_at_ms: int
    added_to: LocalSignInRequest
    def __init__(self, csr: _Optional[bytes] = ..., port: _Optional[int] = ..., version: _Optional[str] = ..., sent_at_ms: _Optional[int] = ..., added_to: _Optional[_Union[LocalSignInRequest, _Mapping]] = ...) -> None: ...

class BrowserAttempt(_message.Message):
    __slots__ = ("attempt", "expires_in", "url", "state")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    expires_in: int
    url: str
    state: str
    def __init__(self, attempt: _Optional[str] = ..., expires_in: _Optional[int] = ..., url: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class CompletePasskeyRequest(_message.Message):
    __slots__ = ("attempt", "query")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    query: str
    def __init__(self, attempt: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class KeyRegistration(_message.Message):
    __slots__ = ("client_data", "attestation")
    CLIENT_DATA_FIELD_NUMBER: _ClassVar[int]
    ATTESTATION_FIELD_NUMBER: _ClassVar[int]
    client_data: bytes
    attestation: bytes
    def __init__(self, client_data: _Optional[bytes] = ..., attestation: _Optional[bytes] = ...) -> None: ...

class AddAccountRequest(_message.Message):
    __slots__ = ("person", "groups", "create_groups", "ttl_secs", "reset", "note")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CREATE_GROUPS_FIELD_NUMBER: _ClassVar[int]
    TTL_SECS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    person: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    create_groups: bool
    ttl_secs: int
    reset: bool
    note: str
    def __init__(self, person: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., create_groups: _Optional[bool] = ..., ttl_secs: _Optional[int] = ..., reset: _Optional[bool] = ..., note: _Optional[str] = ...) -> None: ...

class AddAccountResponse(_message.Message):
    __slots__ = ("id", "code", "ca_pin", "expires_at", "sign_ins_ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    CA_PIN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    SIGN_INS_ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    code: str
    ca_pin: str
    expires_at: int
    sign_ins_ended: int
    def __init__(self, id: _Optional[str] = ..., code: _Optional[str] = ..., ca_pin: _Optional[str] = ..., expires_at: _Optional[int] = ..., sign_ins_ended: _Optional[int] = ...) -> None: ...

class ListAccountsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AccountRow(_message.Message):
    __slots__ = ("person_id", "name", "state", "second_factors", "recovery_codes", "code_expires_at", "passkeys")
    PERSON_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SECOND_FACTORS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_CODES_FIELD_NUMBER: _ClassVar[int]
    CODE_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PASSKEYS_FIELD_NUMBER: _ClassVar[int]
    person_id: str
    name: str
    state: str
    second_factors: _containers.RepeatedScalarFieldContainer[str]
    recovery_codes: int
    code_expires_at: int
    passkeys: _containers.RepeatedCompositeFieldContainer[PasskeyRow]
    def __init__(self, person_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., second_factors: _Optional[_Iterable[str]] = ..., recovery_codes: _Optional[int] = ..., code_expires_at: _Optional[int] = ..., passkeys: _Optional[_Iterable[_Union[PasskeyRow, _Mapping]]] = ...) -> None: ...

class PasskeyRow(_message.Message):
    __slots__ = ("id", "added_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    added_at: int
    def __init__(self, id: _Optional[str] = ..., added_at: _Optional[int] = ...) -> None: ...

class ListAccountsResponse(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[AccountRow]
    def __init__(self, accounts: _Optional[_Iterable[_Union[AccountRow, _Mapping]]] = ...) -> None: ...

class RemoveAccountRequest(_message.Message):
    __slots__ = ("person", "note")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    person: str
    note: str
    def __init__(self, person: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RemoveAccountResponse(_message.Message):
    __slots__ = ("id", "name", "changed", "sign_ins_ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    SIGN_INS_ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    changed: bool
    sign_ins_ended: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., changed: _Optional[bool] = ..., sign_ins_ended: _Optional[int] = ...) -> None: ...

class RemovePasskeyRequest(_message.Message):
    __slots__ = ("person", "passkey", "note")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    PASSKEY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    person: str
    passkey: str
    note: str
    def __init__(self, person: _Optional[str] = ..., passkey: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class RemovePasskeyResponse(_message.Message):
    __slots__ = ("id", "name", "changed", "sign_ins_ended")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    SIGN_INS_ENDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    changed: bool
    sign_ins_ended: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., changed: _Optional[bool] = ..., sign_ins_ended: _Optional[int] = ...) -> None: ...

class FirstAdministratorRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FirstAdministratorResponse(_message.Message):
    __slots__ = ("path", "expires_at", "ca_pin")
    PATH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    CA_PIN_FIELD_NUMBER: _ClassVar[int]
    path: str
    expires_at: int
    ca_pin: str
    def __init__(self, path: _Optional[str] = ..., expires_at: _Optional[int] = ..., ca_pin: _Optional[str] = ...) -> None: ...

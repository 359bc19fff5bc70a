from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProposePolicyRequest(_message.Message):
    __slots__ = ("text", "replay", "findings", "note", "claim", "signature", "chain")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    text: str
    replay: bytes
    findings: bytes
    note: str
    claim: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, text: _Optional[str] = ..., replay: _Optional[bytes] = ..., findings: _Optional[bytes] = ..., note: _Optional[str] = ..., claim: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ProposePolicyResponse(_message.Message):
    __slots__ = ("id", "expires_at", "needed", "changes")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    id: str
    expires_at: int
    needed: int
    changes: _containers.RepeatedCompositeFieldContainer[PolicyChangeRow]
    def __init__(self, id: _Optional[str] = ..., expires_at: _Optional[int] = ..., needed: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[PolicyChangeRow, _Mapping]]] = ...) -> None: ...

class PolicyChangeRow(_message.Message):
    __slots__ = ("policy", "change", "sensitive")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    policy: str
    change: str
    sensitive: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, policy: _Optional[str] = ..., change: _Optional[str] = ..., sensitive: _Optional[_Iterable[str]] = ...) -> None: ...

class ListProposalsRequest(_message.Message):
    __slots__ = ("all",)
    ALL_FIELD_NUMBER: _ClassVar[int]
    all: bool
    def __init__(self, all: _Optional[bool] = ...) -> None: ...

class ProposalRow(_message.Message):
    __slots__ = ("id", "state", "parent", "sha256", "proposer_kind", "proposer", "proposer_name", "note", "proposed_at", "expires_at", "approvals", "needed", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_KIND_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_FIELD_NUMBER: _ClassVar[int]
    PROPOSER_NAME_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    NEEDED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    parent: int
    sha256: str
    proposer_kind: str
    proposer: str
    proposer_name: str
    note: str
    proposed_at: int
    expires_at: int
    approvals: int
    needed: int
    version: int
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., parent: _Optional[int] = ..., sha256: _Optional[str] = ..., proposer_kind: _Optional[str] = ..., proposer: _Optional[str] = ..., proposer_name: _Optional[str] = ..., note: _Optional[str] = ..., proposed_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., approvals: _Optional[int] = ..., needed: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class ListProposalsResponse(_message.Message):
    __slots__ = ("proposals",)
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    proposals: _containers.RepeatedCompositeFieldContainer[ProposalRow]
    def __init__(self, proposals: _Optional[_Iterable[_Union[ProposalRow, _Mapping]]] = ...) -> None: ...

class ReviewPolicyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DecisionRow(_message.Message):
    __slots__ = ("person", "name", "decision", "decided_at", "problem")
    PERSON_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    person: str
    name: str
    decision: str
    decided_at: int
    problem: str
    def __init__(self, person: _Optional[str] = ..., name: _Optional[str] = ..., decision: _Optional[str] = ..., decided_at: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class ReviewPolicyResponse(_message.Message):
    __slots__ = ("proposal", "cluster", "text", "parent_text", "schema_sha256", "entity_revision", "replay", "findings", "changes", "decisions", "problem", "names")
    class NamesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PARENT_TEXT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_SHA256_FIELD_NUMBER: _ClassVar[int]
    ENTITY_REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    proposal: ProposalRow
    cluster: str
    text: str
    parent_text: str
    schema_sha256: str
    entity_revision: int
    replay: bytes
    findings: bytes
    changes: _containers.RepeatedCompositeFieldContainer[PolicyChangeRow]
    decisions: _containers.RepeatedCompositeFieldContainer[DecisionRow]
    problem: str
    names: _containers.ScalarMap[str, str]
    def __init__(self, proposal: _Optional[_Union[ProposalRow, _Mapping]] = ..., cluster: _Optional[str] = ..., text: _Optional[str] = ..., parent_text: _Optional[str] = ..., schema_sha256: _Optional[str] = ..., entity_revision: _Optional[int] = ..., replay: _Optional[bytes] = ..., findings: _Optional[bytes] = ..., changes: _Optional[_Iterable[_Union[PolicyChangeRow, _Mapping]]] = ..., decisions: _Optional[_Iterable[_Union[DecisionRow, _Mapping]]] = ..., problem: _Optional[str] = ..., names: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DecideProposalRequest(_message.Message):
    __slots__ = ("id", "approval", "signature", "chain", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    approval: bytes
    signature: bytes
    chain: _containers.RepeatedScalarFieldContainer[bytes]
    note: str
    def __init__(self, id: _Optional[str] = ..., approval: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[_Iterable[bytes]] = ..., note: _Optional[str] = ...) -> None: ...

class DecideProposalResponse(_message.Message):
    __slots__ = ("proposal",)
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    proposal: ProposalRow
    def __init__(self, proposal: _Optional[_Union[ProposalRow, _Mapping]] = ...) -> None: ...

class ActivateProposalRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ActivateProposalResponse(_message.Message):
    __slots__ = ("version", "sha256", "approvers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    APPROVERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    sha256: str
    approvers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., sha256: _Optional[str] = ..., approvers: _Optional[_Iterable[str]] = ...) -> None: ...

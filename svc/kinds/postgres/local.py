"""At the person's machine: what a PostgreSQL client is told before, after and beside its session.

The client's StartupMessage comes before the session opens: it names the database and the role
that the person asks for.  No password is wanted, since whoever gets here is the person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ssl import RAND_bytes
from struct import Struct

from attrs import define, field, frozen
from zope.interface import implementer

from svc.errors import Malformed, SvcError
from svc.interfaces.kinds import ILocalDialogue, ISpeakingEndpoint
from svc.kinds.opaque import LabelledPort
from svc.kinds.postgres.messages import (
    DENIED_CODE,
    DENIED_WORD,
    EXECUTES,
    EXTENDED,
    HEAD,
    LONG,
    SYNTAX_ERROR,
    denied_word,
    error_message,
    fatal,
    fields_of,
    message,
    text_at,
)
from svc.kinds.postgres.terms import DATABASE, ROLE
from svc.model.policy.requested import (
    COMMAND_OPTIONS,
    MAX_TEXT_BYTES,
    known_command,
    why_command,
)
from svc.model.session.edits import MakeEdit
from svc.model.session.ending import SessionOver

LONGEST_STARTUP = 10_000
"""As long as PostgreSQL itself takes one."""

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_ALPN = b"postgresql"
_NEWEST_MINOR = 0
_READY = ord("Z")

length_at = Struct(">I").unpack_from

KEY_BYTES = 8
"""Of protocol 3.0: a process id and a secret, 4 bytes each."""


def new_key() -> bytes:
    """A key that nobody can guess; what stands for the process id is positive."""
    made = RAND_bytes(KEY_BYTES)
    return bytes([made[0] & 0x7F]) + made[1:]


def denied(came: bytes, values: Mapping[str, str]) -> bytes:
    """The server's complaint about the word, as the denial that it stands for.

    Only such a complaint: a Proxy cannot make another error, or rows, into a denial.
    """
    decision = values.get("decision", "")
    if denied_word(came[5:]) != DENIED_WORD + decision.encode("ascii", "replace"):
        raise Malformed("the Proxy calls an answer a denial that is none")
    said = fields_of(came[5:])
    policies = " ".join(values.get("policies", "").split())
    reason = " ".join(values.get("reason", "").split()) or "denied"
    by = f"Policy: {policies}." if policies else "No policy allows it."
    unread = values.get("unread", "")
    why = f" svc cannot tell all that it would do: {unread_text(unread)}." if unread else ""
    complaint = " ".join(values.get("complaint", "").split())
    position = values.get("position", "")
    # What PostgreSQL's own parser complains of is told as PostgreSQL tells it.
    if complaint:
        code, text = SYNTAX_ERROR, complaint
    else:
        code, text = DENIED_CODE, f"svc: the statement is not allowed (reason: {reason})"
    return error_message(
        {
            b"S": said.get(b"S", b"ERROR"),
            b"V": said.get(b"V", b"ERROR"),
            b"C": code,
            b"M": text.encode(),
            b"D": f"{by}{why} The statement did not reach the server.".encode(),
            b"H": _hint(decision, values).encode(),
            b"P": position.encode() if complaint and _POSITION.fullmatch(position) else b"",
        }
    )


def _hint(decision: str, told: Mapping[str, str]) -> str:
    """What to type: to see why, and to ask for access where an approval would turn the denial."""
    options = told.get(COMMAND_OPTIONS, "")
    why = why_command(decision, options) if decision else ""
    command = known_command(told.get("request", ""))
    ask = f"To ask for access: {command}{options}" if command else _NO_TEXT.get(told.get("no_text"))
    return "; ".join(part for part in (ask, why and (f"to see why: {why}" if ask else why)) if part)


_EXACTLY = "It has to be approved by its exact text"
_NO_TEXT: Mapping[str | None, str] = {
    EXTENDED: f"{_EXACTLY}, and a statement whose parameters are sent apart has none: send it with "
    "the values in it by the simple protocol, as psql does, and ask for that",
    EXECUTES: f"{_EXACTLY}, and EXECUTE does not show what it runs: send the statement itself, "
    "and ask for that",
    LONG: f"{_EXACTLY}, and only UTF-8 of at most {MAX_TEXT_BYTES} bytes can be asked for: send "
    "less at a time",
}


def unread_text(word: str) -> str:
    """Why nobody can tell all that a text does, for the person who wrote it."""
    return _UNREAD.get(word, "a part of it is unknown to svc")


@implementer(ILocalDialogue)
@define(eq=False)
class PostgresDialogue:
    """With one client.

    Attributes:
        parameters: What the client asks for; None before it has said so.
        key: Our BackendKeyData: the target's own stays at the Connector.
        cancels: The key of a CancelRequest, if this connection is one.
        tls: ``postgresql`` once the client's request for TLS was granted.
    """

    parameters: Mapping[str, str] | None = None
    key: bytes = field(factory=new_key)
    cancels: bytes = b""
    tls: bytes = b""
    _is_key_told: bool = False
    _held: bytes = b""
    _asked: set[int] = field(factory=set)
    _owes: int = 0
    _head: bytes = b""

    def heard(self, data: bytes) -> bytes:
        """See ILocalDialogue."""
        self._held += data
        if len(self._held) < 8:
            return b""
        size, code = int.from_bytes(self._held[:4], "big"), int.from_bytes(self._held[4:8], "big")
        if code in (_SSL, _GSS):
            if size != 8 or len(self._held) != 8 or code in self._asked:
                # What came before our answer would be taken for what is protected.
                raise _refusal("08P01", "a request for encryption is not the only thing said")
            self._held = b""
            if code == _GSS:
                self._asked.add(code)
                return b"N"
            # What is encrypted is not encrypted again.
            self._asked |= {_SSL, _GSS}
            self.tls = _ALPN
            return b"S"
        if code == _CANCEL:
            return self._cancelled(size)
        if code >> 16 != 3 or not 8 < size <= LONGEST_STARTUP:
            raise _refusal("0A000", "this is not a StartupMessage of protocol 3")
        if len(self._held) > size:
            raise _refusal("08P01", "more than the StartupMessage was sent")
        if len(self._held) < size:
            return b""
        return self._started(self._held[8:], code & 0xFFFF)

    def _cancelled(self, size: int) -> bytes:
        if size != 8 + KEY_BYTES or len(self._held) > size:
            raise _refusal("08P01", "the CancelRequest is malformed")
        if len(self._held) == size:
            self.cancels = self._held[8:]
        return b""

    def _started(self, body: bytes, minor: int) -> bytes:
        settings = startup_settings(body)
        known, unknown = {}, []
        for name, value in settings.items():
            if name.startswith("_pq_."):
                unknown.append(name)
            elif name in _REFUSED and value.lower() not in _REFUSED[name]:
                raise _refusal("0A000", f"{name} cannot be chosen through svc")
            else:
                known[name] = value
        role = known.get("user", "")
        if not role:
            raise _refusal("28000", "no user is named; name the database role that you want")
        encoding = known.get("client_encoding", "UTF8").strip("'").lower().replace("-", "")
        if encoding not in ("utf8", "auto", "unicode"):
            raise _refusal("0A000", "svc reads statements in UTF-8 only: set client_encoding=UTF8")
        self.parameters = {DATABASE: known.get("database") or role, ROLE: role}
        if minor <= _NEWEST_MINOR and not unknown:
            return b""
        names = b"".join(name.encode() + b"\0" for name in unknown)
        body = _NEWEST_MINOR.to_bytes(4, "big") + len(unknown).to_bytes(4, "big") + names
        return message(b"v", body)

    def answered(self, data: bytes) -> bytes:
        """See ILocalDialogue."""
        at, told_at, size = 0, -1, len(data)
        while at < size and (self._owes or self._head):
            at = self._piece(data, at)
        while at < size:
            if not self._is_key_told and data[at] == _READY:
                self._is_key_told, told_at = True, at
            if size - at < HEAD:
                at = self._piece(data, at)
            else:
                at += HEAD + max(0, length_at(data, at + 1)[0] - 4)
        self._owes += at - size
        if told_at < 0:
            return data
        return b"".join((data[:told_at], message(b"K", self.key), data[told_at:]))

    def _piece(self, data: bytes, at: int) -> int:
        """What comes of a message in pieces: some of its head, or of its body; where that ends."""
        if self._owes:
            step = min(self._owes, len(data) - at)
            self._owes -= step
            return at + step
        step = min(HEAD - len(self._head), len(data) - at)
        self._head += data[at : at + step]
        if len(self._head) == HEAD:
            self._owes = max(0, int.from_bytes(self._head[1:], "big") - 4)
            self._head = b""
        return at + step

    def refused(self, error: SvcError) -> bytes:
        """See ILocalDialogue."""
        code = error.details.get("sqlstate") or _CODES.get(error.reason, "42501")
        decision = error.details.get("decision_id", "")
        policies = error.details.get("policies", "")
        detail = f"Policy: {policies}." if policies else ""
        hint = _hint(decision, error.details)
        if error.reason == "no_credential" and self.parameters is not None:
            # Who names no role asks for the one of their own user's name, and may not know it.
            detail = f'The role that was asked for is "{self.parameters[ROLE]}".'
            hint = f"Name another role: --role of svc db, -U of psql; {hint}".removesuffix("; ")
        return fatal(code, f"svc: {error.text} (reason: {error.reason})", detail, hint)

    def ended(self, over: SessionOver) -> bytes:
        """See ILocalDialogue."""
        if self._owes or self._head:
            return b""  # amid a message nothing can be said
        hint = why_command(over.decision_id, over.command_options) if over.decision_id else ""
        text = f"svc: the session has ended: {over.text} (reason: {over.reason})"
        return fatal("57P01", text, hint=hint)


def startup_settings(body: bytes) -> dict[str, str]:
    """The settings of a StartupMessage, after its version.

    Raises:
        SvcError: it is not of its form.
    """
    found: dict[str, str] = {}
    at = 0
    try:
        while body[at : at + 1] != b"\0":
            name, at = text_at(body, at)
            value, at = text_at(body, at)
            found[name.decode("utf-8")] = value.decode("utf-8")
    except (Malformed, UnicodeDecodeError):
        raise _refusal("08P01", "the StartupMessage is malformed") from None
    if at != len(body) - 1:
        raise _refusal("08P01", "the StartupMessage is malformed")
    return found


_POSITION = re.compile(r"[1-9][0-9]{0,6}")

_UNREAD: Mapping[str, str] = {
    "syntax": "svc's parser, PostgreSQL's own of version 18, cannot read it",
    "text_too_long": "it is longer than 64 KiB",
    "text_not_read": "it took the process that reads long texts too much time or memory",
    "text_with_nul": "it has a NUL in it",
    "not_utf8": "it is not UTF-8",
    "run_of_operators": "it has 64 operator characters in a row, which draw no line",
    "nested_too_deeply": "it is nested too deeply",
    "too_many_names": "it names more than 256 tables or functions",
    "do_block": "DO runs a text in another language",
    "function_that_runs_a_text": "it calls a function that runs a text",
    "function_call": "the protocol's FunctionCall names its function by a number only",
    "changes_how_texts_are_read": "it changes how the server reads texts",
    "sql_execute": "it executes a statement that executes or prepares another",
    "unknown_statement": "no statement of this name was prepared in this session",
    "unknown_portal": "no portal of this name was bound in this session",
}

_NO = frozenset({"", "false", "off", "no", "0"})
_REFUSED: Mapping[str, frozenset[str]] = {"replication": _NO, "options": _NO, "role": _NO}
"""What a StartupMessage may not ask for, unless with one of these values, which say nothing."""

_CODES: Mapping[str, str] = {
    "no_credential": "28000",
    "target_login_refused": "28000",
    "target_no_database": "3D000",
    "target_busy": "53300",
    "target_unreachable": "08001",
    "target_deadline": "08001",
    "target_refused": "08004",
    "bad_parameter": "22023",
}


def _refusal(code: str, text: str) -> Malformed:
    return Malformed(text, details={"sqlstate": code})


@implementer(ISpeakingEndpoint)
@frozen(kw_only=True)
class PostgresPorts(LabelledPort):
    """The native port, the dialogue with each client, and the one edit of answers."""

    edits: Mapping[str, MakeEdit] = field(factory=lambda: {"denied": denied})
    dialogue: Callable[[], ILocalDialogue] = PostgresDialogue


LOCAL = PostgresPorts(default_port=5432)

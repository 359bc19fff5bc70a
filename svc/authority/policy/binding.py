"""Binds a policy that is set to the replay that somebody read before (rule R17).

Authority does not replay.  It checks that the statement is about this text, the policy
in force, its own vocabulary and its own log, and puts the digest on record: by it anybody
who can read the log finds out whether the statement is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from attrs import frozen

from svc.errors import Fault, Malformed, SvcError
from svc.interfaces.facets import IAuditLog
from svc.model.canonical import Json, decode

FORM = "svc-policy-replay-v1"
MAX_STATEMENT = 16 * 1024


@frozen
class ReplayBinding:
    """A statement of a replay, and what it is about.

    Attributes:
        first: The first record that was read.
        last: The last one; ``last_hash`` is its hash.
    """

    digest: str
    policy_digest: str
    parent_digest: str
    schema_digest: str
    first: int
    last: int
    last_hash: str


def read_binding(statement: bytes) -> ReplayBinding:
    """What a statement says.

    Raises:
        Malformed: it is none.
    """
    form = decode(statement, max_bytes=MAX_STATEMENT)
    if not isinstance(form, Mapping) or form.get("form") != FORM:
        raise Malformed(f"policy replay: the statement is not of the form {FORM}")
    return ReplayBinding(
        digest=sha256(statement).hexdigest(),
        policy_digest=_text(form, "policy_digest"),
        parent_digest=_text(form, "parent_digest"),
        schema_digest=_text(form, "schema_digest"),
        first=_number(form, "first_n"),
        last=_number(form, "last_n"),
        last_hash=_text(form, "last_hash"),
    )


def check_binding(
    bound: ReplayBinding, log: IAuditLog, text: str, active: str, schema_digest: str
) -> None:
    """Return if the statement is of this text, policy, vocabulary and log.

    Called in the transaction that activates the text.

    Raises:
        SvcError: ``replay_outdated``, naming what is another one.
    """
    rows = log.rows(bound.last, 1) if bound.last else ()
    last = rows[0].hash.hex() if rows and rows[0].seq == bound.last else ""
    for is_same, what in (
        (bound.policy_digest == _digest(text), "it is of another text"),
        (bound.parent_digest == _digest(active), "another policy was activated since"),
        (bound.schema_digest == schema_digest, "other kinds were enabled then"),
        (bound.last == 0 or bound.last_hash == last, "the log does not have its last record"),
    ):
        if not is_same:
            raise SvcError(
                f"replay: {what}; run policy replay again, and read what it finds",
                reason="replay_outdated",
                fault=Fault.PRECONDITION,
            )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _text(form: Mapping[str, Json], name: str) -> str:
    found = form.get(name)
    if not isinstance(found, str):
        raise Malformed(f"policy replay: the statement has no {name}")
    return found


def _number(form: Mapping[str, Json], name: str) -> int:
    found = form.get(name)
    if type(found) is not int or found < 0:
        raise Malformed(f"policy replay: the statement has no {name}")
    return found

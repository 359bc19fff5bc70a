"""``svc authority audit``: verify the log, look at its records.

Both read the store directly, so they work with every role stopped and beside
a running Authority; neither trusts what the Authority would say of itself.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svc.cli.authority_store import store_place
from svc.cli.control import authority_settings, authority_state
from svc.cli.forms import WORD
from svc.cli.output import document, hint, say
from svc.errors import AuditBroken, ConfigError, NoSuchRow, SvcError

if TYPE_CHECKING:
    from svc.audit.verify import PersonalOf, Verified
    from svc.config import RoleSettings
    from svc.interfaces.audit import HeadVerifier
    from svc.interfaces.facets import IAuditLog
    from svc.interfaces.store import ITransaction
    from svc.model.canonical import Json
    from svc.model.ledger import ChainRow, PersonalValue

BATCH = 512
"""Records in memory at a time while the log is verified."""

LAST = 10
MOST = 1000


@click.group(no_args_is_help=False)
def audit() -> None:
    """The audit log, read from the store directly."""


@audit.command("verify")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def verify_log(context: click.Context, as_json: bool) -> None:
    """Verify every record against the chain and the signed heads; status 6 if one is not as it was.

    Needs the store, the anchor directory, and the cluster's root as its trust.
    """
    verified = _verified(authority_settings(context))
    if not as_json:
        say([verified.text])
        return
    said = {
        "records": verified.records,
        "head_hash": verified.last_hash.hex(),
        "anchor": verified.key_id or None,
        "anchored": verified.anchored,
    }
    say([document(said)])


@audit.command("show")
@click.argument("decision", metavar="[DECISION_ID]", required=False, type=WORD)
@click.option("--seq", type=click.IntRange(1, 2**63 - 1), help="The record of this number.")
@click.option("--last", type=click.IntRange(1, MOST), help=f"The newest; {LAST} by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def show_records(
    context: click.Context, decision: str | None, seq: int | None, last: int | None, as_json: bool
) -> None:
    """Show the records of a decision, one record, or the newest ones, oldest first."""
    from svc.audit import show

    if sum(each is not None for each in (decision, seq, last)) > 1:
        raise click.UsageError("name one of DECISION_ID, --seq and --last")
    settings = authority_settings(context)

    def look(tx: ITransaction) -> list[dict[str, Json]]:
        rows = _rows(tx.audit, decision, seq, last or LAST)
        names = _names(tx)
        return [show.document(row, tx.audit.personal(row.seq), names) for row in rows]

    found = store_place(settings).look("audit show", look)
    if as_json:
        say(["[" + ",\n ".join(show.as_json(each) for each in found) + "]"])
    elif found:
        say(["\n\n".join(show.as_text(each) for each in found)])
    else:
        hint(["the log is empty"])


def _rows(log: IAuditLog, decision: str | None, seq: int | None, last: int) -> Sequence[ChainRow]:
    if decision is not None:
        rows = log.by_decision(decision)
        if not rows:
            raise NoSuchRow("audit log: no record names this decision")
        return rows
    if seq is None:
        return log.tail(last)
    rows = log.rows(seq, 1)
    if not rows or rows[0].seq != seq:
        raise NoSuchRow(f"audit log: there is no record {seq}")
    return rows


def _names(tx: ITransaction) -> Callable[[str, str], str | None]:
    """What an actor is called today."""

    def name_of(kind: str, id: str) -> str | None:
        if kind == "person":
            person = tx.people.get(id)
            return None if person is None else person.name
        if kind == "node":
            node = tx.nodes.get(id)
            return None if node is None else node.name
        return _local_user(id) if kind == "operator" else None

    return name_of


def _local_user(id: str) -> str | None:
    word, _, number = id.partition(":")
    try:
        return pwd.getpwuid(int(number)).pw_name if word == "local" else None
    except (KeyError, ValueError, OverflowError):
        return None


def _verified(settings: RoleSettings) -> Verified:
    """Verify over one snapshot.  Heads are taken before it, so none can be beyond its end.

    Raises:
        AuditBroken: the log does not verify, or what it is verified with is missing.
    """
    from svc.audit.anchor import AnchorDirectory
    from svc.audit.verify import verify

    state = authority_state(settings)
    place = store_place(settings)
    judge = head_judge(_root(state), settings.cluster)
    keeper = AnchorDirectory(state / "anchor")
    taken = [(keeper.latest(), keeper.heads())]

    def look(tx: ITransaction) -> Verified:
        # The store may run this again; the heads of the first run are used up by then.
        latest, heads = taken.pop() if taken else (keeper.latest(), keeper.heads())
        return verify(
            _batches(tx.audit),
            heads,
            judge,
            latest=latest,
            personal_of=_personal(tx.audit),
            cluster=settings.cluster,
        )

    return place.look("audit verify", look)


def head_judge(root: bytes, cluster: str) -> HeadVerifier:
    """Judges each head's signature as of the head's own time, under *root*.

    Raises:
        CertificateRefused: *root* is not the cluster's.
    """
    from svc.model.signing import Purpose, Signed
    from svc.pki.verify import ChainVerifier

    moments = [0.0]
    verifier = ChainVerifier(cluster, root, lambda: moments[0])

    def judge(signed: Signed, at: float) -> object:
        moments[0] = at
        return verifier.verify_signed(signed, Purpose.AUDIT_HEAD)

    return judge


def _batches(log: IAuditLog) -> Iterator[Sequence[ChainRow]]:
    """The rows in order.  One that cannot be read is named by its number."""
    after = 0
    while True:
        try:
            rows = log.rows(after + 1, BATCH)
        except Exception as failed:
            yield from _singly(log, after + 1)
            raise _unreadable(after + 1, failed) from failed
        if not rows:
            return
        yield rows
        after = rows[-1].seq


def _singly(log: IAuditLog, first: int) -> Iterator[Sequence[ChainRow]]:
    """The rows up to the one that cannot be read."""
    for seq in range(first, first + BATCH):
        try:
            rows = log.rows(seq, 1)
        except Exception as failed:
            raise _unreadable(seq, failed) from failed
        if not rows:
            return
        yield rows


def _personal(log: IAuditLog) -> PersonalOf:
    def personal(seq: int) -> Sequence[PersonalValue]:
        try:
            return log.personal(seq)
        except Exception as failed:
            raise _unreadable(seq, failed) from failed

    return personal


def _unreadable(seq: int, failed: Exception) -> AuditBroken:
    """Whatever a damaged store answers is a fault of the log."""
    return AuditBroken(f"audit log: record {seq}: unreadable: {type(failed).__name__}")


def _root(state: Path) -> bytes:
    """DER of the cluster's root, from the identity or the key directory.

    Raises:
        AuditBroken: neither holds one.
        ConfigError: it is there, but cannot be trusted.
    """
    from svc.pki.files import load_certificates
    from svc.pki.identity_store import IdentityStore
    from svc.pki.issue import der

    pinned, kept = state / "trust" / "root.pem", state / "keys" / "root.pem"
    uid = _owner(state)
    if os.path.lexists(pinned):
        return IdentityStore(state, uid=uid).load_root()
    if os.path.lexists(kept):
        roots = load_certificates(kept, uid)
        if len(roots) != 1:
            raise ConfigError(str(kept), "holds more than one certificate")
        return der(roots[0])
    raise AuditBroken(
        f"audit log: the cluster's root is missing: neither {pinned} nor {kept} is there; "
        "without it nothing is proved",
        reason="audit_root_missing",
    )


def _owner(state: Path) -> int:
    """Who must own what is read there: we ourselves; for root, whoever the state belongs to."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return os.stat(state).st_uid
    except OSError as failed:
        raise SvcError(f"{state}: {failed.strerror}", reason="no_state_dir") from None

"""``svc authority keys sync root`` and ``svc authority ca rotation``.

The first is how the Authorities agree on the root that key material is distributed under; the
second keeps keys as they are for a while, as during an upgrade.
"""

from __future__ import annotations

import re
from typing import Any

import click

from svc.cli.control import admin
from svc.cli.groups import Group
from svc.cli.output import hint, json_option, moment, pairs, print_result, table, with_nulls
from svc.model.short_ids import LEAST_KEY_DIGITS
from svc.proto.gate.v1 import root_pb2 as pb

_NOT_REVOKED = (
    "a withdrawal revokes nothing: the withdrawn Authority still has the keys in its keys/ (CAs, "
    "audit and control keys), its certificate, and its account at the database; renew those keys, "
    "revoke the node and change that password as well"
)
_READMITTED = (
    "{one.owner} is let back by the receiver key {key} of the node {one.node_id}; on its host, "
    "svc --config FILE authority keys sync root status must show the same as its own receiver key: "
    "else withdraw it again"
)
_DIGEST = re.compile(rf"[0-9a-f]{{{LEAST_KEY_DIGITS},64}}")
_NEXT = "no keys are distributed under a root that {} has; prepare and activate another one"


@click.group(cls=Group)
def sync() -> None:
    """Agree on how key material is distributed."""


@sync.group(cls=Group)
def root() -> None:
    """Show and change the root that key material is distributed under."""


@root.command("status")
@json_option
@click.pass_context
def root_status(context: click.Context, as_json: bool) -> None:
    """Show the distribution root's epoch, the material revision, and what is prepared.

    It is answered by every Authority, on the host of each.  REVISION is that of the keys which
    an Authority said that it has loaded, 0 where they are of none that the leader ever had.  KEY is
    how the SHA-256 of the registered receiver key begins, SINCE when the owner came into its STATE
    or registered that key; `own receiver key` is that of the receiver.key on this host.
    """
    _show(context, "RootStatus", pb.RootStatusRequest(), as_json)


@root.command("prepare")
@json_option
@click.pass_context
def prepare(context: click.Context, as_json: bool) -> None:
    """Prepare the next distribution root, and seal it to every Authority that is not withdrawn.

    Refused while rotation is paused, while an Authority has no receiver credential or other keys
    than the leader, and with fewer than two owners.  Nothing changes until it is activated.
    """
    answer = _show(context, "PrepareRoot", pb.PrepareRootRequest(), as_json)
    waiting = ", ".join(answer.prepared.waiting)
    hint([f"on the hosts of {waiting}: svc --config FILE authority keys sync root ack"])


@root.command("ack")
@json_option
@click.pass_context
def ack(context: click.Context, as_json: bool) -> None:
    """Acknowledge the prepared distribution root for the Authority of this host.

    The Authority keeps the root on its disk and signs that it has it; the leader stores the
    signature before this command ends.
    """
    _show(context, "AckRoot", pb.AckRootRequest(), as_json)


@root.command("activate")
@json_option
@click.pass_context
def activate(context: click.Context, as_json: bool) -> None:
    """Put the prepared distribution root in force, once every owner has acknowledged it."""
    _show(context, "ActivateRoot", pb.ActivateRootRequest(), as_json)


@root.command("cancel")
@json_option
@click.pass_context
def cancel(context: click.Context, as_json: bool) -> None:
    """Give the prepared distribution root up; each of its owners may, on its own host."""
    _show(context, "CancelRoot", pb.CancelRootRequest(), as_json)


@root.command("withdraw")
@click.argument("owner")
@json_option
@click.pass_context
def withdraw(context: click.Context, owner: str, as_json: bool) -> None:
    """Seal no further distribution root to OWNER, an Authority; at least two others must remain."""
    answer = _show(context, "WithdrawOwner", pb.WithdrawOwnerRequest(owner=owner), as_json)
    has_root = any(one.owner == owner and one.has_root for one in answer.owners)
    hint([_NOT_REVOKED, *([_NEXT.format(owner)] if has_root else [])])


@root.command("readmit")
@click.argument("owner")
@click.option(
    "--key",
    "key",
    default="",
    metavar="DIGEST",
    help="Readmit it only by this receiver key: `own receiver key` as `keys sync root status` "
    f"shows it on the host of that Authority, at least {LEAST_KEY_DIGITS} digits.",
)
@json_option
@click.pass_context
def readmit(context: click.Context, owner: str, key: str, as_json: bool) -> None:
    """Seal the next distribution roots to OWNER again, by the credential that it has now.

    An Authority that was withdrawn stays so, also with a new receiver.key or another name, until
    this is said.  Without --key it is whatever credential was registered last; compare it with
    that of the Authority's host.  Another one needs withdraw and readmit again.
    """
    if key and not _DIGEST.fullmatch(key.lower()):
        raise click.UsageError(
            f"--key: must be {LEAST_KEY_DIGITS} to 64 hex digits of the receiver key's digest"
        )
    request = pb.ReadmitOwnerRequest(owner=owner, key_digest=key.lower())
    answer = _show(context, "ReadmitOwner", request, as_json)
    back = (one for one in answer.owners if one.owner == owner)
    hint([_READMITTED.format(one=one, key=_short(one)) for one in back])


def _show(context: click.Context, method: str, request: Any, as_json: bool) -> Any:
    answer = admin(context)(method, request, pb.RootStatusResponse)
    prepared = answer.prepared if answer.HasField("prepared") else None
    result = {
        "root_owner": answer.owner,
        "receiver_key_digest": answer.key_digest,
        "root_epoch": answer.epoch,
        "material_revision": answer.material_revision,
        "prepared_root": None if prepared is None else _prepared(prepared),
        "distributed_revision": answer.distributed_revision,
        "automatic_distribution": answer.automatic_distribution,
        "rotation_paused": answer.paused,
        "root_owners": [_owner(one) for one in answer.owners],
    }
    facts = [
        ("this Authority", answer.owner),
        ("own receiver key", _short(answer)),
        ("root epoch", answer.epoch),
        ("material revision", answer.material_revision),
        ("preparation", "none" if prepared is None else _told(prepared)),
        ("distributed revision", answer.distributed_revision or "none"),
        ("automatic distribution", "on" if answer.automatic_distribution else "off"),
        ("rotation", "paused" if answer.paused else "not paused"),
    ]
    rows = [
        (
            one.owner,
            one.state,
            "yes" if one.has_root else "no",
            one.revision,
            _short(one) or "none",
            moment(one.since),
            one.node_id,
        )
        for one in answer.owners
    ]
    heads = ("OWNER", "STATE", "HAS ROOT", "REVISION", "KEY", "SINCE", "NODE")
    lines = [*pairs(facts), "", *table(heads, rows)]
    print_result(as_json, with_nulls(result), lines)
    return answer


def _short(said: pb.RootStatusResponse | pb.RootOwnerRow) -> str:
    return said.key_digest[:LEAST_KEY_DIGITS]


def _prepared(prepared: pb.PreparedRoot) -> dict[str, object]:
    return {
        "root_epoch": prepared.epoch,
        "material_revision": prepared.material_revision,
        "prepared_at": moment(prepared.prepared_at),
        "acknowledged": list(prepared.acknowledged),
        "waiting": list(prepared.waiting),
    }


def _told(prepared: pb.PreparedRoot) -> str:
    waiting = ", ".join(prepared.waiting)
    ends = f"waiting for {waiting}" if waiting else "acknowledged by all; activate it"
    return f"epoch {prepared.epoch} at material revision {prepared.material_revision}, {ends}"


def _owner(one: pb.RootOwnerRow) -> dict[str, object]:
    return {
        "root_owner": one.owner,
        "authority_id": one.node_id,
        "receiver_key_digest": one.key_digest,
        "owner_state": one.state,
        "owner_changed_at": moment(one.since),
        "material_revision": one.revision,
        "has_root": one.has_root,
    }


@click.group(cls=Group)
def rotation() -> None:
    """Pause and resume the rotation of keys and CAs."""


@rotation.command("status")
@json_option
@click.pass_context
def rotation_status(context: click.Context, as_json: bool) -> None:
    """Show whether rotation is paused, since when and by whom."""
    _show_rotation(context, "RotationStatus", pb.RotationStatusRequest(), as_json)


@rotation.command("pause")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the audit record.")
@json_option
@click.pass_context
def pause(context: click.Context, reason: str, as_json: bool) -> None:
    """Pause rotation: no key, CA or distribution root is replaced until it is resumed.

    `svc authority keys renew` and `keys sync root prepare` are then refused, running Authorities
    load no newer key, and none is distributed.  Keys expire all the same.
    """
    request = pb.PauseRotationRequest(reason=reason)
    _show_rotation(context, "PauseRotation", request, as_json)


@rotation.command("resume")
@json_option
@click.pass_context
def resume(context: click.Context, as_json: bool) -> None:
    """Resume rotation: running Authorities load what lies in keys/ at their next reload pass."""
    _show_rotation(context, "ResumeRotation", pb.ResumeRotationRequest(), as_json)


def _show_rotation(context: click.Context, method: str, request: Any, as_json: bool) -> None:
    answer = admin(context)(method, request, pb.RotationStatusResponse)
    result = {
        "rotation_paused": answer.paused,
        "rotation_changed_at": moment(answer.since),
        "rotation_changed_by": answer.by,
        "rotation_reason": answer.reason,
    }
    text = "paused" if answer.paused else "not paused"
    facts = [("rotation", text)]
    if answer.since:
        facts += [("since", moment(answer.since)), ("by", answer.by), ("reason", answer.reason)]
    print_result(as_json, with_nulls(result), pairs(facts))

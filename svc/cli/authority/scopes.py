"""``svc authority scopes``: which of what Connectors discover enters the catalog."""

from __future__ import annotations

from collections.abc import Iterable

import click

from svc.cli.control import admin
from svc.cli.forms import WORD, labels_of
from svc.cli.groups import Group
from svc.cli.output import json_option, labels, moment, print_list, print_result
from svc.model.cluster.onward import OnwardAuth
from svc.proto.gate.v1 import admin_pb2 as pb

_MODES = ", ".join(one.value for one in OnwardAuth)


@click.group(cls=Group)
def scopes() -> None:
    """Set which of the resources that Connectors discover enter the catalog."""


@scopes.command("set")
@click.argument("name", type=WORD)
@click.option(
    "--kinds", required=True, type=WORD, metavar="K,K", help="Resource kinds, such as ssh,tcp."
)
@click.option(
    "--onward-auth",
    "modes",
    type=WORD,
    metavar="M,M",
    help=f"How targets may be signed on to ({_MODES}); required if ssh is among the kinds.",
)
@click.option(
    "--connector",
    "connectors",
    multiple=True,
    type=WORD,
    metavar="NODE",
    help="Only what this Connector discovers, by name or id; may be repeated.  One of those named "
    "may serve what another one found before.",
)
@click.option(
    "--id-prefix", type=WORD, metavar="TEXT", help="Only resources whose id begins with TEXT."
)
@click.option(
    "--match-label",
    "matched",
    multiple=True,
    type=WORD,
    metavar="K=V",
    help="Only resources to which their Connector gives this label; may be repeated.",
)
@click.option(
    "--label",
    "given",
    multiple=True,
    type=WORD,
    metavar="K=V",
    help="A label that each resource of the scope gets; may be repeated.",
)
@json_option
@click.pass_context
def set_scope(
    context: click.Context,
    name: str,
    kinds: str,
    modes: str | None,
    connectors: tuple[str, ...],
    id_prefix: str | None,
    matched: tuple[str, ...],
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    r"""Set the scope NAME, replacing the one of that name.

    Resources that it admits enter the catalog at once, and are decided by the policy like any
    other.  What it no longer admits departs, and its sessions end.

    Example:
        svc --config authority.toml authority scopes set rack --kinds tcp,ssh \
            --onward-auth passthrough --connector c1 --id-prefix rack- --label zone=rack
    """
    scope = pb.Scope(
        name=name,
        kinds=_words(kinds),
        onward_auth=_words(modes or ""),
        connectors=connectors,
        id_prefix=id_prefix or "",
        match_labels=labels_of(matched),
        labels=labels_of(given),
    )
    answer = admin(context)("SetScope", pb.SetScopeRequest(scope=scope), pb.SetScopeResponse)
    result = {"name": name, "changed": answer.changed, "revision": answer.revision}
    text = f"set {name}, revision {answer.revision}"
    print_result(as_json, result, [text if answer.changed else f"{name} is set so already"])


@scopes.command("list")
@json_option
@click.pass_context
def list_scopes(context: click.Context, as_json: bool) -> None:
    """List all scopes, with the number of resources that each admits now."""
    answer = admin(context)("ListScopes", pb.ListScopesRequest(), pb.ListScopesResponse)
    rows = [
        [
            one.name,
            ",".join(one.kinds),
            ",".join(one.onward_auth) or "-",
            _limits(one),
            labels(one.labels),
            one.origin,
            one.resources,
        ]
        for one in answer.scopes
    ]
    columns = ["NAME", "KINDS", "ONWARD AUTH", "ONLY", "LABELS", "SET BY", "RESOURCES"]
    print_list(as_json, [_form(one) for one in answer.scopes], columns, rows)


@scopes.command("show")
@click.argument("name", type=WORD)
@json_option
@click.pass_context
def show_scope(context: click.Context, name: str, as_json: bool) -> None:
    """List what Connectors discovered in the scope NAME, and why some of it is not served."""
    answer = admin(context)("ShowScope", pb.ShowScopeRequest(name=name), pb.ShowScopeResponse)
    rows = [
        [
            one.id,
            one.kind,
            one.node_name or one.node_id,
            one.source,
            moment(int(one.expires_at)),
            one.refused or "-",
        ]
        for one in answer.resources
    ]
    if as_json:
        found = [
            {
                "id": one.id,
                "kind": one.kind,
                "node_id": one.node_id,
                "node_name": one.node_name or None,
                "discovery_source": one.source,
                "expires_at": moment(int(one.expires_at)) or None,
                "refusal": one.refused or None,
            }
            for one in answer.resources
        ]
        print_result(True, {**_form(answer.scope), "discovered": found}, [])
        return
    columns = ["ID", "KIND", "NODE", "SOURCE", "LEASE UNTIL", "NOT SERVED"]
    print_list(False, [], columns, rows)


@scopes.command("remove")
@click.argument("name", type=WORD)
@json_option
@click.pass_context
def remove_scope(context: click.Context, name: str, as_json: bool) -> None:
    """Remove the scope NAME; what no other scope admits departs, and its sessions end."""
    answer = admin(context)("RemoveScope", pb.RemoveScopeRequest(name=name), pb.RemoveScopeResponse)
    result = {"name": name, "departed": answer.departed}
    print_result(as_json, result, [f"removed {name}; {answer.departed} resource(s) departed"])


def _words(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _limits(one: pb.Scope) -> str:
    limits = [f"connector {','.join(one.connectors)}"] if one.connectors else []
    limits += [f"id {one.id_prefix}*"] if one.id_prefix else []
    limits += [labels(one.match_labels)] if one.match_labels else []
    return "; ".join(limits) or "-"


def _form(one: pb.Scope) -> dict[str, object]:
    return {
        "name": one.name,
        "kinds": _listed(one.kinds),
        "onward_modes": _listed(one.onward_auth),
        "only_connectors": _listed(one.connectors),
        "id_prefix": one.id_prefix or None,
        "match_labels": dict(sorted(one.match_labels.items())),
        "labels": dict(sorted(one.labels.items())),
        "managed_by": one.origin,
        "revision": one.revision,
        "set_at": moment(int(one.set_at)) or None,
        "set_by": one.set_by,
        "resources": one.resources,
    }


def _listed(words: Iterable[str]) -> list[str]:
    return list(words)

"""``svc authority policy``: the Cedar text in force, and those before it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from svc.cli.authority.policy_text import given_text
from svc.cli.control import admin
from svc.cli.forms import WORD
from svc.cli.groups import Group
from svc.cli.output import (
    document,
    hint,
    json_option,
    moment,
    print_lines,
    print_list,
    print_result,
)
from svc.errors import SvcError
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped

WOULD_DENY = 2
"""The exit status of a check whose request would not be allowed."""

_WOULD = {"allow": "allow it", "deny": "deny it"}


@click.group(cls=Group)
def policy() -> None:
    """Check, replay, set and review the access policy."""


@policy.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--require-replay",
    "replay",
    type=WORD,
    metavar="REPLAY",
    help="Only if this replay of FILE, as `policy replay` names it, still holds.",
)
@click.option(
    "--break-glass",
    is_flag=True,
    help="Set it without approvals; only for those named in policy.break_glass.",
)
@json_option
@click.pass_context
def set_policy(
    context: click.Context, file: Path, replay: str | None, break_glass: bool, as_json: bool
) -> None:
    """Check the policy in FILE ("-": stdin) and activate it.

    With --require-replay, the replay is run again first.  The policy is refused if the text, the
    active policy or the log is not the one that was replayed, or if requests that were recorded
    since would be decided in a way that the replay did not show.

    Example:
        svc --config authority.toml authority policy set new.cedar
    """
    text = given_text(file)
    statement = b""
    if replay is not None:
        from svc.cli.authority.replay import confirmed_statement

        statement = confirmed_statement(context, text, replay)
    request = pb.SetPolicyRequest(text=text, replay=statement, break_glass=break_glass)
    answer = admin(context)("SetPolicy", request, pb.SetPolicyResponse)
    version = f"policy version {answer.version}"
    done = (
        f"{version} with this text is already in force; nothing changed"
        if answer.unchanged
        else f"{version} is in force, sha256 {answer.sha256}"
    )
    result = {
        "policy_version": answer.version,
        "sha256": answer.sha256,
        "changed": not answer.unchanged,
    }
    print_result(as_json, result, [done])


@policy.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--as",
    "person",
    type=WORD,
    metavar="PERSON",
    help="Who asks: a person's name or id, or local:UID for an operator.",
)
@click.option("--action", type=WORD, metavar="A", help="The action, such as sshConnect.")
@click.option(
    "--resource",
    type=WORD,
    metavar="ID",
    help="The resource; leave it out for an action on the cluster.",
)
@click.option(
    "--fact",
    "facts",
    multiple=True,
    type=WORD,
    metavar="NAME=VALUE",
    help="A fact of the request, such as read_only=true or effects=read,write; may be repeated.",
)
@json_option
@click.pass_context
def check_policy(
    context: click.Context,
    file: Path | None,
    person: str | None,
    action: str | None,
    resource: str | None,
    facts: tuple[str, ...],
    as_json: bool,
) -> int:
    r"""Check the policy in FILE ("-": stdin) without activating it; nothing changes.

    With --as and --action, also say what it would decide, by which policies, and which facts
    that they read were missing; without FILE, what the active policy decides.  Facts of time
    (now, hour, weekday) are those of the moment, unless they are given.

    Exits with status 0 if the policy is valid or the request would be allowed, 2 if it would be
    denied, and 1 if the policy is refused.

    Example:
        svc --config authority.toml authority policy check new.cedar
        svc --config authority.toml authority policy check new.cedar --as ada \
            --action dbQuery --resource orders --fact effects=read
    """
    asks = person is not None and action is not None
    if (person is None) != (action is None) or (not asks and (resource or facts)):
        raise click.UsageError("--as and --action: a request needs both of them")
    if file is None and not asks:
        raise click.UsageError("give FILE, or a request (--as and --action), or both")
    request = pb.CheckPolicyRequest(
        candidate=file is not None, text="" if file is None else given_text(file)
    )
    if asks:
        request.request.CopyFrom(
            pb.CheckedRequest(
                person=person,
                action=action,
                resource=resource or "",
                facts=[pb.CheckedFact(name=name, value=value) for name, value in _facts(facts)],
            )
        )
    try:
        answer = admin(context)("CheckPolicy", request, pb.CheckPolicyResponse)
    except SvcError as refusal:
        if as_json and refusal.reason.startswith("policy_"):
            found = {"valid": False, "reason": refusal.reason, "text": refusal.text}
            print_lines([document(found)])
        raise
    result, lines = checked(answer, is_candidate=file is not None)
    print_result(as_json, result, lines)
    return WOULD_DENY if asks and answer.decision.decision != "allow" else 0


@policy.command("show")
@click.argument("version", required=False, type=click.IntRange(1, 2**63 - 1))
@json_option
@click.pass_context
def show_policy(context: click.Context, version: int | None, as_json: bool) -> None:
    """Print the policy text of VERSION (default: the active one), byte for byte."""
    request = pb.ShowPolicyRequest(version=version or 0)
    answer = admin(context)("ShowPolicy", request, pb.ShowPolicyResponse)
    if as_json:
        print_lines([document({**_version(answer), "text": answer.text})])
        return
    when, author = moment(answer.created_at), escaped(answer.author)
    if answer.author_name:
        author = f"{escaped(answer.author_name)} ({author})"
    hint([f"// version {answer.version} of {when} by {author}, sha256 {answer.sha256}"])
    if sys.stdout.isatty():
        print_lines(escaped(line) for line in answer.text.splitlines())
    else:
        # As bytes: of a text click would drop what looks like a terminal's escape.
        click.echo(answer.text.encode("utf-8"), nl=False)


@policy.command("history")
@json_option
@click.pass_context
def policy_history(context: click.Context, as_json: bool) -> None:
    """List all policy versions, newest first."""
    answer = admin(context)("PolicyHistory", pb.PolicyHistoryRequest(), pb.PolicyHistoryResponse)
    rows = [
        [one.version, moment(one.created_at), one.author, one.author_name, one.sha256]
        for one in answer.versions
    ]
    result = [_version(one) for one in answer.versions]
    print_list(as_json, result, ["VERSION", "CREATED", "AUTHOR", "AUTHOR NAME", "SHA256"], rows)


def checked(
    answer: pb.CheckPolicyResponse, *, is_candidate: bool
) -> tuple[dict[str, object], list[str]]:
    """What a check found, for programs and for people."""
    named = f"policy version {answer.version}" if answer.version else "the policy"
    result: dict[str, object] = {
        "valid": True,
        "policy_version": answer.version or None,
        "sha256": answer.sha256,
    }
    lines = [f"{named} is valid, sha256 {answer.sha256}"] if is_candidate else []
    if not answer.HasField("decision"):
        return result, lines
    found = answer.decision
    result |= {
        "decision": found.decision,
        "policies": [one.id for one in found.policies],
        "why": {one.id: one.reason for one in found.policies if one.reason},
        "considered": list(found.considered),
        "missing_facts": list(found.missing_facts),
        "assumed": [f"{one.name}={one.value}" for one in found.assumed],
        "errors": list(found.errors),
    }
    lines.append(f"{named} would {_WOULD.get(found.decision, 'deny, because it fails')}")
    for one in found.policies:
        lines.append(f"  by {one.id}" + (f": {escaped(one.reason)}" if one.reason else ""))
    if not found.policies:
        lines.append("  by default: no policy permits it")
    others = sorted(set(found.considered) - {one.id for one in found.policies})
    lines += _list("policies whose scope fits, but not their conditions", others)
    lines += _list("facts that policies read and the request does not have", found.missing_facts)
    lines += _list("errors", found.errors)
    lines += _list("assumed", [f"{one.name}={one.value}" for one in found.assumed])
    return result, lines


def _list(what: str, words: Iterable[str]) -> list[str]:
    told = ", ".join(map(escaped, words))
    return [f"  {what}: {told}"] if told else []


def _facts(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise click.UsageError(f"--fact {text!r}: must be of the form NAME=VALUE")
        yield name, value


def _version(one: pb.ShowPolicyResponse) -> dict[str, object]:
    return {
        "policy_version": one.version,
        "created_at": moment(one.created_at) or None,
        "author": one.author or None,
        "author_name": one.author_name or None,
        "sha256": one.sha256,
    }

"""``svc authority policy``: the Cedar text in force, and those before it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from svc.cli.control import admin
from svc.cli.groups import Group
from svc.cli.output import document, hint, json_option, moment, print_lines, print_result, table
from svc.errors import Malformed
from svc.proto.gate.v1 import admin_pb2 as pb
from svc.telemetry.escape import escaped


@click.group(cls=Group)
def policy() -> None:
    """The policy."""


@policy.command("set")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@json_option
@click.pass_context
def set_policy(context: click.Context, file: Path, as_json: bool) -> None:
    """Check the policy in FILE ("-": stdin) and activate it."""
    text = _text(file)
    answer = admin(context)("SetPolicy", pb.SetPolicyRequest(text=text), pb.SetPolicyResponse)
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
        [one.version, moment(one.created_at), one.author, one.sha256] for one in answer.versions
    ]
    result = [_version(one) for one in answer.versions]
    print_result(as_json, result, table(["VERSION", "CREATED", "AUTHOR", "SHA256"], rows))


def _text(file: Path) -> str:
    """What is in *file* or, for ``-``, comes on stdin; never more than a policy may be."""
    from svc.policy.prescan import PolicyLimits
    from svc.policy.refusals import TOO_LARGE, refused
    from svc.runtime.given_file import read_given

    most = PolicyLimits().bytes
    try:
        data = sys.stdin.buffer.read(most + 1) if str(file) == "-" else read_given(file, most)
    except OSError as failed:
        raise click.UsageError(f"{file}: {failed.strerror}") from None
    if len(data) > most:
        raise refused(TOO_LARGE, f"policy: longer than {most} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Malformed(f"policy: line {line}: is not UTF-8") from None


def _version(one: pb.ShowPolicyResponse) -> dict[str, object]:
    return {
        "policy_version": one.version,
        "created_at": moment(one.created_at) or None,
        "author": one.author or None,
        "sha256": one.sha256,
    }

"""``svc authority identities``: which account at the identity provider is whom here."""

from __future__ import annotations

import click

from svc.cli.control import admin
from svc.cli.forms import WORD, reason_option
from svc.cli.groups import Group
from svc.cli.output import json_option, print_list, print_result
from svc.proto.gate.v1 import sign_in_pb2 as pb


@click.group(cls=Group)
def identities() -> None:
    """Link people to their accounts at the identity provider."""


@identities.command("add")
@click.argument("person", type=WORD)
@click.option(
    "--subject",
    required=True,
    metavar="SUB",
    help="The account's subject (`sub`); a sign-in that is refused as unknown shows it.",
)
@click.option("--issuer", metavar="URL", help="The provider; oidc.issuer by default.")
@json_option
@click.pass_context
def add_identity(
    context: click.Context, person: str, subject: str, issuer: str | None, as_json: bool
) -> None:
    """Let an account at the identity provider sign in as PERSON.

    Example:
        svc --config authority.toml authority identities add ada --subject 00u1k2l3m4
    """
    request = pb.LinkIdentityRequest(person=person, issuer=issuer or "", subject=subject)
    answer = admin(context)("LinkIdentity", request, pb.LinkIdentityResponse)
    print_result(as_json, {"id": answer.id}, [f"the account now signs in as {person}"])


@identities.command("remove")
@click.argument("id", type=WORD)
@reason_option
@json_option
@click.pass_context
def remove_identity(context: click.Context, id: str, reason: str | None, as_json: bool) -> None:
    """Stop an account from signing in; the certificates it got by signing in are revoked.

    ID is as `identities list` shows it.
    """
    request = pb.RemoveIdentityRequest(id=id, note=reason or "")
    answer = admin(context)("RemoveIdentity", request, pb.RemoveIdentityResponse)
    result = {
        "id": id,
        "person_id": answer.person_id,
        "sign_ins_ended": answer.sign_ins,
        "certificates_revoked": answer.certificates,
    }
    text = (
        f"removed; {answer.sign_ins} sign-in(s) ended, {answer.certificates} certificate(s) revoked"
    )
    print_result(as_json, result, [text])


@identities.command("list")
@json_option
@click.pass_context
def list_identities(context: click.Context, as_json: bool) -> None:
    """List the provider's accounts that can sign in, and the person that each signs in as."""
    answer = admin(context)("ListIdentities", pb.ListIdentitiesRequest(), pb.ListIdentitiesResponse)
    rows = [[row.person, row.subject, row.issuer, row.id] for row in answer.identities]
    result = [
        {"id": row.id, "name": row.person, "issuer": row.issuer, "subject": row.subject}
        for row in answer.identities
    ]
    print_list(as_json, result, ["PERSON", "SUBJECT", "ISSUER", "ID"], rows)

"""Which account at the provider is whom here, as operators say and list it."""

from __future__ import annotations

from attrs import define

from svc.authority.registry.rights import RightsCheck
from svc.authority.registry.unlink import ROWS, unlink_account
from svc.authority.registry.words import optional_note
from svc.authority.signin.certificates import revoke_certificates
from svc.authority.state.recorder import StateRecords
from svc.authority.state.tables import IDENTITIES
from svc.authority.state.writer import StateWriter
from svc.errors import AlreadyExists, Fault, Malformed, SvcError
from svc.interfaces.store import ITransaction
from svc.model.audit.events import IDENTITY_LINK, SIGN_IN_END
from svc.model.audit.record import Actor
from svc.model.cluster.person import Person
from svc.model.cluster.sign_in import IdentityLink
from svc.model.ids import Entropy, random_id
from svc.proto.gate.v1 import sign_in_pb2 as pb

_MAX = 255
SALT_BYTES = 16


def link_account(
    tx: ITransaction,
    records: StateRecords,
    entropy: Entropy,
    *,
    known: Person,
    issuer: str,
    subject: str,
    actor: Actor,
) -> IdentityLink:
    """Make an account somebody's, with its record.

    Raises:
        AlreadyExists: it is somebody's.
    """
    link = IdentityLink(
        id=random_id(entropy),
        issuer=issuer,
        subject=subject,
        person_id=known.id,
        salt=entropy(SALT_BYTES),
    )
    tx.sign_ins.link(link)
    details = {
        "person_id": known.id,
        "identity_id": link.id,
        "issuer": issuer,
        "subject_at_issuer": subject,
    }
    state = [IDENTITIES.now(tx, link.id)]
    records.append(tx, IDENTITY_LINK, actor, details=details, state=state)
    return link


@define
class IdentityLinks:
    """Links accounts to people, and lists them.

    Attributes:
        issuer: The configured provider; None: nobody signs in here.
    """

    writer: StateWriter
    issuer: str | None
    rights: RightsCheck

    async def link(self, request: pb.LinkIdentityRequest, actor: Actor) -> pb.LinkIdentityResponse:
        """Make an account a person's.

        Raises:
            SvcError: there is no such person, or the account is somebody's.
        """
        issuer = request.issuer or self.issuer or ""
        for what, text in (("issuer", issuer), ("subject", request.subject)):
            if not 0 < len(text) <= _MAX or not text.isascii() or not text.isprintable():
                raise Malformed(f"{what}: must be 1 to {_MAX} printable ASCII characters")

        def link(tx: ITransaction) -> str:
            known = self.writer.rows(tx).person_named(request.person)
            if known is None:
                raise SvcError(
                    f"person {request.person}: does not exist; see `svc authority persons list`",
                    reason="unknown_person",
                    fault=Fault.NOT_FOUND,
                )
            self.rights.require(tx, actor, [known])
            try:
                made = link_account(
                    tx,
                    self.writer,
                    self.writer.entropy,
                    known=known,
                    issuer=issuer,
                    subject=request.subject,
                    actor=actor,
                )
            except AlreadyExists:
                raise SvcError(
                    "the account is linked already; see `svc authority identities list`",
                    reason="already_exists",
                    fault=Fault.EXISTS,
                ) from None
            return made.id

        made = await self.writer.change_beside_policy("link an account", link)
        return pb.LinkIdentityResponse(id=made)

    async def unlink(
        self, request: pb.RemoveIdentityRequest, actor: Actor
    ) -> pb.RemoveIdentityResponse:
        """Let an account sign in no more; what it signed in with is revoked.

        Raises:
            SvcError: there is no such link, or a row is not what was signed for.
        """
        note = optional_note(request.note)

        def unlink(tx: ITransaction) -> pb.RemoveIdentityResponse:
            rows, now = self.writer.rows(tx), self.writer.now()
            link = rows.identity(request.id)
            if link is None:
                raise SvcError(
                    f"identity {request.id}: does not exist; see `svc authority identities list`",
                    reason="unknown_identity",
                    fault=Fault.NOT_FOUND,
                )
            answer = pb.RemoveIdentityResponse(person_id=link.person_id)
            for one in unlink_account(tx, self.writer, link, actor, note):
                revoked = revoke_certificates(tx, self.writer, one, now)
                answer.certificates += len(revoked)
                answer.sign_ins += one.ended_at is None and one.ends_at > now
                details = {"person_id": link.person_id, "sign_in_id": one.id}
                for start in range(0, len(revoked), ROWS):
                    some = revoked[start : start + ROWS]
                    self.writer.append(tx, SIGN_IN_END, actor, details=details, state=some)
            return answer

        return await self.writer.change("unlink an account", unlink)

    async def list_links(
        self, request: pb.ListIdentitiesRequest, actor: Actor
    ) -> pb.ListIdentitiesResponse:
        """Every account that is somebody's here."""

        def look(tx: ITransaction) -> list[pb.IdentityRow]:
            names = {one.id: one.name for one in tx.people.all()}
            return [
                pb.IdentityRow(
                    id=one.id,
                    person=names.get(one.person_id, one.person_id),
                    issuer=one.issuer,
                    subject=one.subject,
                )
                for one in tx.sign_ins.identities()
            ]

        rows: list[pb.IdentityRow] = await self.writer.read("list identities", look)
        rows.sort(key=lambda row: row.person)
        return pb.ListIdentitiesResponse(identities=rows)

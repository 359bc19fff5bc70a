"""What a person proves themselves by, taken away at once: after a lost laptop, or a leaked token.

The person stays: with a new token, or a new sign-in, there are new certificates.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from attrs import define, evolve

from svc.authority.registry.tokens import TokenAdmin
from svc.authority.registry.words import known_person, optional_note
from svc.authority.state.tables import CERTIFICATES, SIGN_INS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import CERTIFICATE_REVOKE, SIGN_IN_END
from svc.model.audit.record import Actor
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.session.ending import REVOKED_CERTIFICATE
from svc.proto.gate.v1 import admin_pb2 as pb


@define
class CredentialAdmin:
    """Revokes a person's certificates, ends their sign-ins, withdraws their tokens.

    Attributes:
        asked: The open sessions that are to end, with the reason.
        publish: Tells the Proxies of these.
    """

    tokens: TokenAdmin
    asked: MutableMapping[str, str]
    publish: Callable[[], object]

    async def revoke(
        self, request: pb.ChangePersonRequest, actor: Actor
    ) -> pb.RevokeCredentialsResponse:
        """Make everything that a person has for proof of no use; their open sessions end."""
        note = optional_note(request.note)

        def write(tx: ITransaction) -> tuple[list[str], pb.RevokeCredentialsResponse]:
            known = known_person(self.tokens.recorder.rows(tx), request.person)
            answer = pb.RevokeCredentialsResponse(id=known.id, name=known.known_name)
            for one in self._good(tx, known):
                self._revoke(tx, one, actor, note)
                answer.serials.append(one.serial)
            answer.sign_ins = end_sign_ins(tx, self.tokens, known, actor)
            for token in self.tokens.waiting_for(tx, known.id):
                self.tokens.withdraw(tx, token.token, actor, note)
                answer.tokens += 1
            uids = [one.uid for one in tx.sessions.open_of_person(known.id)]
            for uid in uids:
                tx.sessions.ask_end(uid, REVOKED_CERTIFICATE)
            answer.open_sessions = len(uids)
            return uids, answer

        uids, answer = await self.tokens.store.run("revoke a person's credentials", write)
        await self.tokens.state_cache.refresh()
        self.asked.update(dict.fromkeys(uids, REVOKED_CERTIFICATE))
        self.publish()
        return answer

    def _good(self, tx: ITransaction, known: Person) -> list[IssuedCertificate]:
        """The certificates that are of use still.  Raises StateUnsigned."""
        rows, now = self.tokens.recorder.rows(tx), self.tokens.now()
        found = [
            one
            for one in tx.certificates.of(known.id)
            if one.expires > now and one.revoked_at is None
        ]
        for one in found:
            rows.require(CERTIFICATES.entry_of(one))
        return found

    def _revoke(
        self, tx: ITransaction, one: IssuedCertificate, actor: Actor, note: dict[str, str]
    ) -> None:
        tx.certificates.revoke(one.sha256, self.tokens.now())
        details = {
            "person_id": one.person_id,
            "serial": one.serial,
            "certificate_sha256": one.sha256.hex(),
            **note,
        }
        state = [CERTIFICATES.now(tx, one.sha256)]
        self.tokens.recorder.append(tx, CERTIFICATE_REVOKE, actor, details=details, state=state)


def end_sign_ins(tx: ITransaction, tokens: TokenAdmin, known: Person, actor: Actor) -> int:
    """End the person's sign-ins, which would renew certificates; how many.

    Raises:
        StateUnsigned: one is not what was signed for.
    """
    rows, now = tokens.recorder.rows(tx), tokens.now()
    found = [
        one
        for one in tx.sign_ins.unexpired(now)
        if one.person_id == known.id and one.ended_at is None
    ]
    for one in found:
        rows.require(SIGN_INS.entry_of(one))
    for one in found:
        tx.sign_ins.put(evolve(one, ended_at=now, refresh=b""))
        details = {"person_id": known.id, "sign_in_id": one.id}
        state = [SIGN_INS.now(tx, one.id)]
        tokens.recorder.append(tx, SIGN_IN_END, actor, details=details, state=state)
    return len(found)

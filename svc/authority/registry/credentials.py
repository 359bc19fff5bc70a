"""What a person proves themselves by, taken away at once: after a lost laptop, or a leaked token.

The person stays: with a new token, or a new sign-in, there are new certificates.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from attrs import define, evolve

from svc.authority.registry.tokens import TokenAdmin
from svc.authority.registry.words import known_person, optional_note
from svc.authority.state.credentials import AlteredCredential, altered_credentials, hidden_of
from svc.authority.state.recorder import StateRecords
from svc.authority.state.tables import CERTIFICATES, SIGN_INS, TOKENS
from svc.interfaces.store import ITransaction
from svc.model.audit.events import CERTIFICATE_REVOKE, SIGN_IN_END, TOKEN_REVOKE
from svc.model.audit.record import Actor
from svc.model.cluster.node import TokenRole
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
            known = known_person(self.tokens.writer.rows(tx), request.person)
            answer = pb.RevokeCredentialsResponse(id=known.id, name=known.known_name)
            for one in self._good(tx, known):
                self._revoke(tx, one, actor, note)
                answer.serials.append(one.serial)
            answer.sign_ins = end_sign_ins(tx, self.tokens, known, actor)
            answer.tokens = withdraw_tokens(tx, self.tokens, known, actor, note)
            for altered in take_altered(tx, self.tokens, known, actor, note):
                if altered.sort == CERTIFICATES.name:
                    answer.serials.append(altered.recorded.get("serial", altered.id))
                answer.sign_ins += altered.sort == SIGN_INS.name
                answer.tokens += altered.sort == TOKENS.name
            uids = [one.uid for one in tx.sessions.open_of_person(known.id)]
            for uid in uids:
                tx.sessions.ask_end(uid, REVOKED_CERTIFICATE)
            answer.open_sessions = len(uids)
            return uids, answer

        uids, answer = await self.tokens.writer.change("revoke a person's credentials", write)
        self.asked.update(dict.fromkeys(uids, REVOKED_CERTIFICATE))
        self.publish()
        return answer

    def _good(self, tx: ITransaction, known: Person) -> list[IssuedCertificate]:
        """The certificates that are of use still, or whose approvals are, as they were signed."""
        rows, now = self.tokens.writer.rows(tx), self.tokens.writer.now()
        return [
            one
            for one in tx.certificates.of(known.id)
            if one.expires > now and one.is_honored and rows.is_signed(CERTIFICATES.entry_of(one))
        ]

    def _revoke(
        self, tx: ITransaction, one: IssuedCertificate, actor: Actor, note: dict[str, str]
    ) -> None:
        tx.certificates.revoke(one.sha256, self.tokens.writer.now())
        details = {
            "person_id": one.person_id,
            "serial": one.serial,
            "certificate_sha256": one.sha256.hex(),
            **note,
        }
        state = [CERTIFICATES.now(tx, one.sha256)]
        self.tokens.writer.append(tx, CERTIFICATE_REVOKE, actor, details=details, state=state)


def end_sign_ins(tx: ITransaction, tokens: TokenAdmin, known: Person, actor: Actor) -> int:
    """End the person's sign-ins, which would renew certificates; how many."""
    rows, now = tokens.writer.rows(tx), tokens.writer.now()
    found = [
        one
        for one in tx.sign_ins.unexpired(now)
        if one.person_id == known.id
        and one.ended_at is None
        and rows.is_signed(SIGN_INS.entry_of(one))
    ]
    for one in found:
        tx.sign_ins.put(evolve(one, ended_at=now, refresh=b""))
        details = {"person_id": known.id, "sign_in_id": one.id}
        state = [SIGN_INS.now(tx, one.id)]
        tokens.writer.append(tx, SIGN_IN_END, actor, details=details, state=state)
    return len(found)


def end_hidden_sign_ins(tx: ITransaction, tokens: TokenAdmin, known: Person, actor: Actor) -> int:
    """End the person's sign-ins whose rows are missing or altered, so that none renews if it is
    put back; how many.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    rows, now = tokens.writer.rows(tx), tokens.writer.now()
    hidden = sorted(hidden_of(rows, SIGN_INS, "person_id", known.id, now))
    for subject in hidden:
        sign_in_id = subject.partition(":")[2]
        row = tx.sign_ins.get(sign_in_id)
        if row is not None:
            tx.sign_ins.put(evolve(row, ended_at=now, refresh=b""))
        details = {"person_id": known.id, "sign_in_id": sign_in_id}
        state = [SIGN_INS.now(tx, sign_in_id)]
        tokens.writer.append(tx, SIGN_IN_END, actor, details=details, state=state)
    return len(hidden)


def withdraw_tokens(
    tx: ITransaction,
    tokens: TokenAdmin,
    known: Person,
    actor: Actor,
    note: dict[str, str] | None = None,
) -> int:
    """Withdraw the tokens with which the person could still join; how many."""
    found = tokens.waiting_for(tx, known.id)
    for one in found:
        tokens.withdraw(tx, one.token, actor, note)
    return len(found)


def take_altered(
    tx: ITransaction, tokens: TokenAdmin, known: Person, actor: Actor, note: dict[str, str]
) -> list[AlteredCredential]:
    """Take from a person what the store does not show as it was signed, each with its record.

    Raises:
        StateUnsigned: the records of state are not those that were verified.
    """
    found = altered_credentials(tokens.writer.rows(tx), tokens.writer.now())
    theirs = [one for one in found if one.is_of(known.id)]
    for one in theirs:
        _take(tx, tokens.writer, one, known.id, tokens.writer.now(), actor, note)
    return theirs


def _take(
    tx: ITransaction,
    records: StateRecords,
    one: AlteredCredential,
    person_id: str,
    at: float,
    actor: Actor,
    note: dict[str, str],
) -> None:
    state = [one.take_away(tx, person_id, at)]
    if one.sort == CERTIFICATES.name:
        event, named = CERTIFICATE_REVOKE, {"certificate_sha256": one.id, **note}
        if "serial" in one.recorded:
            named["serial"] = one.recorded["serial"]
    elif one.sort == SIGN_INS.name:
        event, named = SIGN_IN_END, {"sign_in_id": one.id}
    else:
        event, named = TOKEN_REVOKE, {"token_id": one.id, "role": TokenRole.PERSON.value, **note}
    details = {"person_id": person_id, **named}
    records.append(tx, event, actor, details=details, state=state)

"""Accounts that are kept here, wired."""

from __future__ import annotations

import os

from attrs import define, evolve
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor

from svc.authority.accounts.admin import AccountAdmin
from svc.authority.accounts.enrollment import Enrollments
from svc.authority.accounts.first import FirstAdministratorCode
from svc.authority.accounts.lockout import Lockouts
from svc.authority.accounts.opened import AccountJudge, decoy_account
from svc.authority.accounts.passkeys import Passkeys
from svc.authority.accounts.passwords import PasswordCost, PasswordHashes
from svc.authority.accounts.secrets import SealedSecrets
from svc.authority.accounts.security_keys import KeySite
from svc.authority.accounts.service import LocalSignInService
from svc.authority.accounts.sign_in import LocalSignIns
from svc.authority.registry.groups import GroupAdmin
from svc.authority.registry.people import PeopleAdmin
from svc.authority.registry.rights import RightsCheck
from svc.authority.signin.attempts import Attempts
from svc.authority.signin.entrance import Entrance
from svc.authority.state.writer import StateWriter
from svc.compose.authority.parts import Parts
from svc.model.cluster.account import CODE_FILE
from svc.runtime.threads import SerialThread, in_pool

_NICE = 10
"""Of the threads that hash: the reactor, and whoever else has work to do, come first."""


@define
class AccountRooms:
    """What signs people in, and what operators ask of it."""

    service: LocalSignInService
    sign_ins: LocalSignIns
    passkeys: Passkeys
    secrets: SealedSecrets
    first: FirstAdministratorCode

    def admin(self, p: Parts, people: PeopleAdmin) -> AccountAdmin:
        """For operators."""
        return AccountAdmin(
            people=people,
            secrets=self.secrets,
            first=self.first,
            ca_pin=p.keys.ca_pin,
            now=p.runtime.now,
        )


def account_rooms(
    p: Parts,
    writer: StateWriter,
    entrance: Entrance,
    attempts: Attempts,
    *,
    rights: RightsCheck,
) -> AccountRooms:
    """Wire it.  Blocks for one hash; called before the reactor runs."""
    runtime = p.runtime
    sign_ins = _sign_ins(p, entrance)
    first = FirstAdministratorCode(
        path=p.state.path / CODE_FILE,
        now=runtime.now,
        entropy=runtime.entropy,
        in_thread=in_pool(runtime.reactor),
    )
    passkeys = _passkeys(p, sign_ins, attempts)
    enrollments = Enrollments(
        sign_ins=sign_ins,
        attempts=attempts,
        secrets=sign_ins.secrets,
        hashes=sign_ins.hashes,
        site=sign_ins.judge.site,
        first=first,
        groups=GroupAdmin(writer, rights),
        passkeys=passkeys,
        password_min=p.settings.accounts.password_min,
        now=runtime.now,
    )
    service = LocalSignInService(
        sign_ins=sign_ins,
        enrollments=enrollments,
        passkeys=passkeys,
        attempts=attempts,
        issuer=p.issuer,
        site=sign_ins.judge.site,
        now=runtime.now,
    )
    rooms = (service, sign_ins, passkeys, sign_ins.secrets, first)
    return AccountRooms(*rooms)


def _passkeys(p: Parts, sign_ins: LocalSignIns, attempts: Attempts) -> Passkeys:
    name = p.settings.accounts.passkeys.public_name
    site = None if name is None else KeySite.of_name(name.host, name.port)
    return Passkeys(site=site, sign_ins=sign_ins, attempts=attempts)


def _sign_ins(p: Parts, entrance: Entrance) -> LocalSignIns:
    runtime, settings = p.runtime, p.settings.accounts
    admission = evolve(entrance.admission, renew_secs=float(settings.renew_secs))
    secrets = SealedSecrets(
        cluster=p.settings.cluster, seal=admission.seal, now=runtime.now, entropy=runtime.entropy
    )
    hashes = PasswordHashes(_threads(p, settings.hash_threads), PasswordCost())
    return LocalSignIns(
        entrance=entrance,
        admission=admission,
        secrets=secrets,
        hashes=hashes,
        lockouts=Lockouts(runtime.reactor.seconds),
        clock=runtime.reactor,
        judge=AccountJudge(
            secrets=secrets,
            site=KeySite.of_cluster(p.settings.cluster),
            decoys=decoy_account(secrets, hashes, unused_public_key),
            now=runtime.now,
        ),
    )


def _threads(p: Parts, count: int) -> list[SerialThread]:
    call = p.runtime.reactor.callFromThread
    return [
        SerialThread(f"passwords-{number}", call, nice=_NICE)
        for number in range(hash_threads(count, len(os.sched_getaffinity(0))))
    ]


def hash_threads(asked: int, cores: int) -> int:
    """How many hashes are made at once: one processor stays with the reactor."""
    return max(1, min(asked, cores - 1))


def unused_public_key() -> bytes:
    """The public key of a security key that nobody has, as COSE in CBOR."""
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    numbers = public.public_numbers()
    x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
    return cbor.encode({1: 2, 3: -7, -1: 1, -2: x, -3: y})

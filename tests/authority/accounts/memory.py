"""An Authority that keeps accounts itself: all in memory, with cheap hashes."""

from __future__ import annotations

from typing import Any

import pyotp

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
from svc.authority.state.recorder import operator
from svc.compose.authority.accounts import unused_public_key
from svc.interfaces.rpc import Peer
from svc.model.cluster.account import CODE_FILE
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import account_pb2 as pb
from svc.runtime.threads import inline
from tests.authority.house import Call, value_of
from tests.authority.signin.memory import SignInHouse
from tests.pki.support import CLUSTER
from tests.support.temporary import process_directory

CHEAP = PasswordCost(memory_kib=8, passes=1)
PASSWORD = "correct horse battery"
ROOT = operator(0)
HERE, ELSEWHERE = "192.0.2.1", "198.51.100.7"


class AccountHouse:
    """The service over the house's store.

    Args:
        cost: Of a hash.
    """

    def __init__(self, cost: PasswordCost = CHEAP, renew_secs: float = 86_400.0) -> None:
        self.provider = SignInHouse(admission={"renew_secs": renew_secs})
        self.house = house = self.provider.house
        entrance, now = self.provider.entrance, house.now
        self.secrets = SealedSecrets(
            cluster=CLUSTER, seal=entrance.admission.seal, now=now, entropy=house.entropy
        )
        self.hashes = PasswordHashes([inline], cost)
        self.site = KeySite.of_cluster(CLUSTER)
        self.judge = AccountJudge(
            secrets=self.secrets,
            site=self.site,
            decoys=decoy_account(self.secrets, self.hashes, unused_public_key),
            now=now,
        )
        self.sign_ins = LocalSignIns(
            entrance=entrance,
            admission=entrance.admission,
            secrets=self.secrets,
            hashes=self.hashes,
            lockouts=Lockouts(house.clock.seconds),
            judge=self.judge,
            clock=house.clock,
            answer_step=0.0,
        )
        self.provider.service.renewals.local = self.sign_ins.confirmed
        self.directory = process_directory("svc-accounts-")
        self.first = FirstAdministratorCode(
            path=self.directory / CODE_FILE, now=now, entropy=house.entropy, in_thread=inline
        )
        attempts = self.provider.service.attempts
        self.passkeys = Passkeys(
            site=KeySite.of_name("sign-in.example.org", 443),
            sign_ins=self.sign_ins,
            attempts=attempts,
        )
        self.enrollments = Enrollments(
            sign_ins=self.sign_ins,
            attempts=attempts,
            secrets=self.secrets,
            hashes=self.hashes,
            site=self.site,
            first=self.first,
            groups=house.groups(),
            passkeys=self.passkeys,
            password_min=12,
            now=now,
        )
        self.service = LocalSignInService(
            sign_ins=self.sign_ins,
            enrollments=self.enrollments,
            passkeys=self.passkeys,
            attempts=attempts,
            issuer=entrance.issuer,
            site=self.site,
            now=now,
        )

    @property
    def admin(self) -> AccountAdmin:
        """What operators ask."""
        return AccountAdmin(
            people=self.house.people(),
            secrets=self.secrets,
            first=self.first,
            ca_pin="ab" * 32,
            now=self.house.now,
        )

    # -- the operator

    def code(self, name: str, **more: Any) -> str:
        """A new one-time code of somebody."""
        request = pb.AddAccountRequest(person=name, **more)
        answer: pb.AddAccountResponse = value_of(self.admin.add(request, ROOT))
        return answer.code

    # -- the person

    async def begin(self, name: str, code: str, **more: Any) -> pb.BeginEnrollmentResponse:
        """Begin an enrollment."""
        request = pb.BeginEnrollmentRequest(
            **{
                "csr": make_request(new_key()),
                "name": name,
                "code": code,
                "password": PASSWORD,
                **more,
            }
        )
        return await self.service._begin(request, Call())

    async def complete(self, begun: Any, **proof: Any) -> pb.LocalSignInResponse:
        """Complete it."""
        request = pb.CompleteEnrollmentRequest(attempt=begun.attempt, **proof)
        return await self.service._complete(request, Call())

    def enrolled(self, name: str, key: Any = None) -> Person:
        """Somebody with an account; their second factor and recovery codes."""
        begun = value_of(self.begin(name, self.code(name), csr=make_request(key or new_key())))
        person = Person(self, name, pyotp.parse_uri(begun.totp_uri))
        answer = value_of(self.complete(begun, code=person.code()))
        person.device, person.recovery = answer.device, list(answer.recovery_codes)
        person.answer = answer
        self.house.clock.advance(30)
        return person

    async def sign_in(self, name: str, host: str = HERE, **proof: Any) -> pb.LocalSignInResponse:
        """Sign in; without more with the password that everybody has here."""
        request = pb.LocalSignInRequest(
            **{"csr": make_request(new_key()), "name": name, "password": PASSWORD, **proof}
        )
        return await self.service._sign_in(request, Call(Peer(host, 1)))


class Person:
    """Somebody with an authenticator app."""

    answer: Any
    device: bytes
    recovery: list[str]

    def __init__(self, at: AccountHouse, name: str, totp: Any) -> None:
        self.at, self.name, self.totp = at, name, totp

    def code(self, steps: int = 0) -> str:
        """What the app shows now, or did so many steps of half a minute ago."""
        shown: str = self.totp.at(int(self.at.house.now()) - 30 * steps)
        return shown

"""People who sign in with passwords: the process that plays them, beside the gateway.

    python -m contrib.bench.password_people STATE_DIR PROXY PIN DIRECTORY COUNT ROUNDS

They get accounts and enroll; at each line on stdin all sign in at once, and after ROUNDS of
that all have their certificates renewed at once, as often.  How long each took is printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyotp
from attrs import define
from twisted.internet.defer import Deferred, DeferredList

from svc.cli.control import ask, run
from svc.join.account import LocalLogin, SignedInHere
from svc.join.person import parse_addresses, prepare
from svc.join.sign_in import MachineSignIn, SignInPlace, renew_sign_in
from svc.pki.identity import TransportIdentity
from svc.pki.identity_store import IdentityStore
from svc.pki.issue import make_request
from svc.proto.gate.v1 import account_pb2 as pb
from svc.runtime.context import Runtime

PASSWORD = "correct horse battery"


@define
class PasswordPerson:
    """One of them, with a machine.

    Attributes:
        uri: Of the authenticator app, once it was shown.
        codes: For recovery; each sign-in uses one, so that nobody waits for an app's next.
    """

    name: str
    machine: MachineSignIn
    uri: str = ""
    codes: list[str] = []  # noqa: RUF008 - replaced at the enrollment

    def shown(self, uri: str) -> None:
        """Scan it."""
        self.uri = uri

    def answer(self, what: str, is_hidden: bool) -> str:
        """What is typed."""
        if is_hidden:
            return PASSWORD
        if what.startswith("Code that the app"):
            totp = pyotp.parse_uri(self.uri)
            assert isinstance(totp, pyotp.TOTP)
            return totp.at(int(time.time()))
        return self.codes.pop()

    @property
    def login(self) -> LocalLogin:
        """One sign-in."""
        return LocalLogin(machine=self.machine, ask=self.answer, show_uri=self.shown, key=None)

    async def enroll(self, code: str) -> None:
        """Set the password."""
        done = await self.login.enroll(self.name, code, PASSWORD, first_administrator=False)
        self.codes = list(done.recovery_codes)

    async def sign_in(self) -> SignedInHere:
        """Sign in."""
        return await self.login.sign_in(self.name)

    async def renew(self) -> None:
        """Have the newest certificate renewed, and keep the next."""
        runtime, place = self.machine.runtime, self.machine.place
        store = IdentityStore(place.directory)
        identity, key = TransportIdentity.load(store, runtime.now), store.pending_key()
        renewed = await renew_sign_in(runtime, place, identity, make_request(key))
        store.write(key, renewed.chain)


def main(state: str, address: str, pin: str, directory: str, count: int, rounds: int) -> None:
    """Play them."""

    async def played(reactor: Any) -> None:
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=os.environ)
        people = []
        for number in range(count):
            name = f"person-{number}"
            place = SignInPlace(
                directory=prepare(Path(directory) / name),
                proxies=(),
                authority=parse_addresses("--authority", (address,))[0],
                pin=pin,
                writes_config=False,
            )
            one = PasswordPerson(name, MachineSignIn(runtime, place, lambda line: None))
            request = pb.AddAccountRequest(person=name)
            answer = await ask(reactor, Path(state), "AddAccount", request, pb.AddAccountResponse)
            await one.enroll(answer.code)
            people.append(one)
        turns: list[list[Callable[[], Coroutine[Any, Any, Any]]]] = [
            *[[one.sign_in for one in people]] * rounds,
            *[[one.renew for one in people]] * rounds,
        ]
        for turn in turns:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            sys.stdin.readline()
            began = time.perf_counter()
            await _all(turn)
            sys.stdout.write(f"{time.perf_counter() - began}\n")
            sys.stdout.flush()

    run(played)


async def _all(begin: list[Callable[[], Coroutine[Any, Any, Any]]]) -> None:
    """All at once; raises what the first that failed raises."""
    waiting = [Deferred.fromCoroutine(each()) for each in begin]
    for is_good, outcome in await DeferredList(waiting, consumeErrors=True):
        if not is_good:
            outcome.raiseException()


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(int, sys.argv[5:7]))  # type: ignore[arg-type]

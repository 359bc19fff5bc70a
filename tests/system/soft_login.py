"""``svc login`` with a security key in software in the place of one on USB: a process of its own.

All else is the program's: the client of keys, the sign-in, the way to Authority.

    python -m tests.system.soft_login KEY_FILE PROXY PIN NAME [CODE]

The password is read from stdin; with a code somebody enrolls.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from svc.cli.control import run
from svc.cli.local_login import ask, show_uri
from svc.join.account import LocalLogin, SecurityKey, SignedInHere
from svc.join.person import parse_addresses, prepare
from svc.join.security_key import PluggedKeys
from svc.join.sign_in import MachineSignIn, SignInPlace
from svc.runtime.context import Runtime
from tests.support.security_key import SoftKey


def main(key_file: str, proxy: str, pin: str, name: str, code: str = "") -> int:
    """Sign in, and keep the key with its new count."""
    key = SoftKey.load(Path(key_file))
    plugged = PluggedKeys(lambda: [key], _say, ask)
    place = SignInPlace(
        directory=prepare(Path(os.environ["HOME"]) / ".svc"),
        proxies=parse_addresses("--proxy", (proxy,)),
        authority=None,
        pin=pin,
        writes_config=True,
    )

    async def signing_in(reactor: Any) -> SignedInHere:
        runtime = Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ=os.environ)
        login = LocalLogin(
            machine=MachineSignIn(runtime, place, _say),
            ask=ask,
            show_uri=show_uri,
            key=SecurityKey(plugged.register, plugged.sign),
        )
        if not code:
            return await login.sign_in(name)
        password = ask("New password", True)
        return await login.enroll(name, code, password, first_administrator=False)

    try:
        done = run(signing_in)
    finally:
        key.save(Path(key_file))
    sys.stdout.write(f"{done.person.name}: {len(done.recovery_codes)} recovery codes\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

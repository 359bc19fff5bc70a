"""A gateway that has run and ended, copied for each test that spoils something of it."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.doctor import role_contexts
from svc.compose.person import state_directory
from svc.config import RoleSettings, StoreUrl, load_settings
from svc.model.doctor import CheckResult, DoctorReport
from svc.ops.doctor.checks import CHECKS
from svc.ops.doctor.context import CheckContext, RunningProgram
from svc.ops.doctor.run import examine
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, PROXY, GatewayTarget

NODES = ("authority", "proxy", "connector")
PERSON = "client"


@cache
def ended() -> Gateway:
    """Its processes have stopped in order, so that nothing changes any more."""
    gateway = make_gateway([GatewayTarget("echo", "127.0.0.1:9")])
    gateway.add_person("ada", "ops")
    head = gateway.files.state(PROXY) / "snapshot" / "audit-head"
    until("a signed head at the Proxy", head.exists)
    for child in reversed(gateway.everyone):
        if child is gateway.child(AUTHORITY):
            # What the others said last is in the log, and not in the queue.
            until("an empty queue", lambda: gateway.status()["queued_rows"] == 0)
        child.stop()
    return gateway


@define(eq=False)
class Copy:
    """A copy of that gateway's files.

    Attributes:
        at: The time of the checks.
        program: What runs, and where units are looked for.
    """

    base: Path
    at: float = field(factory=time.time)
    program: RunningProgram = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.program = RunningProgram(self.base / "svc", (self.base / "units",))

    def settings(self, role: str) -> RoleSettings:
        """As the copied configuration says, but for the places, which are the copy's."""
        path = self.config(role)
        found = load_settings(str(path), role, {})
        store = found.store_url
        return evolve(
            found,
            state_dir=self._moved(found.state_dir),
            store_url=None if store is None else StoreUrl(store.scheme, self._moved(store.rest)),
            join=evolve(found.join, token_file=self._moved(found.join.token_file)),
        )

    def config(self, role: str) -> Path:
        """The configuration of a role."""
        if role == PERSON:
            return self.base / "home-ada" / ".svc" / "client.toml"
        return self.base / "gate" / f"{role}.toml"

    def state(self, role: str) -> Path:
        """Its own directory."""
        return Path(self.settings(role).state_dir)

    def context(self, role: str, **changes: Any) -> CheckContext:
        """What the checks are given; *changes* are of the settings, table and key with ``__``."""
        settings = self.settings(role)
        for name, value in changes.items():
            table, _, key = name.partition("__")
            inner = evolve(getattr(settings, table), **{key: value}) if key else value
            settings = evolve(settings, **{table: inner})
        state = state_directory(settings) if role == PERSON else None
        (context,) = role_contexts(settings, self.at, self.program, state)
        return context

    def report(self, role: str, **changes: Any) -> DoctorReport:
        """Every check of the role."""
        return examine(CHECKS, [self.context(role, **changes)])

    def result(self, role: str, check_id: str, **changes: Any) -> CheckResult:
        """One check of the role."""
        chosen = [check for check in CHECKS if check.id == check_id]
        (result,) = examine(chosen, [self.context(role, **changes)]).checks
        return result

    def sql(self, statement: str, *values: object) -> None:
        """Change the store behind everybody's back."""
        with closing(sqlite3.connect(self.state("authority") / "store.db")) as store, store:
            triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for (trigger,) in store.execute(triggers).fetchall():
                store.execute(f'DROP TRIGGER "{trigger}"')
            store.execute(statement, values)

    def files(self) -> dict[str, tuple[int, str]]:
        """Everything there is, by mode and digest."""
        return {
            str(path.relative_to(self.base)): (
                path.lstat().st_mode,
                sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            )
            for path in sorted(self.base.rglob("*"))
        }

    def _moved(self, text: Any) -> Any:
        return text and text.replace(str(ended().directory), str(self.base))


class CopyCase(SynchronousTestCase):
    """A copy for each test."""

    def setUp(self) -> None:
        base = Path(self.mktemp()).absolute()
        shutil.copytree(ended().directory, base, symlinks=True)
        self.copy = Copy(base)

    def assert_found(
        self,
        role: str,
        check_id: str,
        severity: str,
        *words: str,
        **changes: Any,
    ) -> CheckResult:
        """That a check finds it, says these words of it, and names what to do."""
        result = self.copy.result(role, check_id, **changes)
        self.assertEqual(result.severity.word, severity, result)
        for word in words:
            self.assertIn(word, f"{result.message} {result.hint}")
        return result

    def assert_ok(self, role: str, check_id: str, *words: str, **changes: Any) -> None:
        """That it finds nothing."""
        self.assert_found(role, check_id, "ok", *words, **changes)


Spoil = Callable[[Copy], object]

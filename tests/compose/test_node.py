"""A node that cannot begin says so and ends; it does not stay, silent, for ever."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svc.compose.node import NodeRole, tunnel_times
from svc.config.reading import read_settings
from svc.errors import SvcError
from svc.model.cluster.token import make_token
from svc.model.principal import Role
from svc.pki.identity_store import IdentityStore
from svc.runtime.context import Runtime
from tests.config.malformed import GOOD

CONFIG = """
cluster = "gate.example"
state_dir = "{state}"
[endpoints]
proxy = ["127.0.0.1:1"]
"""

JOIN = f"""
[join]
token_file = "{{token}}"
ca_pin = "{"0" * 64}"
"""


class TimesTests(SynchronousTestCase):
    """The times of tunnels as a configuration gives them."""

    def test_drain(self) -> None:
        """A Connector waits for open sessions as long as ``limits.drain_secs`` says."""
        for seconds in (0, 30, 3600):
            text = f"{GOOD['connector']}limits.drain_secs = {seconds}\n"
            settings = read_settings(text, "connector")
            self.assertEqual(tunnel_times(settings).drain, seconds)


class FaultyStore(IdentityStore):
    """Holds nothing, and breaks in a way nobody foresaw when it is asked for a key."""

    def pending_key(self) -> object:  # type: ignore[override]
        """Break."""
        raise LookupError("nobody foresaw this")


class NodeRoles(SynchronousTestCase):
    """What a role does with failures on its way to an identity."""

    def started(self, config: str, store: type[IdentityStore] = FaultyStore) -> list[SvcError]:
        """Start a Connector without an identity; what it told its process of."""
        state = Path(self.mktemp()).absolute()
        state.mkdir(mode=0o700)
        token = state / "token"
        token.touch(mode=0o600)
        token.write_text(make_token(os.urandom).text, "ascii")
        text = CONFIG.format(state=state) + config.format(token=token)
        told: list[SvcError] = []
        self.role = role = NodeRole(
            runtime=Runtime(
                reactor=MemoryReactorClock(), now=lambda: 0.0, entropy=os.urandom, environ={}
            ),
            settings=read_settings(text, "connector"),
            identity_store=store(state),
            role=Role.CONNECTOR,
            assemble=lambda identity: [],
            stopped_by=told.append,
        )
        self.successResultOf(Deferred.fromCoroutine(role.start()))
        return told

    def test_a_refusal_ends_the_process(self) -> None:
        """Whoever has no token is told which key is missing."""
        (refusal,) = self.started("")
        self.assertIn("join.token_file", refusal.text)

    def test_what_nobody_foresaw_ends_the_process(self) -> None:
        """A defect is logged with its traceback and ends the process, instead of nothing at all."""
        (refusal,) = self.started(JOIN)
        self.assertEqual(refusal.reason, "internal")
        self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)

    def test_a_stop_while_joining_is_no_failure(self) -> None:
        """A role that is stopped while nobody lets it join just stops."""
        told = self.started(JOIN, IdentityStore)
        self.successResultOf(Deferred.fromCoroutine(self.role.stop()))
        self.assertEqual(told, [])

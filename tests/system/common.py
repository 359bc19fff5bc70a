"""One gateway for many tests of this folder: an awkward profile, every log level, short times."""

from __future__ import annotations

import json
from functools import cache

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.system.world import around

PROFILE = 'blue "1" \\ é'
ROLES = (AUTHORITY, PROXY, CONNECTOR)
VALID_SECS = 10
_ENVIRON = {"RUST_LOG": "trace", "SVC_PROFILE": json.dumps(PROFILE, ensure_ascii=False)}


@cache
def shared() -> Gateway:
    """The gateway of this process's tests; whoever stops a role starts it again.

    It leads to ``echo``, and to ``vault``, which is closed to everybody.
    """
    port = around().ports["echo"]
    targets = [
        GatewayTarget("echo", f"127.0.0.1:{port}"),
        GatewayTarget("vault", f"127.0.0.1:{port}", labels=("closed=yes",)),
    ]
    numbers = {"snapshot.valid_secs": VALID_SECS, "tunnel.keepalive_secs": 1}
    return make_gateway(targets, numbers=numbers, environ=dict.fromkeys(ROLES, _ENVIRON))


@cache
def ada() -> GatewayPerson:
    """A person of the group that may use ``echo``; no resident runs."""
    return shared().add_person("ada", "ops")


@cache
def eve() -> GatewayPerson:
    """A person of no group, who may view nothing."""
    return shared().add_person("eve")

"""A person's side inside the test's own process, over real sockets to a gateway's Proxy."""

from __future__ import annotations

import os
import time

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from svc.compose.person import PersonSide, client_settings, load_person
from svc.interfaces.rpc import IRpcChannel
from svc.runtime.context import Runtime
from svc.testing.gateway.person import GatewayPerson


def side_of(person: GatewayPerson) -> PersonSide:
    """The identity of a person who has joined, ready to connect."""
    settings = client_settings(str(person.directory / "client.toml"), {})
    return load_person(
        Runtime(reactor=reactor, now=time.time, entropy=os.urandom, environ={}), settings
    )


def closed(channel: IRpcChannel) -> Deferred[None]:
    """Close a channel, as a test's clean-up."""
    return Deferred.fromCoroutine(channel.close())

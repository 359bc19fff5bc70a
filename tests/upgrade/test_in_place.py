"""A gateway is upgraded where it stands, and nobody enrolls again."""

from __future__ import annotations

import time

from twisted.trial.unittest import SynchronousTestCase

from contrib.levels import FORMER, columns_at, cut, fill, migrations, place_of
from svc.model.audit.record import chain_hash
from svc.store.sqlite.connection import open_reader
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.store.places import path_of
from tests.support.proof import proves
from tests.system.test_renewal import echoed, enrolled
from tests.system.world import around

LEVEL = 79
ROLES = (AUTHORITY, PROXY, CONNECTOR)


def put_back(gateway: Gateway, level: int) -> None:
    """Make the store what a build of that level would have left, with all that is in it."""
    place = place_of(f"sqlite://{gateway.files.store}")
    store = open_reader(path_of(place.url))
    former = {column: (kind, dict(store.execute(sql))) for column, (kind, sql) in FORMER.items()}
    store.close()
    with place.factory.copied(place.url, chain_hash, time.time, False) as copy:
        lines = list(copy.lines({}))
    for path in gateway.files.store.parent.glob(f"{gateway.files.store.name}*"):
        path.unlink()
    fill(place, cut(lines, level, columns_at(level), former))


def is_echoed(person: GatewayPerson, said: bytes) -> bool:
    """Whether a session works yet: the resource is served a moment after it was added."""
    try:
        echoed(person, said)
    except (ConnectionError, AssertionError):
        return False
    return True


class InPlaceTests(SynchronousTestCase):
    """A gateway of real processes whose store is of an earlier level."""

    @proves("G-IDN-13", "X-56")
    def test_no_enroll_call(self) -> None:
        """Authority, Proxy, Connector and a person go on with the certificates that they had."""
        target = GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")
        gateway = make_gateway([target])
        self.addCleanup(gateway.end)
        ada = gateway.add_person("ada", "ops")
        ada.up("echo")
        until("a session before it", lambda: is_echoed(ada, b"before"))
        # What that level did not keep of a resource could not be signed for again.
        gateway.operator("resources", "remove", "echo")
        before = enrolled(gateway)
        for role in reversed(ROLES):
            gateway.child(role).stop()
        put_back(gateway, LEVEL)
        check = gateway.operator("store", "migrate", "--check", check=False)
        said = check.stdout.splitlines()
        self.assertEqual(said, [f"pending: {each.id}" for each in migrations()[LEVEL:]])
        for role in ROLES:
            gateway.start(role)
        gateway.add_resource(target)
        until("a session after it", lambda: is_echoed(ada, b"after"))
        self.assertEqual(enrolled(gateway), before)

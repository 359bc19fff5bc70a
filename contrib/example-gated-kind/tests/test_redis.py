"""The kind by itself: what every kind keeps, and the edits that are its own."""

from __future__ import annotations

from svc_redis.local import denied
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.contracts.kind import KindContract


class RedisTests(KindContract, SynchronousTestCase):
    """The contract, and a denial's text."""

    word = "redis"
    good_parameters = {"database": "2"}

    def test_a_denial_is_one_line(self) -> None:
        """Whatever a Proxy says of a denial, it ends no answer and begins none."""
        said = denied(b"-ERR\r\n", {"decision": "d1\r\n+OK", "policies": "p\n\u20ac"})
        self.assertEqual(said, b"-NOPERM denied by p ?; run `svc why d1 +OK`\r\n")

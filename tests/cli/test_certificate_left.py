"""What `svc status` says of a certificate that ends soon."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.cli.person_texts import facts


class LeftTests(SynchronousTestCase):
    """How long is left."""

    def test_in_its_unit(self) -> None:
        """The last minutes are told in seconds: no certificate that is valid ends in 0 min."""
        for seconds, said in ((1, "1 s"), (59, "59 s"), (119, "119 s"), (1800, "30 min")):
            certificate = {
                "expires_at": "2026-11-24T15:45:32Z",
                "seconds_left": seconds,
                "ends_soon": True,
                "problem": "",
            }
            told = {"cluster": "c", "person": "p", "running": False, "certificate": certificate}
            self.assertEqual(
                dict(facts(told))["certificate"],
                f"until 2026-11-24T15:45:32Z, in {said}: run `svc join` with a new token, "
                "or `svc login`",
            )

"""The program of a release, built for real."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from contrib.release.__main__ import check_reproducible
from svc import __version__
from svc.model.release import parse_version
from tests.support.proof import proves

RUN_BY = "make fault"


class BuildTests(SynchronousTestCase):
    """The wheel."""

    @proves("U-REL-18")
    def test_twice(self) -> None:
        """Two clones in two places give the same bytes."""
        check_reproducible(parse_version(__version__))

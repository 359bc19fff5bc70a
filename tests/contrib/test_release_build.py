"""The programs of a release, built for real."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from contrib.release.__main__ import check_reproducible
from svc import __version__
from svc.model.release import parse_version
from tests.support.proof import proves
from tests.support.wheels import debian_packages, library_wheels

RUN_BY = "make fault"


class BuildTests(SynchronousTestCase):
    """The wheel and the executable."""

    @proves("U-REL-18")
    def test_twice(self) -> None:
        """Two clones in two places give the same bytes, of both executables."""
        debian = debian_packages()
        check_reproducible(parse_version(__version__), library_wheels(), debian, level=1)

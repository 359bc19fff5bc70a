"""Tests of svc.  The tree mirrors ``svc/``; whole processes live in ``tests/system``, and what
only our own tests use in ``tests/support``.

Property tests share one profile: no deadline and no complaint about a slow
machine, since nothing here measures time, and no database, so that a run
depends on the checkout alone.
"""

from hypothesis import HealthCheck, settings

from tests.support.examples import examples

settings.register_profile(
    "svc",
    deadline=None,
    database=None,
    max_examples=examples(100),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("svc")

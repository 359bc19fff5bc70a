"""How many examples Hypothesis tries: few in ``make test``, and all of them in ``make fault``."""

from __future__ import annotations

import os

SHORT = 50
"""At most so many for a property where ``SVC_LONG=1`` is not set."""


def examples(full: int) -> int:
    """How many are tried now of a property for which *full* are enough."""
    return full if os.environ.get("SVC_LONG") == "1" else min(full, SHORT)

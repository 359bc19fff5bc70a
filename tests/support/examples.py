"""How many examples Hypothesis tries: few, or all of them where ``SVC_LONG=1`` is set."""

from __future__ import annotations

import os

SHORT = 20
"""At most so many for a property where ``SVC_LONG=1`` is not set."""


def examples(full: int) -> int:
    """How many are tried now of a property for which *full* are enough."""
    return full if os.environ.get("SVC_LONG") == "1" else min(full, SHORT)

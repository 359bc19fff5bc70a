"""Which of our objects only a garbage collection frees."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_to_the_collector() -> Iterator[list[str]]:
    """The classes of ours whose objects a block has left in cycles; filled as it ends."""
    found: list[str] = []
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield found
        before = len(gc.garbage)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        kinds = [type(one) for one in gc.garbage[before:]]
        found += sorted(one.__qualname__ for one in kinds if one.__module__.startswith("svc."))
        del gc.garbage[before:]
    finally:
        gc.set_debug(0)
        if was_enabled:
            gc.enable()

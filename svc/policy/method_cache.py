"""Answers of an object's own methods, remembered without a cycle through the object."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakMethod

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")


def cached_method(method: Callable[..., T], size: int) -> _lru_cache_wrapper[T]:
    """The method, with its *size* latest answers kept, for an attribute of its own object.

    ``lru_cache`` over the bound method would keep the object for itself: only a garbage collection
    frees such a cycle, and none ever looks at one that was made before the process had started
    (see :func:`svc.runtime.heap.settle_heap`).
    """
    own = WeakMethod(method)

    def answer(*args: Any) -> T:
        bound = own()
        assert bound is not None  # it is called by its object alone
        return bound(*args)

    return lru_cache(size)(answer)

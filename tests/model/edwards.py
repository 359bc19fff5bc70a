"""The curve of Ed25519 in plain arithmetic, for signatures that no honest signer makes."""

from __future__ import annotations

from hashlib import sha512

Point = tuple[int, int]

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
NEUTRAL: Point = (0, 1)
_D = -121665 * pow(121666, -1, P) % P
_ROOT = pow(2, (P - 1) // 4, P)


def add(one: Point, other: Point) -> Point:
    """The sum of two points."""
    (x, y), (u, v) = one, other
    k = _D * x * u * y * v
    return (x * v + u * y) * pow(1 + k, -1, P) % P, (y * v + x * u) * pow(1 - k, -1, P) % P


def times(count: int, point: Point) -> Point:
    """A point, added to itself."""
    found = NEUTRAL
    while count:
        if count & 1:
            found = add(found, point)
        point, count = add(point, point), count >> 1
    return found


def point_at(y: int, *, is_odd: bool = False) -> Point | None:
    """The point with that second coordinate, if there is one."""
    squared = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(squared, (P + 3) // 8, P)
    if (x * x - squared) % P:
        x = x * _ROOT % P
    if (x * x - squared) % P:
        return None
    return (P - x if x % 2 != is_odd else x), y


def written(point: Point) -> bytes:
    """A point in its one form."""
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def read(form: bytes) -> Point:
    """The point in *form*; there is one."""
    value = int.from_bytes(form, "little")
    point = point_at(value & (1 << 255) - 1, is_odd=bool(value >> 255))
    assert point is not None
    return point


def number(value: int) -> bytes:
    """A number as signatures have it."""
    return value.to_bytes(32, "little")


def challenge(nonce: bytes, key: bytes, text: bytes) -> int:
    """What binds a signature to its key and text."""
    return int.from_bytes(sha512(nonce + key + text).digest(), "little") % ORDER


def _of_small_order() -> Point:
    for y in range(2, 100):
        point = point_at(y)
        found = NEUTRAL if point is None else times(ORDER, point)
        if times(4, found) != NEUTRAL:
            return found
    raise AssertionError("every second point has such a part")


BASE = point_at(4 * pow(5, -1, P) % P) or NEUTRAL
SMALL = _of_small_order()
"""Of order 8."""

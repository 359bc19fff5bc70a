"""The local addresses of resources: pure functions, no sockets.

Each resource has its own loopback address, so that native ports never meet;
the port is the native one plus the offset.  Both are the same after every
start, so that host keys and bookmarks stay good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network

NETWORK = IPv4Network("127.64.0.0/10")
"""The loopback addresses that are ours to hand out (G-OPEN-63)."""

_HIGHEST_PORT = 65535
_LOWEST_FREE = 1024
_CHOSEN_FIRST, _CHOSEN_COUNT = 20_000, 10_000


def addresses(
    cluster: str, uid: int, resources: Iterable[str], kept: Mapping[str, str] | None = None
) -> dict[str, str]:
    """An address for each resource, no two alike.

    Args:
        uid: Whose resident this is: two users of one machine do not meet.
        resources: Ids; their order does not matter.
        kept: Addresses given before, which stay where they are.
    """
    wanted = sorted(set(resources))
    given = {name: where for name, where in (kept or {}).items() if name in wanted}
    taken = set(given.values())
    for name in wanted:
        if name not in given:
            given[name] = next(each for each in _tries(cluster, uid, name) if each not in taken)
            taken.add(given[name])
    return given


def ports(cluster: str, resource: str, native: int | None, offset: int) -> Iterator[int]:
    """Ports to try, best first: native plus offset (X-66), then the next ones.

    A kind without a native port gets one that is always the same for the
    resource.  Each port comes once.
    """
    if native is None:
        first = _CHOSEN_FIRST + _number(f"{cluster}\0port\0{resource}") % _CHOSEN_COUNT
    else:
        first = native + offset
    if first > _HIGHEST_PORT:
        span = _HIGHEST_PORT + 1 - _LOWEST_FREE
        first = _LOWEST_FREE + first % span
    yield from range(first, _HIGHEST_PORT + 1)
    yield from range(min(_LOWEST_FREE, first), first)


def is_ours(address: str) -> bool:
    """Whether *address* is one that :func:`addresses` can give."""
    try:
        parsed = IPv4Address(address)
    except ValueError:
        return False
    return parsed in NETWORK and int(parsed) & 0xFF not in (0, 255)


def _tries(cluster: str, uid: int, resource: str) -> Iterator[str]:
    """Addresses of a resource, the first its own and the rest against collisions."""
    first, count = int(NETWORK.network_address), NETWORK.num_addresses // 256
    attempt = 0
    while True:
        number = _number(f"{cluster}\0{uid}\0{resource}\0{attempt}")
        last = 1 + number // count % 254
        yield str(IPv4Address(first + number % count * 256 + last))
        attempt += 1


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")

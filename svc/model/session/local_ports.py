"""Addresses and ports of local endpoints, and the helper that binds those below 1024."""

from __future__ import annotations

from ipaddress import IPv4Network

LOOPBACK = IPv4Network("127.64.0.0/10")
"""The loopback addresses that are ours to hand out (G-OPEN-63)."""

LOWEST_FREE = 1024
"""The first port that every user may listen on."""

CLIENT_NET = "svc-client-net"
"""The helper: its unit, and its directories below ``/run`` and ``/var/lib``."""

SOCKET_NAME = "socket"
CLIENT_NET_SOCKET = f"/run/{CLIENT_NET}/{SOCKET_NAME}"

"""Many connections at once, each of whose requests is marked with who sends it, and its number."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from attrs import field, frozen

MOST_AT_ONCE = 8
"""Requests that a connection sends before it reads their answers."""

_EVERY = 10
"""So many requests hold one that names another person, which the policy denies."""

_PATIENCE = 120.0


@frozen
class Marked:
    """A request, and what came of it.

    Attributes:
        owner: Whose its path is: the policy allows nobody else.
    """

    sender: str
    owner: str
    number: str

    @property
    def path(self) -> str:
        """What it asks for."""
        return f"/of/{self.owner}/{self.number}"

    @property
    def decision(self) -> str:
        """What the policy has to say."""
        return "allow" if self.owner == self.sender else "deny"


@frozen
class Conversation:
    """One connection of a person, and its requests.

    Attributes:
        at_once: How many are sent before an answer is read: 1 is a connection that is kept alive.
    """

    place: tuple[str, int]
    at_once: int
    asked: Sequence[Marked]

    def held(self) -> list[str]:
        """Send all of them over one connection; the answers that are not those requests' own."""
        wrong: list[str] = []
        with socket.create_connection(self.place, _PATIENCE) as peer, peer.makefile("rb") as read:
            host = f"{self.place[0]}:{self.place[1]}"
            for at in range(0, len(self.asked), self.at_once):
                batch = self.asked[at : at + self.at_once]
                heads = (f"GET {one.path} HTTP/1.1\r\nHost: {host}\r\n\r\n" for one in batch)
                try:
                    peer.sendall("".join(heads).encode())
                    wrong += filter(None, (_fault(one, *_answer(read)) for one in batch))
                except OSError as error:
                    return [*wrong, f"cut off amid {batch[0]}: {error}"]
        return wrong


@frozen
class Crowd:
    """Conversations that are held at the same time.

    Attributes:
        places: The local endpoint of each person.
        clients: Connections, in turns one of each person.
        requests: In all.
    """

    places: dict[str, tuple[str, int]]
    clients: int
    requests: int
    conversations: list[Conversation] = field(init=False)

    @conversations.default
    def _in_turns(self) -> list[Conversation]:
        names, each = list(self.places), self.requests // self.clients
        made = []
        for client in range(self.clients):
            sender, other = (names[(client + step) % len(names)] for step in (0, 1))
            asked = [
                Marked(sender, sender if number % _EVERY else other, f"{client}-{number}")
                for number in range(each)
            ]
            at_once = 1 + client // len(names) % MOST_AT_ONCE
            made.append(Conversation(self.places[sender], at_once, asked))
        return made

    @property
    def asked(self) -> list[Marked]:
        """All requests."""
        return [one for each in self.conversations for one in each.asked]

    def meet(self) -> list[str]:
        """Hold all of them; what was wrong with answers."""
        with ThreadPoolExecutor(self.clients) as threads:
            found = threads.map(Conversation.held, self.conversations)
            return [fault for each in found for fault in each]


def _answer(read: BinaryIO) -> tuple[int, Any]:
    first = read.readline()
    if not first:
        raise ConnectionError("it was closed")
    status, size = int(first.split()[1]), 0
    while (line := read.readline().rstrip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return status, json.loads(read.read(size))


def _fault(one: Marked, status: int, told: Any) -> str:
    """What is wrong with the answer of a request; empty where nothing is."""
    if one.decision == "deny":
        is_right = status == 403 and told["error"]["reason"] == "denied"
    else:
        is_right = status == 200 and told["asked"] == f"GET {one.path}"
    return "" if is_right else f"{one}: {status} {told}"

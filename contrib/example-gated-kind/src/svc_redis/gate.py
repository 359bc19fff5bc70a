"""At the Proxy: which command a line is, and which answer belongs to it."""

import re
from collections import deque

from svc.errors import Malformed, SvcError
from svc.interfaces.gating import IGatedSession, RequestVerdict

LONGEST = 4096
ACTIONS = {b"GET": "redisRead", b"SET": "redisWrite"}

COMMAND = re.compile(rb"([A-Za-z]+) ([^\0- \"'\\\x7f]+)(?: [^\0- \"'\\\x7f]+)*\r\n")
"""A line that Redis reads as we do: no quotes, no other spaces, no other end of line."""

Owed = deque[RequestVerdict | None]
"""What is still to be answered; None: a command that we do not know."""


async def serve(session: IGatedSession) -> None:
    """One session: each command is answered in its turn, denied ones too."""
    owed: Owed = deque()
    await session.both(requests(session, owed), answers(session, owed))


async def requests(session: IGatedSession, owed: Owed) -> None:
    """From the person: what is denied is replaced by a command that no server knows."""
    stream = session.requests
    while (line := await stream.until(b"\r\n", LONGEST)) is not None:
        command = COMMAND.fullmatch(line)
        action = None if command is None else ACTIONS.get(command[1].upper())
        if command is not None and action is not None:
            key = command[2].decode("utf-8", "backslashreplace")
            verdict = await session.decide(action, {"key": key}, size=len(line))
            owed.append(verdict)
        else:
            await session.record("redis.unknown", {"size": len(line)})
            verdict = await session.refuse(
                "redisWrite", {}, size=len(line), reason="unknown_command"
            )
            owed.append(None)
        if verdict.allowed:
            await stream.pass_on(len(line))
        elif verdict.is_recorded:
            stream.edit(len(line), "refuse", {})
        else:
            raise SvcError(f"no record of a command: {verdict.reason}", reason="not_recorded")


async def answers(session: IGatedSession, owed: Owed) -> None:
    """From the server: its error for what was denied is replaced by the reason."""
    stream = session.answers
    while (line := await stream.until(b"\r\n", LONGEST)) is not None:
        if not owed:
            raise Malformed("the server answers what nobody asked")
        verdict = owed.popleft()
        if verdict is None:
            stream.edit(len(line), "unknown", {})
        elif not verdict.allowed:
            said = {"decision": verdict.decision_id, "policies": ", ".join(verdict.policies)}
            stream.edit(len(line), "denied", said)
        else:
            is_bulk = line[:1] == b"$" and line != b"$-1\r\n"
            await stream.pass_on(len(line) + (int(line[1:]) + 2 if is_bulk else 0))

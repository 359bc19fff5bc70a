"""``svc why``: what may be told of a decision, and how to ask for what it denied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from attrs import asdict, evolve, frozen

from svc.cli import Globals
from svc.cli.control import run
from svc.cli.directory import own_directory_option
from svc.cli.output import hint, json_option, pairs, print_result
from svc.cli.person import able_person, with_reactor
from svc.cli.person_texts import how_to_ask, policies_say, rights_say, session_end
from svc.client.own_options import own_options, with_options

if TYPE_CHECKING:
    from svc.compose.person import PersonSide
    from svc.messages.session import Explanation

_ON_ITS_WAY = (0.3, 0.5, 0.7)
"""Seconds between questions for a decision that Authority does not know yet: a Proxy brings what it
decided twice a second, and a script may run the command as soon as it was printed."""

_NOT_TOLD = "this decision does not exist, or you are not permitted to see it"
_NOT_FOUND = (
    "no decision or session whose id begins so was found that you are permitted to see; many ids "
    "of others may begin so: type more digits, or the whole id; of a request in a session 22 "
    "digits or more"
)
_NO_TEXT = (
    "another person can approve only its exact text, and this Proxy has no text of the request (a "
    "statement whose parameters are sent apart has none; others are kept for 10 minutes by the "
    "Proxy that denied them): send it again with the values in it, or give it with --statement"
)


@click.command()
@click.argument("decision_id")
@own_directory_option
@json_option
@click.pass_obj
def why(globals_: Globals, decision_id: str, as_json: bool) -> int:
    """Explain a decision that was made about you.

    DECISION_ID is the id as the refusal printed it, or that of a session, which stands for the
    decision that let it open.  Its beginning is enough: at least 8 of the 32 digits, and as many as
    tell it from the ids of your other decisions and sessions.  Ids of requests in sessions begin
    with 10 digits of the Proxy and 12 of the time, so of those 22 or more are needed on a busy
    Proxy.
    """
    from svc.model.ids import is_random_id
    from svc.model.short_ids import LEAST_DECISION, is_beginning

    decision_id = decision_id.lower()
    if not (is_random_id(decision_id) or is_beginning(decision_id)):
        raise click.UsageError(
            "DECISION_ID must be the id as the refusal printed it, 32 hex digits, or at least the "
            f"first {LEAST_DECISION} of them"
        )
    side = able_person(globals_)
    answer = run(lambda reactor: _answer(with_reactor(side, reactor), decision_id))
    told = answer.told
    if not told.explained:
        hint([_NOT_TOLD if is_random_id(decision_id) else _NOT_FOUND])
        return 1
    options = own_options(globals_.config)
    print_result(
        as_json,
        explanation(told),
        pairs(
            [
                *([] if told.decision_id == decision_id else [("id", told.decision_id)]),
                ("decision", told.decision),
                ("reason", told.reason),
                *([("meaning", told.reason_text)] if told.reason_text else []),
                *([("what to do", with_options(told.hint, options))] if told.hint else []),
                ("policies", told.policies),
                ("action", told.action),
                ("resource", told.resource),
                ("policy version", told.policy_version),
                ("time", told.time),
                *policies_say(told),
                *rights_say(told),
                *session_end(told),
            ]
        ),
    )
    if not as_json:
        hint([_NO_TEXT] if answer.lacks_text else how_to_ask(told))
    return 0


def explanation(told: Explanation) -> dict[str, object]:
    """What is told of a decision, for programs; what is not known of it is null."""
    from svc.model.policy.requested import known_command

    told = evolve(told, request_hint=known_command(told.request_hint))
    shown = asdict(told, filter=lambda field, value: field.name != "explained")
    return {name: None if value == "" else value for name, value in shown.items()}


@frozen
class _Answer:
    """The explanation, and whether only the text to ask for is wanting."""

    told: Explanation
    lacks_text: bool = False


async def _answer(side: PersonSide, decision_id: str) -> _Answer:
    from twisted.internet.task import deferLater

    from svc.compose.access import access_client
    from svc.model.policy.requested import exact_command

    channel = await side.connect()
    try:
        dialer = side.dialer(lambda: channel)
        told = await dialer.why(decision_id)
        for pause in _ON_ITS_WAY:
            if told.explained:
                break
            await deferLater(side.runtime.reactor, pause)
            told = await dialer.why(decision_id)
        if told.request_hint == exact_command(told.decision_id):
            client = access_client(side.identity, side.runtime, lambda: channel)
            if await client.lacks_denied_text(told.decision_id):
                return _Answer(evolve(told, request_hint=""), lacks_text=True)
        return _Answer(told)
    finally:
        await channel.close()


__all__ = ["explanation", "why"]

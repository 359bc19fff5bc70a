"""``svc authority audit events``: what the audit log can hold."""

from __future__ import annotations

import click

from svc.cli.output import json_option, print_list


@click.command("events")
@json_option
def list_events(as_json: bool) -> None:
    """List every event of the audit log: its name, code, class, severity and details.

    Names and codes never change and are never used again.  Needs no configuration and no Authority.
    Events that a drop-in for a resource kind brings are not listed; their names begin with the
    name of the kind.
    """
    from svc.model.audit.events import CATALOGUE

    events = sorted(CATALOGUE, key=lambda one: one.code)
    forms = [
        {
            "event": one.name,
            "event_code": one.code,
            "event_class": one.event_class.value,
            "severity": one.severity.value,
            "text": one.meaning,
            "detail_names": [field.name for field in one.fields],
        }
        for one in events
    ]
    rows = [
        [one.name, one.code, one.event_class.value, one.severity.value, one.meaning]
        for one in events
    ]
    print_list(as_json, forms, ["EVENT", "CODE", "CLASS", "SEVERITY", "MEANING"], rows)

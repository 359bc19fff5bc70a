"""Commands that only ``svc`` itself starts."""

from __future__ import annotations

import click


@click.command(name="_policy-guard", hidden=True)
def policy_guard() -> int:
    """Try the policy text on stdin under limits; answer on stdout."""
    from svc.policy import child

    return child.main()

"""Asks yes or no at the terminal; a script gives an option instead."""

from __future__ import annotations

import sys

import click

from svc.errors import Fault, SvcError


class NotConfirmed(SvcError):
    """Who was asked said no."""

    fault = Fault.PRECONDITION
    reason = "not_confirmed"


def require_terminal(instead: str) -> None:
    """Return if somebody can be asked.

    Args:
        instead: The options that answer beforehand, such as ``--yes``.

    Raises:
        click.UsageError: stdin is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"this command asks before it acts, and stdin is not a terminal; give {instead}"
        )


def confirm(question: str) -> None:
    """Ask, after :func:`require_terminal`.

    Raises:
        NotConfirmed: the answer is no.
        click.Abort: interrupted.
    """
    if not click.confirm(question, err=True):
        raise NotConfirmed("you answered no; nothing was changed")

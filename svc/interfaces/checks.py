"""The seam of checks: a drop-in adds one to those of ``svc doctor``.

What it finds is told as :class:`svc.model.doctor.Finding`; ``ok``, ``info``, ``warn`` and
``fail`` there make them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import frozen
from zope.interface import Attribute, Interface

from svc.model.doctor import Finding


@frozen(kw_only=True)
class RoleFacts:
    """What a drop-in's check is told of the role.

    Attributes:
        role: ``authority``, ``proxy``, ``connector`` or ``client``.
        cluster: Its name; of a person who has not joined it is empty.
        config: The configuration file.
        state: The role's own directory.
        at: Seconds since the epoch, as of the start of the run.
    """

    role: str
    cluster: str
    config: Path
    state: Path
    at: float


class IRoleCheck(Interface):
    """What a drop-in ``check_<name>`` offers."""

    name: str = Attribute("The word operators write; after a dot the last part of the check's id.")
    category: str = Attribute("One of ``svc.model.doctor.CATEGORIES``: the first part of the id.")
    roles: tuple[str, ...] = Attribute("Whose roles it checks.")

    def find(facts: RoleFacts) -> Iterable[Finding]:
        """What there is to say; one finding or several.

        It only reads: it changes no file and takes no lock, and it runs beside the role.  It may
        block for a few seconds, in a thread of its own; after ten it is given up and counts as
        failed.  Whatever it raises counts as failed, too, and only the error's class is told.
        """

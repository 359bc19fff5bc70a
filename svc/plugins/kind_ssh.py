"""Drop-in: the resource kind ``ssh``."""

from svc.kinds.ssh import ssh

__all__ = ["ssh"]

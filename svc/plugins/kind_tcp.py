"""Drop-in: the resource kind ``tcp``."""

from svc.kinds.tcp import tcp

__all__ = ["tcp"]

"""svc: an access gateway.  The version lives here and nowhere else."""

__version__ = "0.11.0-rc.7"

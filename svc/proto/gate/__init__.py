"""Package ``gate``."""

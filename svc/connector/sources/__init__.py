"""The discovery sources that svc brings; each is the whole of a drop-in ``source_<name>``."""

"""The kind ``web``."""

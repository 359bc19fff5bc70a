"""Tests of svc.  The tree mirrors ``svc/``; whole processes live in ``tests/system``."""

"""Tests of ``svc.ops.replay``."""

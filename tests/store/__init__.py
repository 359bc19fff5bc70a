"""Tests of svc.store."""

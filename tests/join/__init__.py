"""Tests of svc.join."""

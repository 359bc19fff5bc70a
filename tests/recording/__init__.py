"""Tests of svc.recording."""

"""Tests of svc.pki."""

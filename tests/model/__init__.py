"""Tests of svc.model."""

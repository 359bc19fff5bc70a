"""Tests of :mod:`svc.authority.accounts`."""

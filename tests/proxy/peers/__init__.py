"""Tests of sessions between Proxies."""

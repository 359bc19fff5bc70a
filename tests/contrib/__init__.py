"""Tests of the project's own tooling under contrib/."""

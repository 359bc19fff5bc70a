"""Tests of the person's side."""

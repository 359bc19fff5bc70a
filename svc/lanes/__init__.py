"""Joining two byte streams, whatever carries them."""

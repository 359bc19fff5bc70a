"""Discovery at the Authority."""

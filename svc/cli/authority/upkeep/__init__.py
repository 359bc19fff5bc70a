"""Commands that look after the store, its backups and its state, and before an upgrade."""

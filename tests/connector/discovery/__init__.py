"""Discovery at a Connector."""

"""The Connector: keeps its tunnels, checks each session by itself, reaches the targets."""

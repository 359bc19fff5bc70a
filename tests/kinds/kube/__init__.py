"""The kind ``kube``."""

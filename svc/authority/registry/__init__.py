"""Nodes, people, groups, resources and who serves them, as operators change and list them."""

"""Who belongs to the cluster: nodes, people, their groups and tokens.

Each module holds the commands of one noun; :mod:`svc.cli.authority.commands` lists them.
"""

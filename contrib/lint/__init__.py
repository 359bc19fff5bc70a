"""Our own lints: the habits that ruff, mypy and import-linter cannot see.

Each module holds one family of rules as pure functions from a parsed source
file to findings.  ``python -m contrib.lint`` runs them over the tree.
"""

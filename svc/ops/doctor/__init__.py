"""The self-check: looks at one role and changes nothing.

No file is written, no lock or lease is taken, no migration is applied, and a store is opened to
read only.  It is one shelf: a module for each category of checks, and what several of them share.
Begin with ``run``, and see ``checks`` for the table of all checks.
"""

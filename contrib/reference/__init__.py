"""The pages of ``docs/reference``, made from the tables and commands in the code.

``python -m contrib.reference`` writes them; with ``--check`` it only compares.
"""

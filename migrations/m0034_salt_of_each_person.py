"""Give each person that is there already a salt of its own."""

import os


def up(statements):
    """Run inside the migration's transaction."""
    for (person_id,) in statements.all("SELECT id FROM persons"):
        statements.change("UPDATE persons SET salt = ? WHERE id = ?", os.urandom(16), person_id)

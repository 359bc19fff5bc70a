"""Redis' inline commands: a line for each, GET and SET and no others."""

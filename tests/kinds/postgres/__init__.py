"""The kind postgres: its parser, its gate, its login, its dialogue."""

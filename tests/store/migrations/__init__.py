"""Of each migration what went in before it, and what is there and what is refused after it."""

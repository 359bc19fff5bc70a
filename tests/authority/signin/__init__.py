"""People who sign in at an identity provider."""

"""The files in the person's directory by which programs and shells find the endpoints."""

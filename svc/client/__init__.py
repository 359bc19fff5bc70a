"""The person's side: dialing sessions, and the resident that keeps local endpoints."""

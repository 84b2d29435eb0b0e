"""Tenants, keys, jobs, events and the state of the server."""

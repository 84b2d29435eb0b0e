"""JSON Schemas from outside: limits, defaults and validation."""

"""Whether a candidate is new, told again, or takes the place of what was known."""

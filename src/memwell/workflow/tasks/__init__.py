"""Workflows of tasks: `defs` that say what there is, and a `flow` that says what is done (system S3)."""

"""Child processes with limits: `process` is the parent's side, `child` the child's."""

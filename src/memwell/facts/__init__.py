"""Facts: what is known, distilled from what was said, with evidence for each statement."""

"""What happens to memory over time: retention, erasure, and the jobs and workers that carry them out."""

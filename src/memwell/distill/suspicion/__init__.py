"""What looks like an instruction to an agent or like a secret."""

"""What a JSON Schema from outside may be, what it takes to check a value by it, and other forms of it."""

"""Where memory is kept: one small port, engines behind it, and all SQL in `.sql` files."""

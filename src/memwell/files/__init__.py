"""Files of sessions: kept with what is known of them (`kept`), read for search (`reading`), and given out (`links`)."""

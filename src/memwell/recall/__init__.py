"""Finding what is remembered: by its words, by its meaning and by its time, and saying why."""

"""The fault harness: workers that are killed, stopped and cut off, and a judge of what became of the units."""

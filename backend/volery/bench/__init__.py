"""The benchmark of whole workers, and what compares and breaks them."""

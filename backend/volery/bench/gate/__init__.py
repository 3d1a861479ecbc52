"""The gate: whether a candidate's results may take the place of a base's."""

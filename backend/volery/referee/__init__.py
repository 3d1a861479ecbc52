"""A second opinion on published words, from a model of another family."""

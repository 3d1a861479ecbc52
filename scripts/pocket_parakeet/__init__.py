"""Training and judging the pocket Parakeet: a FastConformer-TDT of two million parameters that hears digits."""

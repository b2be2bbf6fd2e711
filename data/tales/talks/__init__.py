"""Conversations about short stories: the part of the training text in which the bundled model learns to answer."""

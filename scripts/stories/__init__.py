"""Short English texts written from grammars: the training text of the bundled model (scripts/generate_stories.py)."""

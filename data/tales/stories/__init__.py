"""Short English texts written from grammars: the training text of the bundled model (data/tales/generate_stories.py)."""

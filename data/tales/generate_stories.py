#!/usr/bin/env python3
"""Writes the training text of the bundled model: stories and paragraphs made from the grammars in data/tales/stories.

Usage: data/tales/generate_stories.py --bytes N [--seed N] [--out FILE] [--separator LINE]
       data/tales/generate_stories.py --self-test
The same seed gives the same bytes on every machine. A line "<|endoftext|>" stands after each text.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # keeps the checkout clean

from stories.library import WEIGHTED, tell  # noqa: E402
from stories.rng import Rng  # noqa: E402

SEPARATOR = "<|endoftext|>"


def texts(seed: int) -> Iterator[str]:
    """Texts without end. Each has its own random numbers: new words in one plot leave the other texts as they are."""
    rng = Rng(seed)
    while True:
        own = Rng(rng.bits())
        yield tell(own, own.pick(WEIGHTED))


def write(out: TextIO, seed: int, n_bytes: int, separator: str) -> str:
    """Writes whole texts until there are n_bytes; returns a line that says what was written."""
    start = time.monotonic()
    n_written = n_texts = n_words = 0
    for text in texts(seed):
        if n_written >= n_bytes:
            break
        n_written += out.write(f"{text}\n{separator}\n")
        n_texts += 1
        n_words += len(text.split())
    seconds = time.monotonic() - start
    return f"{n_texts} texts, {n_words} words, {n_written} bytes, seed {seed}, in {seconds:.0f} s"


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Writes stories as training text.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=1 << 20, help="write at least this many bytes (default 1 MiB)")
    parser.add_argument("--out", help="the file to write (default: standard output)")
    parser.add_argument("--separator", default=SEPARATOR, help="the line after each text")
    parser.add_argument("--self-test", action="store_true", help="check the generator and its text")
    options = parser.parse_args()
    if options.bytes < 1:
        parser.error("--bytes must be at least 1")
    if options.self_test:
        from stories.check import self_test

        return self_test()
    try:
        if options.out:
            with open(options.out, "w", encoding="ascii", newline="\n") as out:
                wrote = write(out, options.seed, options.bytes, options.separator)
        else:
            wrote = write(sys.stdout, options.seed, options.bytes, options.separator)
    except (OSError, UnicodeEncodeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    print(f"{options.out or 'standard output'}: {wrote}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

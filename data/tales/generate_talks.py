#!/usr/bin/env python3
"""Writes the training text of the bundled model: conversations about short stories, and texts of generate_stories.py.

Usage: data/tales/generate_talks.py --bytes N [--seed N] [--plain PERCENT] [--brief|--echo] [--out FILE]
       data/tales/generate_talks.py --self-test
The same seed gives the same bytes on every machine. A line "<|endoftext|>" stands after each document.
"""

import argparse
import pathlib
import sys
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # keeps the checkout clean

from generate_stories import SEPARATOR, texts  # noqa: E402
from stories.rng import Rng  # noqa: E402
from talks.cast import Cast  # noqa: E402
from talks.talk import echo, make_talk, rendered  # noqa: E402


WINDOW_BYTES = 1840  # of the documents in one window of 512 tokens
MIN_BYTES = 350  # of a conversation
BRIEF_BYTES = 400  # of a brief one
ECHO_BYTES = 100  # of each half of an echo
SHORT_ECHO_BYTES = 60


def talk_bytes(rng: Rng, room: int) -> int:
    """The most bytes of a conversation: most of them fill the window, so that they are long."""
    size = MIN_BYTES + rng.below(1000)
    return room if rng.below(100) < 80 or room - size < MIN_BYTES else size


def documents(seed: int, plain_percent: int) -> Iterator[str]:
    """Documents without end: conversations, and as many plain texts as this percentage of the bytes. They come in
    groups that fill a window, so that --whole-documents leaves little room empty."""
    rng, plain, cast = Rng(seed), texts(seed), Cast(held_out=False)
    n_all = n_plain = room = 0
    text = next(plain)
    while True:
        if room < MIN_BYTES:
            room = WINDOW_BYTES
        if n_plain * 100 < n_all * plain_percent and len(text) <= room:
            n_bytes = len(text)
            yield text
            n_plain += n_bytes
            text = next(plain)
        else:
            talk = make_talk(Rng(rng.bits()), cast, talk_bytes(rng, room))
            n_bytes = talk.n_bytes
            if talk.turns:
                yield rendered(talk)
        n_all += n_bytes
        room -= n_bytes + MIN_BYTES // 20


def brief_documents(seed: int) -> Iterator[str]:
    """Without end: conversations about one short story, and as many echoes. They fit into a window of 128 tokens."""
    rng, cast = Rng(seed), Cast(held_out=False)
    while True:
        talk = make_talk(Rng(rng.bits()), cast, BRIEF_BYTES, is_brief=True)
        if talk.stories:
            yield rendered(talk)
        own = Rng(rng.bits())
        yield echo(own, cast, 20 + own.below(ECHO_BYTES - 20))


def echo_documents(seed: int) -> Iterator[str]:
    """Short echoes without end."""
    rng, cast = Rng(seed), Cast(held_out=False)
    while True:
        own = Rng(rng.bits())
        yield echo(own, cast, 6 + own.below(SHORT_ECHO_BYTES - 6))


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Writes conversations and stories as training text.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=1 << 20, help="write at least this many bytes (default 1 MiB)")
    parser.add_argument("--plain", type=int, default=33, help="percentage of plain texts (default 33)")
    parser.add_argument("--brief", action="store_true", help="only conversations about one short story")
    parser.add_argument("--echo", action="store_true", help="only words and their repetition")
    parser.add_argument("--out", help="the file to write (default: standard output)")
    parser.add_argument("--self-test", action="store_true", help="check the generator and its text")
    options = parser.parse_args()
    if options.self_test:
        from talks.check import self_test

        return self_test()
    out = open(options.out, "w", encoding="ascii", newline="\n") if options.out else sys.stdout
    n_bytes = n_documents = 0
    source = brief_documents(options.seed) if options.brief else documents(options.seed, options.plain)
    source = echo_documents(options.seed) if options.echo else source
    for text in source:
        if n_bytes >= options.bytes:
            break
        n_bytes += out.write(f"{text}\n{SEPARATOR}\n")
        n_documents += 1
    if options.out:
        out.close()
    print(f"{n_documents} documents, {n_bytes} bytes, seed {options.seed}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures how the bundled model answers: conversations with words and names that its training text does not have.

Usage: data/tales/measure.py [--program FILE] [--model FILE] [--talks N] [--temp X] [--seed N] [--wrong N] [--json FILE]
Each message of a generated conversation is asked after the generated messages before it. Prints the share of right
answers per kind of message: an answer to a question is right if it has the fact, a story if it names all that the user
asked for.
"ended" is the share of answers that end before 250 tokens.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # keeps the checkout clean

from stories.rng import Rng  # noqa: E402
from talks.cast import Cast  # noqa: E402
from talks.talk import Turn, make_talk  # noqa: E402

MAX_TOKENS = 250
TALK_BYTES, BRIEF_BYTES = 1600, 400  # of a conversation
GENERATED = re.compile(r"generated (\d+) tokens")


@dataclass(frozen=True)
class Case:
    """A prompt up to the answer, and the turn that it asks for."""

    prompt: str
    turn: Turn


def cases(seed: int, n_talks: int, is_brief: bool) -> list[Case]:
    """All answers of so many conversations."""
    rng, cast, found = Rng(seed), Cast(held_out=True), []
    for _ in range(n_talks):
        talk = make_talk(Rng(rng.bits()), cast, BRIEF_BYTES if is_brief else TALK_BYTES, is_brief)
        text = f"<|system|>{talk.system}<|end|>" if talk.system else ""
        for turn in talk.turns:
            text += f"<|user|>{turn.user}<|end|><|assistant|>"
            found.append(Case(text, turn))
            text += f"{turn.answer}<|end|>"
    return found


def answer_of(options: argparse.Namespace, prompt: str) -> tuple[str, bool]:
    """The model's answer to a prompt, and whether it ended by itself."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(prompt)
        file.flush()
        command = [options.program, "run", "--special", "-f", file.name, "-n", str(MAX_TOKENS), "-t", "1"]
        command += ["--temp", str(options.temp), "--seed", str(options.seed)]
        command += ["-m", options.model] if options.model else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    n_tokens = GENERATED.search(done.stderr)
    if n_tokens is None:
        sys.exit(f"unexpected log: {done.stderr}")
    return done.stdout.strip(), int(n_tokens[1]) < MAX_TOKENS


def is_right(turn: Turn, answer: str) -> bool:
    """Whether the answer has all texts of one of the turn's lists of signs."""
    spoken = answer.lower()
    return any(all(sign.lower() in spoken for sign in signs) for signs in turn.signs)


def group_of(kind: str) -> str:
    """The line of the table that a kind of message belongs to."""
    return kind.split(":")[0] if kind.startswith("small talk") else kind


def report(results: list[tuple[Case, str, bool]]) -> dict[str, dict[str, int]]:
    """Prints the table of kinds and returns its numbers."""
    rows: dict[str, dict[str, int]] = collections.defaultdict(lambda: {"n": 0, "checked": 0, "right": 0, "ended": 0})
    for case, answer, ended in results:
        kind = group_of(case.turn.kind)
        groups = [kind, "all", "all questions"] if kind.startswith("question") else [kind, "all"]
        for group in groups:
            row = rows[group]
            row["n"] += 1
            row["ended"] += ended
            row["checked"] += bool(case.turn.signs)
            row["right"] += bool(case.turn.signs) and is_right(case.turn, answer)
    print(f"{'kind':<24} {'n':>5} {'right':>7} {'ended':>7}")
    for kind in sorted(rows):
        row = rows[kind]
        right = f"{100 * row['right'] / row['checked']:.0f} %" if row["checked"] else ""
        print(f"{kind:<24} {row['n']:>5} {right:>7} {100 * row['ended'] / row['n']:>5.0f} %")
    return dict(rows)


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Measures how the bundled model answers.")
    parser.add_argument("--program", default="build/release/bin/tessera")
    parser.add_argument("--model", default="", help="default: the bundled one")
    parser.add_argument("--talks", type=int, default=40, help="number of conversations (default 40)")
    parser.add_argument("--temp", type=float, default=0.0, help="temperature (default 0: greedy)")
    parser.add_argument("--seed", type=int, default=1001)
    parser.add_argument("--brief", action="store_true", help="conversations about one short story")
    parser.add_argument("--wrong", type=int, default=0, help="print so many wrong answers")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    asked = cases(options.seed, options.talks, options.brief)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: answer_of(options, case.prompt), asked))
    results = [(case, *answer) for case, answer in zip(asked, answers, strict=True)]
    rows = report(results)
    wrong = [r for r in results if r[0].turn.signs and not is_right(r[0].turn, r[1])]
    for case, answer, _ in wrong[: options.wrong]:
        print(f"\n[{case.turn.kind}] {case.prompt[-700:]}\n  -> {answer}\n  wanted: {case.turn.signs}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Samples texts under grammars, and validates them with other programs.

    sampled_grammars.py [--tokens N] [--schemas N] [--grammars N] [--seed N] [--report FILE]

A small model writes at temperature 2 under JSON Schemas and GBNF grammars of the shared folder. Each text has its own
settings: with and without forced text, the default samplers or none but the temperature, JSON in the default spelling
or in any, the end of strings, arrays and objects as probable as the model finds it or more. A text fails if

  - the program ends with an error (stuck),
  - the grammar, read byte by byte, cannot continue the text, or the text ended by itself and is not complete,
  - the text is complete, and Ajv or llama.cpp refuses it.

Each failure is printed with its schema, flags and text. The exit status is 1 if there are any. Needs node, npm, a C++
compiler and nlohmann-json3-dev. Environment variables:
  BUILD_DIR        folder with the program (default: build/release)
  CACHE_DIR        folder for npm's packages and the recogniser (default: build/bench)
  TESSERA_SHARED   folder with models, schemas and grammars (default: ../shared)
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["ajv@8.20.0", "ajv-formats@3.0.1", "ajv-draft-04@1.0.0", "@node-llama-cpp/linux-x64@3.22.1"]
PEER = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
ANY_SPELLING = {"order": "any", "space": "any", "spelling": "any"}
LENGTHS = [100, 400, 1500]
MAX_OUTPUTS = 2000  # of a grammar


class Tools:
    """The programs that sample and judge."""

    def __init__(self):
        cache = pathlib.Path(os.environ.get("CACHE_DIR", ROOT / "build/bench")).resolve()
        self.program = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build/release")).resolve() / "bin/tessera"
        self.shared = pathlib.Path(os.environ.get("TESSERA_SHARED", ROOT / "../shared")).resolve()
        self.model = self.shared / "models/stories260K.gguf"
        self.cache = cache
        cache.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", cache]
        subprocess.run([*install, *PACKAGES], check=True)
        self.recogniser = cache / "peer_grammar"
        source = ROOT / "bench/peer_grammar.cpp"
        subprocess.run(["c++", "-std=c++20", "-O2", "-o", self.recogniser, source, "-ldl"], check=True)
        self.closing = [self._token(text) for text in ('"', "]", "}")]

    def _token(self, text):
        """Returns the id of the token of a text."""
        command = [self.program, "tokenize", "-q", "-m", self.model, "-p", "x" + text]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[-1]

    @staticmethod
    def _rows(command, rows, **options):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        result = subprocess.run(command, input=text, capture_output=True, text=True, check=True, **options)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        if len(answers) != len(rows):
            sys.exit(f"sampled_grammars: {command[0]}: {len(answers)} answers for {len(rows)} rows")
        return answers

    def read(self, rows):
        return self._rows([self.program, "grammar", "--batch"], rows)

    def ajv(self, rows):
        return self._rows(["node", ROOT / "scripts/validate_json.mjs"], rows, cwd=self.cache)

    def llamacpp(self, rows):
        return self._rows([self.recogniser, self.cache / PEER, self.model, "check"], rows)

    def sample(self, flags):
        """Returns (text, its number of tokens, error or None)."""
        command = [self.program, "run", "-v", "-t", "1", "-m", self.model, "-p", "Once", "-c", "2048", *flags]
        result = subprocess.run(command, capture_output=True, check=False)
        log = result.stderr.decode(errors="replace")
        counted = re.search(r"generated (\d+) tokens", log)
        error = None if result.returncode == 0 and counted else log.strip() or f"status {result.returncode}"
        return result.stdout.removesuffix(b"\n"), int(counted[1]) if counted else 0, error


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def schemas_of(tools, n, generator):
    """Returns a schema of each of n equal parts of the list: one that tessera and Ajv can compile."""
    rows = lines_of(tools.shared / "golden/json-schema/real.jsonl")

    def is_usable(row):
        plain = {"schema": row["schema"], "texts": []}
        ours, theirs = tools.read([plain, plain | ANY_SPELLING]), tools.ajv([plain])[0]
        return not any("error" in answer for answer in ours) and "refused" not in theirs

    picked = []
    for i in range(n):
        part = rows[i * len(rows) // n:(i + 1) * len(rows) // n]
        generator.shuffle(part)
        picked += itertools.islice(filter(is_usable, part), 1)
    return [{"name": row["name"], "schema": row["schema"]} for row in picked]


def grammars_of(tools, n, generator):
    """Returns grammars without tokens of which llama.cpp accepts and refuses the same texts."""
    tests = [{"name": row["id"], "gbnf": row["grammar"], "texts": row["accept"] + row["reject"] + row["prefix"]}
             for row in lines_of(tools.shared / "golden/grammars.jsonl") if "error" not in row]
    with_tokens = re.compile(r'("[^"\n]*"|\[[^\]\n]*\])|<[^>\n]*>')
    tests = [test for test in tests if all(match[1] for match in with_tokens.finditer(test["gbnf"]))]
    answers = zip(tests, tools.read(tests), tools.llamacpp(tests))
    usable = [test for test, ours, theirs in answers if ours == theirs]
    return [{key: test[key] for key in ("name", "gbnf")} for test in generator.sample(usable, min(n, len(usable)))]


def flags_of(seed, item, closing, limit):
    """Returns the settings of a text: its limit of tokens, flags, and keys of a row for --batch."""
    generator = random.Random(seed)
    length, keys = min(generator.choice(LENGTHS), limit), {}
    flags = ["--temp", "2", "--seed", str(seed), "-n", str(length)]
    if generator.random() < 0.5:
        flags += ["--top-k", "0", "--top-p", "1", "--min-p", "0"]
    if generator.random() < 0.5:
        flags += ["--no-forced-text"]
    if "schema" in item and generator.random() < 0.3:
        keys = ANY_SPELLING
        flags += ["--json-output", ",".join(f"{key}={value}" for key, value in keys.items())]
    # Without this, most strings and arrays are longer than the limit.
    if "schema" in item and generator.random() < 0.85:
        bias = generator.choice([6, 9, 12])
        flags += [flag for token in closing for flag in ("--logit-bias", f"{token}+{bias}")]
    return length, flags, keys


def decoded(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


class Samples:
    """The texts of one grammar, and their faults."""

    def __init__(self, tools, item, source, first_seed):
        self.tools, self.item, self.source, self.first_seed = tools, item, source, first_seed
        self.texts, self.faults = [], []
        self.n_outputs = self.n_tokens = self.n_ended = self.n_judged = self.n_stuck = 0
        self.source.write_text(item["gbnf"] if "gbnf" in item else json.dumps(item["schema"]), encoding="utf-8")
        self.source_flag = "--grammar-file" if "gbnf" in item else "-jf"

    def fault(self, kind, flags, text, detail):
        self.faults.append({"name": self.item["name"], "kind": kind, "flags": " ".join([self.source_flag, *flags]),
                            "text": text, "detail": detail})

    def sample(self, n_tokens):
        """Adds texts that have this many tokens, as far as the number of texts allows."""
        n_tokens += self.n_tokens
        while self.n_tokens < n_tokens and self.n_outputs < MAX_OUTPUTS:
            self.n_outputs += 1
            seed = self.first_seed + self.n_outputs
            length, flags, keys = flags_of(seed, self.item, self.tools.closing, n_tokens - self.n_tokens)
            raw, n, error = self.tools.sample([self.source_flag, str(self.source), *flags])
            # An answer without tokens counts as one, so that the loop ends.
            self.n_tokens += max(n, 1)
            text = decoded(raw)
            if error:
                self.n_stuck += 1
                self.fault("stuck", flags, raw.decode(errors="replace"), error)
            elif text is None:
                self.fault("invalid", flags, repr(raw), "not UTF-8")
            else:
                # The last character may be cut at the limit; the program prints U+FFFD for it.
                ended = n < length
                self.texts.append((text if ended else text.removesuffix("\ufffd"), ended, flags, keys))
                self.n_ended += ended

    def read(self):
        """Returns the answers of --batch for the texts."""
        groups = {}
        for i, (_, _, _, keys) in enumerate(self.texts):
            groups.setdefault(json.dumps(keys), []).append(i)
        grammar = {key: value for key, value in self.item.items() if key != "name"}
        rows = [grammar | json.loads(keys) | {"texts": [self.texts[i][0] for i in group]}
                for keys, group in groups.items()]
        answers = [None] * len(self.texts)
        for group, answer in zip(groups.values(), self.tools.read(rows)):
            for i, accepted, prefix in zip(group, answer["accepted"], answer["prefix"]):
                answers[i] = accepted, prefix
        return answers

    def judge(self):
        complete = []
        for (text, ended, flags, _), (accepted, prefix) in zip(self.texts, self.read()):
            if accepted:
                # A token of llama.cpp ends before a zero byte, so its grammars cannot read one.
                if "schema" in self.item or "\0" not in text:
                    complete.append((text, flags))
            elif ended or prefix != len(text.encode()):
                self.fault("invalid", flags, text, f"tessera grammar --batch reads {prefix} bytes")
        self.n_judged = len(complete)
        texts = [text for text, _ in complete]
        if "schema" in self.item:
            errors = self.tools.ajv([{"schema": self.item["schema"], "texts": texts}])[0]["errors"]
        else:
            answer = self.tools.llamacpp([{"gbnf": self.item["gbnf"], "texts": texts}])[0]
            errors = [None if accepted else f"llama.cpp reads {prefix} bytes"
                      for accepted, prefix in zip(answer["accepted"], answer["prefix"])]
        for (text, flags), error in zip(complete, errors):
            if error:
                self.fault("invalid", flags, text, error)

    def summary(self):
        return {"name": self.item["name"], "tokens": self.n_tokens, "outputs": self.n_outputs, "ended": self.n_ended,
                "judged": self.n_judged, "stuck": self.n_stuck, "invalid": len(self.faults) - self.n_stuck}


def sample_all(all_samples, n_tokens):
    """Samples at least this many tokens, about as many for each grammar that has no short texts only."""
    while n_tokens > 0:
        active = [samples for samples in all_samples if samples.n_outputs < MAX_OUTPUTS]
        if not active:
            return
        share = n_tokens // len(active) + 1
        for samples in active:
            before = samples.n_tokens
            samples.sample(share)
            n_tokens -= samples.n_tokens - before
            print(f"{samples.item['name']}: {samples.n_tokens} tokens, {n_tokens} left", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1000000, metavar="N", help="in all (default 1000000)")
    parser.add_argument("--schemas", type=int, default=50, metavar="N", help="(default 50)")
    parser.add_argument("--grammars", type=int, default=20, metavar="N", help="(default 20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the choice of schemas (default 1)")
    parser.add_argument("--report", metavar="FILE", help="write a JSON object per grammar and failure")
    args = parser.parse_args()
    tools, start, generator = Tools(), time.monotonic(), random.Random(args.seed)
    items = schemas_of(tools, args.schemas, generator) + grammars_of(tools, args.grammars, generator)
    with tempfile.TemporaryDirectory() as folder:
        all_samples = [Samples(tools, item, pathlib.Path(folder) / str(i), (args.seed * 1000 + i) * MAX_OUTPUTS)
                       for i, item in enumerate(items)]
        sample_all(all_samples, args.tokens)
        for samples in all_samples:
            samples.judge()
    rows = [samples.summary() for samples in all_samples]
    faults = [fault for samples in all_samples for fault in samples.faults]
    for fault in faults:
        print(json.dumps(fault, ensure_ascii=False))
    if args.report:
        pathlib.Path(args.report).write_text("".join(json.dumps(row) + "\n" for row in rows + faults), encoding="utf-8")
    total = {key: sum(row[key] for row in rows) for key in rows[0] if key != "name"}
    n_schemas = sum("schema" in item for item in items)
    print(f"{n_schemas} schemas, {len(items) - n_schemas} grammars: " +
          ", ".join(f"{value} {key}" for key, value in total.items()) + f"; {time.monotonic() - start:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

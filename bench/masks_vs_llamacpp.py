#!/usr/bin/env python3
"""Compares the time of grammar masks with that of llama.cpp's grammars, on the same JSON Schemas and texts.

    masks_vs_llamacpp.py [--every N] [--rounds N]

The first table counts what both programs make of the schemas and texts of the shared folder. Each reads compact JSON
with the members as they come.

The second table has times, for every N-th schema that has a valid text, with its valid texts. Both programs compile the
schema, find the first mask, then read each token of the text and find the mask after it, over the whole vocabulary.
Schemas and texts that llama.cpp refuses are left out for both. The programs run in turns. Times of llama.cpp are pooled
over the rounds; those of tessera are medians of the rounds' figures.

Needs npm, a C++ compiler and nlohmann-json3-dev. Environment variables:
  BUILD_DIR        folder with the program (default: build/release)
  CACHE_DIR        folder for npm's packages and the peer's program (default: build/bench)
  TESSERA_SHARED   folder with the schemas and the vocabulary (default: ../shared)
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"  # llama.cpp v0.5.0
PEER = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1}


def rows_of(path):
    """Returns the schemas that have texts."""
    with open(path, encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if row["tests"]]


def valid_rows(rows):
    """Returns the schemas that have valid texts, with these only."""
    rows = [row | {"tests": [test for test in row["tests"] if test["valid"]]} for row in rows]
    return [row for row in rows if row["tests"]]


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def quantiles(times):
    times = sorted(times)
    return {name: times[int(share * (len(times) - 1))] for name, share in SHARES.items()} | {
        "mean": statistics.fmean(times), "n": len(times)}


def ours(program, path, vocab):
    totals = json.loads(run([program, "bench", "-q", "--masks", path, "-m", vocab, "-o", "json"]))
    return {"mask": totals["mask_us"], "first mask": totals["first_mask_us"]}


def theirs(program, libraries, path, vocab):
    with open(path, encoding="utf-8") as file:
        output = run([program, libraries, vocab, "masks"], stdin=file, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in output.splitlines()]


def print_verdicts(commands, rows):
    """Prints the table of the schemas refused, and of wrong verdicts about texts of the others."""
    texts = [[json.dumps(test["data"], separators=(",", ":"), ensure_ascii=False) for test in row["tests"]]
             for row in rows]
    source = "".join(json.dumps({"schema": row["schema"], "texts": text}) + "\n" for row, text in zip(rows, texts))
    print(f"| {len(rows)} schemas | schemas refused | valid texts refused | invalid texts accepted |")
    print("|---|--:|--:|--:|")
    for name, command in commands.items():
        answers = [json.loads(line) for line in run(command, input=source, stderr=subprocess.DEVNULL).splitlines()]
        verdicts = [(test["valid"], accepted) for row, answer in zip(rows, answers)
                    for test, accepted in zip(row["tests"], answer.get("accepted", []))]
        n_valid, n_refused = sum(valid for valid, _ in verdicts), sum("error" in answer for answer in answers)
        wrong = [verdicts.count((True, False)), verdicts.count((False, True))]
        print(f"| {name} | {n_refused} | {wrong[0]:,} of {n_valid:,} | {wrong[1]:,} of {len(verdicts) - n_valid:,} |")


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def texts_read(row, answer):
    """Returns the texts that llama.cpp accepts."""
    return [test for test, accepted in zip(row["tests"], answer["accepted"]) if accepted]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=20, metavar="N", help="take each N-th schema (default 20)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each program (default 3)")
    args = parser.parse_args()
    build = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build/release")).resolve()
    cache = pathlib.Path(os.environ.get("CACHE_DIR", ROOT / "build/bench")).resolve()
    shared = pathlib.Path(os.environ.get("TESSERA_SHARED", ROOT / "../shared")).resolve()
    vocab = shared / "vocab/deepseek-llm.gguf"
    cache.mkdir(parents=True, exist_ok=True)
    run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", cache, PACKAGE])
    peer = cache / "peer_grammar"
    run(["c++", "-std=c++20", "-O2", "-o", peer, ROOT / "bench/peer_grammar.cpp", "-ldl"])
    rows = rows_of(shared / "golden/json-schema/real.jsonl")
    print_verdicts({"tessera": [build / "bin/tessera", "grammar", "--batch"],
                    "llama.cpp": [peer, cache / PEER, shared / "models/stories260K.gguf", "check"]}, rows)
    rows = valid_rows(rows)[::args.every]
    our_rounds, their_rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.jsonl"
        for _ in range(args.rounds):
            write_rows(path, rows)
            answers = theirs(peer, cache / PEER, path, vocab)
            their_rows += answers
            write_rows(path, [row | {"tests": texts_read(row, answer)} for row, answer in zip(rows, answers)
                              if "error" not in answer])
            our_rounds.append(ours(build / "bin/tessera", path, vocab))
    compiled = [row for row in their_rows if "error" not in row]
    texts = [text for row in compiled for text in zip(row["masks_us"], row["accepted"])]
    their_times = {"mask": quantiles([time for times, accepted in texts if accepted for time in times]),
                   "first mask": quantiles([row["first_mask_us"] for row in compiled])}
    n_texts = sum(accepted for _, accepted in texts) // args.rounds
    print(f"\n{len(rows)} schemas, {n_texts} texts, {args.rounds} rounds")
    print("| microseconds | | n | " + " | ".join([*SHARES, "mean"]) + " |")
    print("|---|---|--:|" + "--:|" * (len(SHARES) + 1))
    for name, quantile in their_times.items():
        medians = {key: statistics.median(times[name][key] for times in our_rounds) for key in quantile}
        medians["n"] = sum(times[name]["n"] for times in our_rounds)
        for program, values in ("tessera", medians), ("llama.cpp", quantile):
            cells = [f"{values[key]:,.1f}" for key in [*SHARES, "mean"]]
            print(f"| {name} | {program} | {values['n']:,} | " + " | ".join(cells) + " |")
        ratios = [f"{quantile[key] / medians[key]:,.0f}" for key in [*SHARES, "mean"]]
        print(f"| {name} | llama.cpp / tessera | | " + " | ".join(ratios) + " |")


if __name__ == "__main__":
    main()

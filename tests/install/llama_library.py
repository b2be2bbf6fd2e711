#!/usr/bin/env python3
"""Uses each libllama.so as a Python binding does: llama_library.py LIBDIR HEADER MODEL PROMPT N_TOKENS

LIBDIR has tessera/llama/LAYOUT/libllama.so. Every function that HEADER declares must be in each. Prints the text that a
model tells, which must be the same through all of them.
"""
import ctypes
import os
import re
import sys

# Per layout: the bytes of llama_model_params and llama_context_params, and the offset of n_threads.
LAYOUTS = {"0.5": (80, 160, 28), "2026-08": (72, 160, 24), "2026-05": (72, 144, 20)}
POINTER = ctypes.c_void_p


def bytes_struct(n):
    """A struct that is passed by value, of which only the size matters."""
    return type(f"Bytes{n}", (ctypes.Structure,), {"_fields_": [("words", ctypes.c_uint64 * (n // 8))]})


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32)] + [
        (name, POINTER) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


class ChainParams(ctypes.Structure):
    _fields_ = [("no_perf", ctypes.c_bool)]


class Llama:
    """A library with a loaded model, a context and a greedy sampler."""

    def __init__(self, path, layout, model):
        n_model, n_context, threads_at = LAYOUTS[layout]
        self.lib = ctypes.CDLL(path)
        model_params, context_params = bytes_struct(n_model), bytes_struct(n_context)
        self.model = self.call("llama_model_load_from_file", POINTER, (ctypes.c_char_p, model_params), model.encode(),
                               self.call("llama_model_default_params", model_params, ()))
        params = self.call("llama_context_default_params", context_params, ())
        threads = (ctypes.c_int32 * 2).from_buffer(params, threads_at)
        if list(threads) != [4, 4]:
            sys.exit(f"{layout}: n_threads is {list(threads)}")
        threads[0] = threads[1] = 1
        self.context = self.call("llama_init_from_model", POINTER, (POINTER, context_params), self.model, params)
        if not self.context:
            sys.exit(f"{layout}: no context")
        self.vocab = self.call("llama_model_get_vocab", POINTER, (POINTER,), self.model)
        self.chain = self.call("llama_sampler_chain_init", POINTER, (ChainParams,),
                               self.call("llama_sampler_chain_default_params", ChainParams, ()))
        penalties = (0, 1.5, 0, 0) if layout == "2026-05" else (512, 0, 1.5, 0, 0)
        kinds = [ctypes.c_int32] * (len(penalties) - 3) + [ctypes.c_float] * 3
        for sampler in (self.call("llama_sampler_init_penalties", POINTER, kinds, *penalties),
                        self.call("llama_sampler_init_greedy", POINTER, ())):
            self.call("llama_sampler_chain_add", None, (POINTER, POINTER), self.chain, sampler)

    def call(self, name, result, kinds, *arguments):
        function = getattr(self.lib, name)
        function.restype, function.argtypes = result, list(kinds)
        return function(*arguments)

    def tokens(self, text):
        room = (ctypes.c_int32 * 200)()
        n = self.call("llama_tokenize", ctypes.c_int32,
                      (POINTER, ctypes.c_char_p, ctypes.c_int32, POINTER, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool),
                      self.vocab, text.encode(), len(text.encode()), room, 200, True, False)
        return list(room[:n])

    def decode(self, tokens):
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        batch = self.call("llama_batch_get_one", Batch, (POINTER, ctypes.c_int32), array, len(tokens))
        if self.call("llama_decode", ctypes.c_int32, (POINTER, Batch), self.context, batch):
            sys.exit("llama_decode failed")

    def text(self, tokens):
        buffer, array = ctypes.create_string_buffer(2000), (ctypes.c_int32 * len(tokens))(*tokens)
        n = self.call("llama_detokenize", ctypes.c_int32,
                      (POINTER, POINTER, ctypes.c_int32, POINTER, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool),
                      self.vocab, array, len(tokens), buffer, 2000, False, False)
        return buffer.raw[:n].decode()

    def tell(self, prompt, n_tokens):
        tokens = self.tokens(prompt)
        self.decode(tokens)
        for _ in range(n_tokens):
            tokens.append(self.call("llama_sampler_sample", ctypes.c_int32, (POINTER, POINTER, ctypes.c_int32),
                                    self.chain, self.context, -1))
            self.decode(tokens[-1:])
        return self.text(tokens)

    def close(self):
        for name, handle in (("llama_sampler_free", self.chain), ("llama_free", self.context),
                             ("llama_model_free", self.model)):
            self.call(name, None, (POINTER,), handle)


def main(libdir, header, model, prompt, n_tokens):
    with open(header, encoding="utf-8") as file:
        names = set(re.findall(r"\b(llama_[a-z0-9_]+)\(", file.read()))
    if len(names) != 241:
        sys.exit(f"{header}: {len(names)} functions, want 241")
    texts = set()
    for layout in LAYOUTS:
        path = os.path.join(libdir, "tessera/llama", layout, "libllama.so")
        llama = Llama(path, layout, model)
        missing = [name for name in sorted(names) if not hasattr(llama.lib, name)]
        if missing:
            sys.exit(f"{layout}: without {', '.join(missing)}")
        texts.add(llama.tell(prompt, int(n_tokens)))
        llama.close()
    print("\n".join(sorted(texts)).lstrip())


main(*sys.argv[1:])

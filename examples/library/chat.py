#!/usr/bin/env python3
"""Continues a text with a model, by ctypes alone: chat.py MODEL.gguf PROMPT [TOKENS]

The library is libtessera.so.1, or that of the environment variable LIBTESSERA.
"""
import ctypes
import os
import sys

lib = ctypes.CDLL(os.environ.get("LIBTESSERA", "libtessera.so.1"))
Handle = ctypes.c_void_p


class Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("status", ctypes.c_int32), ("text", ctypes.c_char * 504)]


class Generated(ctypes.Structure):
    _fields_ = [("token", ctypes.c_int32), ("stop", ctypes.c_int32), ("text", ctypes.c_void_p),
                ("n_bytes", ctypes.c_uint64)]


class SamplerOptions(ctypes.Structure):
    """The first members: the size says where the struct ends, and the others have their defaults."""
    _fields_ = [("size", ctypes.c_uint32), ("n_prev", ctypes.c_int32), ("seed", ctypes.c_int64),
                ("order", ctypes.c_char_p), ("min_keep", ctypes.c_int32), ("temperature", ctypes.c_float)]


lib.tessera_session_n_ctx.restype = ctypes.c_int64


def call(name, *arguments):
    """Calls a function that returns a status and takes an error last."""
    error = Error(size=ctypes.sizeof(Error))
    if getattr(lib, "tessera_" + name)(*arguments, ctypes.byref(error)):
        raise RuntimeError(error.text.decode(errors="replace"))


def created(name, *arguments):
    """Calls a function that writes a handle to its argument before the error."""
    handle = Handle()
    call(name, *arguments, ctypes.byref(handle))
    return handle


def tokenize(model, text):
    data = text.encode()
    room = len(data) + 2
    tokens, needed = (ctypes.c_int32 * room)(), ctypes.c_uint64()
    call("tokenize", model, data, ctypes.c_int64(len(data)), ctypes.c_uint32(1), tokens, ctypes.c_uint64(room),
         ctypes.byref(needed))
    return tokens, needed


def main(path, prompt, n_predict=0):
    runtime = created("runtime_create", None)
    model = created("model_open", runtime, path.encode(), None)
    call("model_load", model, None, None, None)
    session = created("session_create", model, None)
    options = SamplerOptions()
    lib.tessera_sampler_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
    options.temperature = 0  # always the most probable token
    sampler = created("sampler_create", model, ctypes.byref(options), ctypes.c_int64(lib.tessera_session_n_ctx(session)))
    generation = created("generation_create", session, sampler, ctypes.c_int32(0), None)
    tokens, count = tokenize(model, prompt)
    call("generation_start", generation, tokens, count, None)
    print(prompt, end="")
    generated, n = Generated(), 0
    while n_predict == 0 or n < n_predict:
        call("generation_next", generation, ctypes.byref(generated), None)
        print(ctypes.string_at(generated.text, generated.n_bytes).decode(), end="", flush=True)
        if generated.token < 0:
            break
        n += 1
    print()
    for name, handle in (("generation", generation), ("sampler", sampler), ("session", session), ("model", model),
                         ("runtime", runtime)):
        getattr(lib, f"tessera_{name}_release")(handle)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    except RuntimeError as error:
        sys.exit(f"error: {error}")

#!/usr/bin/env python3
"""Writes a model with smaller types, by ctypes alone: quantize.py MODEL.gguf OUTPUT.gguf TYPE

The library is libtessera.so.1, or that of the environment variable LIBTESSERA.
"""
import ctypes
import os
import sys

lib = ctypes.CDLL(os.environ.get("LIBTESSERA", "libtessera.so.1"))
PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_float)


class Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("status", ctypes.c_int32), ("text", ctypes.c_char * 504)]


class Options(ctypes.Structure):
    """The first members: the size says where the struct ends, and the others have their defaults."""
    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("type", ctypes.c_char_p)]


class Written(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("n_files", ctypes.c_uint32), ("n_tensors", ctypes.c_uint64),
                ("n_values", ctypes.c_uint64), ("n_bytes_before", ctypes.c_uint64), ("n_bytes", ctypes.c_uint64)]


def call(name, *arguments):
    """Calls a function that returns a status and takes an error last."""
    error = Error(size=ctypes.sizeof(Error))
    if getattr(lib, "tessera_" + name)(*arguments, ctypes.byref(error)):
        raise RuntimeError(error.text.decode(errors="replace"))


@PROGRESS
def show(_, share):
    if sys.stderr.isatty():
        print(f"\r{100 * share:3.0f}%", end="\n" if share == 1 else "", file=sys.stderr)
    return 0  # another number stops the call


def main(model, output, file_type):
    runtime = ctypes.c_void_p()
    call("runtime_create", None, ctypes.byref(runtime))
    options = Options()
    lib.tessera_quantize_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
    options.type = file_type.encode()
    written = Written(size=ctypes.sizeof(Written))
    call("quantize", runtime, model.encode(), output.encode(), ctypes.byref(options), show, None, None,
         ctypes.byref(written))
    print(f"{written.n_tensors} tensors, {written.n_bytes} bytes from {written.n_bytes_before}")
    lib.tessera_runtime_release(runtime)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except RuntimeError as error:
        sys.exit(f"error: {error}")

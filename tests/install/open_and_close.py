#!/usr/bin/env python3
"""Opens a library, uses it and closes it, 100 times: open_and_close.py LIBRARY COPY MODEL

The copy is open meanwhile, with a model of its own. Prints how many threads the process has at the end, and whether it
has kept memory or mapped files.
"""
import ctypes
import gc
import os
import sys
from _ctypes import dlclose


class Model:
    """A runtime and a loaded model of a library."""

    def __init__(self, lib, path):
        self.lib, self.runtime, self.model = lib, ctypes.c_void_p(), ctypes.c_void_p()
        calls = (lambda: lib.tessera_runtime_create(None, ctypes.byref(self.runtime), None),
                 lambda: lib.tessera_model_open(self.runtime, path.encode(), None, ctypes.byref(self.model), None),
                 lambda: lib.tessera_model_load(self.model, None, None, None, None),
                 self.use)
        for number, call in enumerate(calls):
            if call():
                sys.exit(f"call {number} failed")

    def use(self):
        """A session that has decoded a token, so that its threads have run."""
        session, token = ctypes.c_void_p(), ctypes.c_int32(5)
        status = self.lib.tessera_session_create(self.model, None, ctypes.byref(session), None)
        status = status or self.lib.tessera_session_append(session, 0, ctypes.byref(token), ctypes.c_uint64(1), 1, None,
                                                           None)
        self.lib.tessera_session_release(session)
        return status

    def close(self):
        self.lib.tessera_model_release(self.model)
        self.lib.tessera_runtime_release(self.runtime)


class MallocInfo(ctypes.Structure):
    """struct mallinfo2 of glibc, whose eighth member counts the bytes in use, and the second to fifth those mapped."""

    _fields_ = [("members", ctypes.c_size_t * 10)]


def kept():
    """The bytes that malloc() has given out, and the number of mapped areas."""
    gc.collect()
    get = ctypes.CDLL(None).mallinfo2
    get.restype = MallocInfo
    members = get().members
    with open("/proc/self/maps", encoding="ascii") as maps:
        return members[7] + members[4], sum(1 for _ in maps)


def main(library, copy, path):
    other = Model(ctypes.CDLL(copy), path)
    n, n_warm = 100, 10
    for i in range(n):
        lib = ctypes.CDLL(library)
        Model(lib, path).close()
        dlclose(lib._handle)
        if i + 1 == n_warm:
            before = kept()
    bytes_kept, areas_kept = (late - early for early, late in zip(before, kept()))
    if other.use():
        sys.exit("the copy failed")
    other.close()
    n_threads = len(os.listdir("/proc/self/task"))
    print(f"{n} times, {n_threads} thread{'' if n_threads == 1 else 's'}")
    few = bytes_kept < 64 * 1024 and areas_kept < 10  # of the interpreter's own; 90 times a kilobyte would be more
    print("nothing is kept" if few else f"{bytes_kept} bytes and {areas_kept} mapped areas are kept")


main(*sys.argv[1:])

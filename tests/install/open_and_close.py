#!/usr/bin/env python3
"""Opens a library, uses it and closes it, 50 times: open_and_close.py LIBRARY COPY MODEL

The copy is open meanwhile, with a model of its own. Prints how many threads the process has at the end.
"""
import ctypes
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


def main(library, copy, path):
    other = Model(ctypes.CDLL(copy), path)
    n = 50
    for _ in range(n):
        lib = ctypes.CDLL(library)
        Model(lib, path).close()
        dlclose(lib._handle)
    if other.use():
        sys.exit("the copy failed")
    other.close()
    n_threads = len(os.listdir("/proc/self/task"))
    print(f"{n} times, {n_threads} thread{'' if n_threads == 1 else 's'}")


main(*sys.argv[1:])

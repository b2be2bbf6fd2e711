"""Opens libggml and libllama by each of their names as programs do: open_ggml.py FOLDER MODEL"""
import ctypes
import os
import sys

folder, model = sys.argv[1:]


class InitParams(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


def function(library, name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


libraries = [ctypes.CDLL(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if "ggml" in name]
for ggml in libraries:
    gguf = function(ggml, "gguf_init_from_file", ctypes.c_void_p, ctypes.c_char_p, InitParams)(
        model.encode(), InitParams(True, None))
    key = function(ggml, "gguf_find_key", ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p)(
        gguf, b"general.architecture")
    architecture = function(ggml, "gguf_get_val_str", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)(gguf, key)
    function(ggml, "gguf_free", None, ctypes.c_void_p)(gguf)
    device = function(ggml, "ggml_backend_dev_by_type", ctypes.c_void_p, ctypes.c_int)(0)
    name = function(ggml, "ggml_backend_dev_name", ctypes.c_char_p, ctypes.c_void_p)(device)
    kind = function(ggml, "ggml_type_name", ctypes.c_char_p, ctypes.c_int)(12)
llama = ctypes.CDLL(os.path.join(folder, "libllama.so"))
version = function(llama, "llama_version", ctypes.c_char_p)()
print(", ".join(text.decode() for text in (kind, name, architecture, version)))

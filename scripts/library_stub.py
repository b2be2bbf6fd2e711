#!/usr/bin/env python3
"""Writes what is compared of the ABI of a header: library_stub.py HEADER FOLDER

The files in the folder are:
  stub.c        a library that does nothing. Compiled with -g and the version script of the library, it has all that
                abidw compares: names, versions, parameters and structs. So the check needs no debug build of the engine.
  constants     the named constants, which abidw does not see
  suppressions  for abidiff: structs that begin with their size may grow at their end
"""
import os
import re
import sys

import library_header

CONSTANT = re.compile(r"\b(TESSERA_[A-Z0-9_]+) = (-?\d+)\b")
SIZED = re.compile(r"typedef struct \w+ \{\s*uint32_t size;")


def stub(header):
    functions = [f"{function.code[:-1]} {{ __builtin_trap(); }}" for function in header.functions()]
    return "\n".join(["#include <tessera/tessera.h>", *functions]) + "\n"


def constants(types):
    return "".join(sorted(f"{name} {value}\n" for one in types for name, value in CONSTANT.findall(one.code)))


def suppressions(types):
    sized = "|".join(one.name for one in types if SIZED.match(one.code))
    return f"[suppress_type]\n  type_kind = struct\n  name_regexp = ^({sized})$\n  has_data_member_inserted_at = end\n"


def main(path, folder):
    header = library_header.read(path)
    types = [one for group in header.groups for one in group.declarations if not one.is_function]
    files = {"stub.c": stub(header), "constants": constants(types), "suppressions": suppressions(types)}
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Counts the files and places that mention one existing item of each kind, and which a new item would change too.

    scripts/cost_of_additions.py [-v] [REVISION]   prints a table for the working tree, or for a commit; -v lists files
    scripts/cost_of_additions.py --check           exit status 1 if a kind of addition touches more files than its limit

A file named after the item counts as one place. Files that only use the item do not count: the search covers folders
with definitions and registrations, and skips calls (".name(", "b.name(").
"""
import os
import re
import subprocess
import sys

USERS = "tessera/convert/source"  # reads formats of other projects, which a new item does not join
SOURCES = (".h", ".c", ".cpp", ".def", ".comp", ".glsl", ".txt", ".cmake")

# kind, maximum number of files, example, pattern, folders, pattern of lines that only use the item
KINDS = (
    ("element-wise operation with gradient and Vulkan", 7, "relu_squared", r"relu_squared|ReluSquared",
     ("tessera/graph", "tessera/backend", "tessera/cpu", "tessera/vulkan", "include", "cmake"), r"[.>]relu_squared\("),
    ("weight format", 7, "nvfp4", r"nvfp4|NVFP4|Nvfp4",
     ("tessera/tensor", "tessera/quant", "tessera/cpu", "tessera/vulkan", "tessera/convert", "cmake"), r"^\s*(//|#\s*include)"),
    ("architecture", 2, "exaone4", r"exaone4|Exaone4", ("tessera/models", "tessera/engine", "tessera/gguf", "cmake"), r"^\s*//"),
    ("sampler", 2, "xtc", r"xtc|Xtc|XTC", ("tessera/sample", "tessera/cli", "tessera/engine", "cmake"), r"^\s*//|//.*xtc"),
    ("command", 2, "detokenize", r"detokenize_command|DetokenizeCommand|cmd_detokenize|TESSERA_COMMAND\(detokenize",
     ("tessera/cli", "cmake"), r"^\s*//"),
    ("reply family", 1, "seed-oss", r'"seed-oss"', ("tessera/text", "tessera/cli"), r"^\s*//"),
    ("flag", 1, "--ignore-eos", r"ignore-eos", ("tessera/cli",), r"^\s*//"),
)


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def files_of(revision, folders):
    """Yields path and text of each source file."""
    if revision:
        for path in git("ls-tree", "-r", "--name-only", revision, *folders).splitlines():
            if path.endswith(SOURCES) and not path.startswith(USERS):
                yield path, git("show", f"{revision}:{path}")
        return
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names if not root.startswith(USERS) else ():
                if name.endswith(SOURCES):
                    with open(os.path.join(root, name), encoding="utf-8") as file:
                        yield os.path.join(root, name), file.read()


def places(revision, kind):
    """Returns the files that mention the item, each with the number of places."""
    _, _, example, pattern, folders, uses = kind
    found = {}
    own = re.sub(r"\W", "", example)
    for path, text in files_of(revision, folders):
        lines = [line for line in text.splitlines() if re.search(pattern, line) and not re.search(uses, line)]
        is_own = re.fullmatch(rf"(\w+_)?{own}", os.path.splitext(os.path.basename(path))[0]) is not None
        if is_own:
            found[path] = 1
        elif lines:
            found[path] = len(lines)
    return found


def main(arguments):
    verbose, checks = "-v" in arguments, "--check" in arguments
    revisions = [argument for argument in arguments if not argument.startswith("-")]
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    is_over = False
    print("| addition | example | files | limit | places |\n|---|---|---|---|---|")
    for kind in KINDS:
        name, limit, example = kind[:3]
        found = places(revisions[0] if revisions else None, kind)
        print(f"| {name} | {example} | {len(found)} | {limit} | {sum(found.values())} |")
        is_over |= not 0 < len(found) <= limit
        if verbose:
            for path, n in sorted(found.items()):
                print(f"    {path} {n}")
    return 1 if checks and is_over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

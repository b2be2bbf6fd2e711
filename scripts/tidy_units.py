#!/usr/bin/env python3
"""Runs clang-tidy over tessera/, several source files at a time. scripts/check_tidy.sh calls this.

    scripts/tidy_units.py BUILD_DIR [FILE...]    FILEs: only these, each separately

clang-tidy spends its time in the standard headers, not in the project's code. So files are combined: a unit includes
several sources that declare different names. A unit that does not compile is halved.
BUILD_DIR contains compile_commands.json. Exit status 1 on findings.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
MAX_FILES = 24
# Sources that are compiled once per instruction set iterate over blocks and tiles. Their sizes are small constants, so
# products of int cannot overflow.
KERNEL_FLAG = "-DTESSERA_ISA_NAMESPACE="
KERNEL_CHECKS = "-bugprone-implicit-widening-of-multiplication-result"
KEYWORDS = {"const", "noexcept", "override", "final", "requires", "return"}
TYPE = re.compile(r"(?:struct|class|union|enum class|enum|using|namespace)\s+(\w+)")
OTHER = re.compile(r"(?<!::)\b([A-Za-z_]\w*)\s*(?:[(={;\[]|$)")


def declared_names(path):
    """Returns the names that a file declares outside of functions and classes, where lines are not indented."""
    names, macros = set(), set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            macro = re.match(r"#\s*(define|undef)\s+(\w+)", line)
            if macro:
                (macros.add if macro.group(1) == "define" else macros.discard)(macro.group(2))
            elif re.match(r"[A-Za-z_]", line) and not line.startswith(("namespace {", "namespace tessera", "template")):
                match = TYPE.match(line) or OTHER.search(line)
                if match:
                    names.add(match.group(1))
    return (names | macros) - KEYWORDS


def read_commands(build):
    """Yields (source, command without source and output, directory) of each compilation of a file of tessera/."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        source = os.path.realpath(entry["file"])
        if source.startswith(os.path.join(ROOT, "tessera") + os.sep) and source.endswith(".cpp"):
            flags = re.sub(r" -o \S+ -c \S+$", "", entry["command"])
            yield source, flags, entry["directory"]


class Unit:
    def __init__(self, flags, directory, sources=()):
        self.flags, self.directory, self.sources, self.names = flags, directory, list(sources), set()


def make_units(commands):
    """Returns units of sources with equal flags that declare different names."""
    units = []
    for source, flags, directory in commands:
        names = declared_names(source)
        for unit in units:
            if unit.flags == flags and len(unit.sources) < MAX_FILES and not unit.names & names:
                break
        else:
            unit = Unit(flags, directory)
            units.append(unit)
        unit.sources.append(source)
        unit.names |= names
    return units


def split_output(output):
    """Returns the findings in the output of clang-tidy, each with its notes."""
    findings = []
    for line in output.replace(ROOT + os.sep, "").splitlines():
        if re.match(r"\S+:\d+:\d+: (warning|error): ", line) or (line.startswith("error: ") and not findings):
            findings.append(line)
        elif findings:
            findings[-1] += "\n" + line
    return findings


def check_unit(unit, build):
    """Returns the findings of clang-tidy in a unit."""
    if len(unit.sources) == 1:
        path = unit.sources[0]
    else:
        handle, path = tempfile.mkstemp(suffix=".cpp", prefix="unit_", dir=build)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f'#include "{source}"\n' for source in unit.sources)
    command = ["clang-tidy-19", "--quiet", f"--config-file={os.path.join(ROOT, '.clang-tidy')}"]
    if KERNEL_FLAG in unit.flags:
        command.append("--checks=" + KERNEL_CHECKS)
    flags = shlex.split(unit.flags)
    compiler = next(i for i, flag in enumerate(flags) if "clang++" in os.path.basename(flag))
    done = subprocess.run(command + [path, "--"] + flags[compiler + 1:], cwd=unit.directory, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if len(unit.sources) > 1:
        os.remove(path)
        if "[clang-diagnostic-error" in done.stdout:
            half = len(unit.sources) // 2
            halves = (unit.sources[:half], unit.sources[half:])
            return [f for part in halves for f in check_unit(Unit(unit.flags, unit.directory, part), build)]
    findings = split_output(done.stdout)
    if done.returncode != 0 and not findings:
        findings = [f"{os.path.relpath(path, ROOT)}: clang-tidy failed: {done.stderr.strip()}"]
    return findings


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build = os.path.abspath(arguments[0])
    commands = list(read_commands(build))
    if not commands:
        print(f"check_tidy: no sources of tessera/ in {build}/compile_commands.json", file=sys.stderr)
        return 2
    if len(arguments) > 1:
        chosen = {os.path.realpath(path) for path in arguments[1:]}
        units = [Unit(flags, directory, [source]) for source, flags, directory in commands if source in chosen]
        missing = chosen - {source for unit in units for source in unit.sources}
        if missing:
            print("check_tidy: no source file of tessera/: " + " ".join(sorted(missing)), file=sys.stderr)
            return 2
    else:
        units = make_units(commands)
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        for findings in pool.map(lambda unit: check_unit(unit, build), units):
            for finding in findings:
                place = finding.splitlines()[0].split(": ")[0]  # a header is in several units
                name = re.search(r"\[[^]]*\]$", finding.splitlines()[0])
                key = (place, name.group() if name else finding)
                if key not in seen:
                    seen.add(key)
                    print(finding, flush=True)
    n_files = len({source for unit in units for source in unit.sources})
    print(f"check_tidy: {len(seen)} findings in {n_files} files", file=sys.stderr)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

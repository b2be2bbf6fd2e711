#!/usr/bin/env python3
"""Checks the source tree against the layering table in docs/architecture.md.

    scripts/check_layers.py [ROOT]       prints a line per violation, FILE:LINE: MESSAGE; exit status 1 if there is any
    scripts/check_layers.py --self-test  tests this script on small artificial trees

The rules:
  - The table has one row for each folder of tessera/, and no other rows.
  - A row lists folders of lower levels only, so the folders form no cycle.
  - A file includes only its own folder, the folders of its row and the public headers in include/.
  - In CMakeLists.txt a library links only the folders of its row.
  - A source file has at most 600 lines, unless its first lines state that it is generated. tessera.h has any number.
"""
import os
import re
import sys
import tempfile

TABLE = "docs/architecture.md"
BEGIN, END = "<!-- layers:begin -->", "<!-- layers:end -->"
MAX_LINES = 600
ONE_HEADER = "include/tessera/tessera.h"  # of the C interface: programs include one file, however long
TOPS = ("tessera", "include", "tests", "bench", "fuzz", "examples")
CODE = (".h", ".c", ".cpp", ".S", ".def", ".inc", ".comp", ".glsl")  # file types that can include others
INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Row:
    def __init__(self, line, level, may_include):
        self.line, self.level, self.may_include = line, level, may_include


def read_table(root, report):
    """Returns the rows by folder, or an empty dictionary if there is no table."""
    rows, inside, found = {}, False, False
    path = os.path.join(root, TABLE)
    lines = read(path).splitlines() if os.path.exists(path) else []
    for number, text in enumerate(lines, 1):
        if text.strip() in (BEGIN, END):
            inside = text.strip() == BEGIN
            found |= inside
            continue
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if not inside or cells[0] == "level" or set(text) <= set("|-: "):
            continue
        if len(cells) != 3 or not cells[0].isdigit() or not re.fullmatch(r"\w+", cells[1]):
            report(TABLE, number, f"not a row '| level | folder | may include |': {text}")
            continue
        folder = cells[1]
        if folder in rows:
            report(TABLE, number, f"a second row for {folder}, the first is in line {rows[folder].line}")
            continue
        rows[folder] = Row(number, int(cells[0]), [name.strip() for name in cells[2].split(",") if name.strip()])
    if not found or inside:
        report(TABLE, 1, f"no table between {BEGIN} and {END}")
    return rows


def check_table(rows, folders, report):
    for folder in sorted(folders - rows.keys()):
        report(TABLE, 1, f"no row for tessera/{folder}")
    for folder, row in rows.items():
        if folder not in folders:
            report(TABLE, row.line, f"a row for {folder}, but there is no folder tessera/{folder}")
        for other in row.may_include:
            if other not in rows:
                report(TABLE, row.line, f"{folder} may include {other}, which has no row")
            elif rows[other].level >= row.level:
                report(TABLE, row.line, f"{folder} (level {row.level}) may include {other} (level {rows[other].level}): "
                       "only lower levels are allowed")


def included_folder(root, path, name):
    """Returns the folder of tessera/ of an included header, "" if it is outside of tessera/, None if it is missing."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if not name.startswith("tessera/") and os.path.exists(os.path.join(root, beside)):
        name = beside
    elif name.startswith("tessera/") and os.path.exists(os.path.join(root, "include", name)):
        return ""
    parts = name.split("/")
    if parts[0] != "tessera":
        return ""
    return parts[1] if len(parts) > 2 else None


def check_includes(root, path, folder, rows, report):
    for number, text in enumerate(read(os.path.join(root, path)).splitlines(), 1):
        match = INCLUDE.match(text)
        if not match:
            continue
        other = included_folder(root, path, match.group(1))
        if other is None:
            report(path, number, f'"{match.group(1)}" is neither in a folder of tessera/ nor in include/')
        elif other and other != folder and other not in rows[folder].may_include:
            report(path, number, f'{folder} includes "{match.group(1)}", but {TABLE} does not let {folder} include {other}')


def check_links(root, rows, report):
    path = "CMakeLists.txt"
    text = read(os.path.join(root, path)) if os.path.exists(os.path.join(root, path)) else ""
    text = re.sub(r"#.*", "", text)
    for call in re.finditer(r"(tessera_library\s*\(\s*|target_link_libraries\s*\(\s*tessera_)(\w+)([^)]*)\)", text):
        folder = call.group(2)
        if folder not in rows:
            if call.group(1).startswith("tessera_library"):
                report(path, text.count("\n", 0, call.start()) + 1, f"library {folder} has no row in {TABLE}")
            continue
        for depend in re.finditer(r"tessera::(\w+)", call.group(3)):
            if depend.group(1) != folder and depend.group(1) not in rows[folder].may_include:
                number = text.count("\n", 0, call.start(3) + depend.start()) + 1
                report(path, number, f"{folder} links {depend.group(1)}, but {TABLE} does not let it include that")


def check_length(root, path, report):
    text = read(os.path.join(root, path))
    n_lines = text.count("\n")
    if n_lines > MAX_LINES and path != ONE_HEADER and "generated" not in text[:400].lower():
        report(path, MAX_LINES + 1, f"{n_lines} lines, limit {MAX_LINES}")


def check(root):
    """Returns the violations of a tree, one line each."""
    violations = []

    def report(path, line, what):
        violations.append(f"{path}:{line}: {what}")

    top = os.path.join(root, "tessera")
    folders = {entry.name for entry in os.scandir(top) if entry.is_dir()} if os.path.isdir(top) else set()
    if not folders:
        report("tessera", 1, "no folders: is this the root of the project?")
    rows = read_table(root, report)
    check_table(rows, folders, report)
    check_links(root, rows, report)
    for source in TOPS:
        for directory, subdirectories, names in os.walk(os.path.join(root, source)):
            subdirectories.sort()
            for name in sorted(names):
                path = os.path.relpath(os.path.join(directory, name), root)
                if name.endswith((".h", ".c", ".cpp")):
                    check_length(root, path, report)
                parts = path.split(os.sep)
                if name.endswith(CODE) and parts[0] == "tessera" and len(parts) > 2 and parts[1] in rows:
                    check_includes(root, path, parts[1], rows, report)
    return violations


def self_test():
    table = ("# Map\n" + BEGIN + "\n| level | folder | may include |\n|---|---|---|\n"
             "| 0 | base | |\n| 1 | text | base |\n| 2 | cli | base, text |\n" + END + "\n")
    good = {
        TABLE: table,
        "CMakeLists.txt": "tessera_library(base DEPENDS fmt::fmt)\n# tessera_library(no DEPENDS tessera::x)\n"
                          "tessera_library(cli\n  DEPENDS tessera::base\n  tessera::text)\n"
                          "target_link_libraries(tessera PRIVATE tessera::cli)\n"
                          "target_link_libraries(tessera_tool PRIVATE tessera::cli)\n",
        "include/tessera/plugin.h": "#pragma once\n",
        "tessera/base/a.h": "#include <vector>\n#include \"tessera/plugin.h\"\n",
        "tessera/text/a.cpp": "// #include \"tessera/cli/a.h\"\n#include \"tessera/text/a.h\"\n#include \"tessera/base/a.h\"\n",
        "tessera/text/tables.h": "// Generated by a script.\n" + "int x;\n" * 700,
        "tessera/cli/sub/a.cpp": "#include \"tessera/text/a.h\"\n#include \"b.h\"\n",
        "tessera/cli/sub/b.h": "",
        "tests/text/a_test.cpp": "#include \"tessera/cli/a.h\"\n",
    }
    # Each case changes some files of the good tree and expects exactly these violations.
    cases = [
        ({}, []),
        ({"tessera/base/a.h": "\n#include \"tessera/text/a.h\"\n"}, ["tessera/base/a.h:2: base includes"]),
        ({"tessera/base/a.h": "  #  include <tessera/text/a.h>\n"}, ["tessera/base/a.h:1: base includes"]),
        ({"tessera/text/a.cpp": "#include \"../cli/sub/b.h\"\n"}, ["tessera/text/a.cpp:1: text includes"]),
        ({"tessera/text/names.def": "#include \"tessera/cli/x.def\"\n"}, ["tessera/text/names.def:1: text includes"]),
        ({"tessera/text/a.cpp": "#include \"tessera/a.h\"\n"}, ["tessera/text/a.cpp:1: \"tessera/a.h\" is neither"]),
        ({"tessera/text/a.cpp": "#include \"tessera/gone/a.h\"\n"}, ["tessera/text/a.cpp:1: text includes"]),
        ({"tessera/new/a.cpp": ""}, [f"{TABLE}:1: no row for tessera/new"]),
        ({TABLE: table.replace(END, "| 3 | server | base |\n" + END)}, [f"{TABLE}:8: a row for server"]),
        ({TABLE: table.replace(END, "| 3 | cli | base |\n" + END)}, [f"{TABLE}:8: a second row for cli"]),
        ({TABLE: table.replace("| base, text |", "| base, text, gone |")}, [f"{TABLE}:7: cli may include gone"]),
        ({TABLE: table.replace("| 1 | text", "| 2 | text")}, [f"{TABLE}:7: cli (level 2) may include text (level 2)"]),
        ({TABLE: table.replace("| 0 | base | |", "| 0 | base | cli |")}, [f"{TABLE}:5: base (level 0) may include cli"]),
        ({TABLE: table.replace("| 1 | text |", "| one | text |")},
         [f"{TABLE}:6: not a row", f"{TABLE}:1: no row for tessera/text", f"{TABLE}:7: cli may include text, which"]),
        ({TABLE: table.replace(END, "")}, [f"{TABLE}:1: no table"]),
        ({"CMakeLists.txt": "\ntessera_library(text DEPENDS tessera::base\n  tessera::cli)\n"},
         ["CMakeLists.txt:3: text links cli"]),
        ({"CMakeLists.txt": "target_link_libraries(tessera_base PUBLIC tessera::text)\n"},
         ["CMakeLists.txt:1: base links text"]),
        ({"CMakeLists.txt": "tessera_library(gone DEPENDS tessera::base)\n"}, ["CMakeLists.txt:1: library gone has no row"]),
        ({"tests/text/a_test.cpp": "int x;\n" * 600}, []),
        ({ONE_HEADER: "int x;\n" * 601}, []),
        ({"tests/text/a_test.cpp": "int x;\n" * 601}, ["tests/text/a_test.cpp:601: 601 lines, limit 600"]),
    ]
    n_failed = 0
    for number, (changes, expected) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**good, **changes}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            got = check(root)
        matches = len(got) == len(expected) and all(any(g.startswith(e) for g in got) for e in expected)
        if not matches:
            n_failed += 1
            print(f"self-test: case {number}: want {expected}, got {got}")
    print(f"self-test: {len(cases) - n_failed} of {len(cases)} cases as expected")
    return n_failed


def main(arguments):
    if arguments == ["--self-test"]:
        return 1 if self_test() else 0
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    violations = check(arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

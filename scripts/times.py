#!/usr/bin/env python3
"""Prints the longest compilations and tests of a build.

    times.py [--top N] [PRESET...]      default: the ten longest of every preset under build/

Compile times come from ninja's log. They are wall times of commands, so other load and hits of the compiler cache
influence them. For a clean measurement, delete build/ and set CCACHE_DISABLE=1. Test times come from the GoogleTest
reports that scripts/test.sh stores in build/PRESET/times.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def compile_times(build):
    """Returns the seconds of the last build of each output file."""
    seconds = {}
    log = build / ".ninja_log"
    for line in log.read_text().splitlines() if log.exists() else []:
        fields = line.split("\t")
        if len(fields) == 5:
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def target_of(output):
    """Returns the library or test program that an object file belongs to, or None."""
    match = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    return match[1] if match else None


def describe(build, output):
    """Returns the output's name, or the list of sources of a unity translation unit."""
    match = re.search(r"unity/([^/]+\.cpp)\.o$", output)
    if not match:
        return re.sub(r"^(tests/)?CMakeFiles/", "", output)
    sources = re.findall(r'#include "(.*)"', (build / "unity" / match[1]).read_text())
    names = sources[0] if len(sources) == 1 else f"{sources[0]} ... {pathlib.Path(sources[-1]).name}"
    return f"{match[1]} ({len(sources)} sources: {names})"


def test_times(build):
    """Returns (seconds, program, test, result) of every test; the result shows skipped tests."""
    tests = []
    for report in sorted((build / "times").glob("*.json")):
        program = re.sub(r"(_\d+)?$", "", report.stem)
        for suite in json.loads(report.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                result = test.get("result", "")
                tests.append((float(test["time"].rstrip("s")), program, f"{test['classname']}.{test['name']}", result))
    return tests


def print_rows(title, rows):
    print(title)
    for seconds, name in rows:
        print(f"  {seconds:8.1f} s  {name}")


def totals(pairs):
    by_name = collections.Counter()
    for name, seconds in pairs:
        by_name[name] += seconds
    return [(seconds, name) for name, seconds in by_name.most_common()]


def print_preset(build, top):
    compiled = compile_times(build)
    objects = {output: seconds for output, seconds in compiled.items() if target_of(output)}
    others = sum(compiled.values()) - sum(objects.values())
    print(f"== {build.name}: {sum(compiled.values()):.0f} s of commands, {others:.0f} s of them links and generators")
    print_rows("compiling, by target", totals((target_of(o), s) for o, s in objects.items())[:top])
    longest = sorted(objects.items(), key=lambda item: -item[1])[:top]
    print_rows("compiling, by file", [(seconds, describe(build, output)) for output, seconds in longest])
    tests = test_times(build)
    if not tests:
        print("tests: no reports, run scripts/test.sh")
        return
    skipped = sum(result == "SKIPPED" for *_, result in tests)
    print(f"tests: {len(tests)} in {sum(t[0] for t in tests):.0f} s, {skipped} skipped")
    print_rows("tests, by program", totals((program, seconds) for seconds, program, *_ in tests)[:top])
    print_rows("tests, by name", [(t[0], t[2]) for t in sorted(tests, reverse=True)[:top]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows of each list (default 10)")
    parser.add_argument("presets", nargs="*", metavar="PRESET")
    args = parser.parse_args()
    names = args.presets or sorted(log.parent.name for log in (ROOT / "build").glob("*/.ninja_log"))
    if not names:
        sys.exit("times: nothing under build/, build something first")
    for name in names:
        if not (ROOT / "build" / name / ".ninja_log").exists():
            sys.exit(f"times: no build/{name}/.ninja_log")
        print_preset(ROOT / "build" / name, args.top)


if __name__ == "__main__":
    main()

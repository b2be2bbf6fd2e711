#!/usr/bin/env python3
"""Determines which slow checks are due. A slow check is due if a file that it covers has changed since it last passed.

    slow_checks.py all              prints the names of all checks, one per line
    slow_checks.py due              prints the names of the due checks
    slow_checks.py passed NAME...   records that these checks passed with the current files
    slow_checks.py --self-test

scripts/slow_checks.json lists the checks. Each has a description, the files that it covers (git patterns relative to
the project's root), and a hash of these files when it last passed. scripts/test.sh runs the due checks. test.sh --all
runs all of them and records the ones that passed. Commit the record with the change, so that nobody has to run them
again.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tracked_files(root, patterns):
    """Returns the files that git tracks or would track, sorted by name."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted({name for name in listed if name and (root / name).is_file()})


def hash_of(root, check):
    digest = hashlib.sha256()
    files = tracked_files(root, check["covers"])
    if not files:
        sys.exit(f"slow_checks: {' '.join(check['covers'])}: no such files")
    for name in files:
        content = (root / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


class Record:
    def __init__(self, root):
        self.root = root
        self.path = root / "scripts/slow_checks.json"
        self.checks = json.loads(self.path.read_text())

    def due(self):
        return [name for name, check in self.checks.items() if check.get("passed") != hash_of(self.root, check)]

    def passed(self, names):
        for name in names:
            if name not in self.checks:
                sys.exit(f"slow_checks: no check {name}, want one of {', '.join(self.checks)}")
            self.checks[name]["passed"] = hash_of(self.root, self.checks[name])
        self.path.write_text(json.dumps(self.checks, indent=2) + "\n")


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run(["git", "init", "-q", root], check=True)
        (root / "scripts").mkdir()
        (root / "a").mkdir()
        (root / "a/x.cpp").write_text("1")
        (root / "b.cpp").write_text("2")
        checks = {"first": {"covers": ["a/"]}, "second": {"covers": ["*.cpp"]}}
        (root / "scripts/slow_checks.json").write_text(json.dumps(checks))
        assert Record(root).due() == ["first", "second"], "never passed"
        Record(root).passed(["first", "second"])
        assert Record(root).due() == [], "passed"
        (root / "b.cpp").write_text("3")
        assert Record(root).due() == ["second"], "a file changed"
        (root / "a/x.cpp").rename(root / "a/y.cpp")
        assert Record(root).due() == ["first", "second"], "a file has another name"
        Record(root).passed(["first"])
        (root / "a/new.h").write_text("")
        assert Record(root).due() == ["first", "second"], "a file was added"
    print("slow_checks: self-test passed")


def print_lines(names):
    for name in names:
        print(name)


def main():
    match sys.argv[1:]:
        case ["--self-test"]:
            self_test()
        case ["all"]:
            print_lines(Record(ROOT).checks)
        case ["due"]:
            print_lines(Record(ROOT).due())
        case ["passed", *names] if names:
            Record(ROOT).passed(names)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

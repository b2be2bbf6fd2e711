#!/usr/bin/env python3
"""Determines which checks are due. A check is due if a file that it covers has changed since it last passed.

    slow_checks.py all              prints the names of all checks, one per line
    slow_checks.py due              prints the names of the due checks
    slow_checks.py passed NAME...   records that these checks passed with the current files
    slow_checks.py --self-test

scripts/slow_checks.json lists the checks. Each has a description, the files that it covers (git patterns relative to
the project's root), and a hash of these files when it last passed. A check with "folders" is a check of each of these
folders, with the name CHECK:FOLDER, and "{folder}" in its patterns is the folder. "tested" instead of a list are all
folders of tests/ that have tests of a folder of tessera/, but for those of "except".

scripts/test.sh runs the due checks. test.sh --all runs all of them and records the ones that passed. Commit the record
with the change, so that nobody has to run them again.
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


def hash_of(root, patterns):
    digest = hashlib.sha256()
    files = tracked_files(root, patterns)
    if not files:
        sys.exit(f"slow_checks: {' '.join(patterns)}: no such files")
    for name in files:
        content = (root / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def folders_of(root, check):
    if check["folders"] != "tested":
        return check["folders"]
    tested = sorted({path.parent.name for path in root.glob("tests/*/*_test.cpp")})
    return [name for name in tested if (root / "tessera" / name).is_dir() and name not in check.get("except", [])]


class Record:
    def __init__(self, root):
        self.root = root
        self.path = root / "scripts/slow_checks.json"
        self.checks = json.loads(self.path.read_text())

    def parts(self):
        """Yields the name of each check or check of a folder, the check's row, and the folder."""
        for name, check in self.checks.items():
            if "folders" not in check:
                yield name, check, None
                continue
            for folder in folders_of(self.root, check):
                yield f"{name}:{folder}", check, folder

    def hash_now(self, check, folder):
        covers = [pattern.replace("{folder}", folder or "") for pattern in check["covers"]]
        return hash_of(self.root, covers)

    def all(self):
        return [name for name, check, folder in self.parts()]

    def due(self):
        def recorded(check, folder):
            return check.get("passed") if folder is None else check.get("passed", {}).get(folder)

        return [n for n, check, folder in self.parts() if recorded(check, folder) != self.hash_now(check, folder)]

    def passed(self, names):
        parts = {name: (check, folder) for name, check, folder in self.parts()}
        for name in names:
            if name not in parts:
                sys.exit(f"slow_checks: no check {name}, want one of {', '.join(parts)}")
            check, folder = parts[name]
            if folder is None:
                check["passed"] = self.hash_now(check, folder)
            else:
                check.setdefault("passed", {})[folder] = self.hash_now(check, folder)
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
        for name in ("tessera/a/x.h", "tessera/b/y.h", "tessera/c/z.h", "tests/a/x_test.cpp", "tests/b/y_test.cpp",
                     "tests/c/z_test.cpp", "tests/meta/m_test.cpp"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(name)
        each = {"covers": ["tessera/{folder}/", "tests/{folder}/"], "folders": "tested", "except": ["c"]}
        (root / "scripts/slow_checks.json").write_text(json.dumps({"each": each}))
        assert Record(root).due() == ["each:a", "each:b"], "a check of each folder"
        Record(root).passed(["each:a", "each:b"])
        assert Record(root).due() == [], "the folders passed"
        (root / "tessera/b/y.h").write_text("changed")
        assert Record(root).due() == ["each:b"], "a file of one folder changed"
        each["folders"] = ["c"]
        (root / "scripts/slow_checks.json").write_text(json.dumps({"each": each}))
        assert Record(root).all() == ["each:c"], "a list of folders"
    print("slow_checks: self-test passed")


def print_lines(names):
    for name in names:
        print(name)


def main():
    match sys.argv[1:]:
        case ["--self-test"]:
            self_test()
        case ["all"]:
            print_lines(Record(ROOT).all())
        case ["due"]:
            print_lines(Record(ROOT).due())
        case ["passed", *names] if names:
            Record(ROOT).passed(names)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()

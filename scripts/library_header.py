"""Reads the C interface, include/tessera/tessera.h: groups, functions, types and their comments.

Used by library_pages.py (man pages) and library_stub.py (check of the ABI). The header is our own and has the form that
clang-format gives it, so this is no parser of C: a comment, a declaration or a preprocessor line begins a line.
"""
import re
from dataclasses import dataclass, field

GROUP = re.compile(r"/\* ---- (\w[\w ]*): (.*?) ---- \*/$")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"TESSERA_API\s+(.*?)\b(tessera_[a-z0-9_]+)\((.*)\);$", re.DOTALL)
TYPE = re.compile(r"typedef\s+(?:struct\s+tessera_\w+\s+\{.*\}\s*|[^{]*?)(tessera_[a-z0-9_]+);$"
                  r"|typedef\s+[^;{]*\(\*(tessera_[a-z0-9_]+)\)\(.*\);$", re.DOTALL)


@dataclass
class Declaration:
    """A function, a type, or an enum without a name."""
    code: str  # without TESSERA_API
    comment: str  # on one line
    name: str = ""  # "" for an enum
    is_function: bool = False


@dataclass
class Group:
    title: str
    summary: str
    declarations: list = field(default_factory=list)

    def functions(self):
        return [one for one in self.declarations if one.is_function]


@dataclass
class Header:
    comment: str  # of the whole header, with its line breaks
    groups: list
    version: str

    def functions(self):
        return [function for group in self.groups for function in group.functions()]


class FormatError(Exception):
    pass


def plain(comment):
    """The text of a comment, on one line."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment[2:-2].split("\n")]
    return " ".join(line.strip() for line in lines if line.strip())


def declaration_end(text, begin):
    """The place behind the semicolon that ends a declaration."""
    depth, at = 0, begin
    while at < len(text):
        comment = COMMENT.match(text, at)
        if comment:
            at = comment.end()
            continue
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[at], 0)
        at += 1
        if text[at - 1] == ";" and depth == 0:
            return at
    raise FormatError(f"line {text.count(chr(10), 0, begin) + 1}: a declaration without an end")


def declaration_of(code, comment):
    function = FUNCTION.match(code)
    if function:
        return Declaration(code.removeprefix("TESSERA_API "), comment, function.group(2), True)
    named = TYPE.match(code)
    return Declaration(code, comment, (named.group(1) or named.group(2)) if named else "")


def parse(text):
    """Reads a header. Errors: FormatError."""
    groups, at, comment, first = [], 0, "", None
    while at < len(text):
        end_of_line = text.find("\n", at) + 1 or len(text)
        line = text[at:end_of_line].rstrip("\n")
        if line.startswith("/*"):
            found = COMMENT.match(text, at)
            if not found:
                raise FormatError("a comment without an end")
            at = found.end() + 1
            group = GROUP.match(found.group())
            comment = "" if group else plain(found.group())
            if found.group().startswith("/* ----") and not group:
                raise FormatError(f"{line}: want /* ---- TITLE: SUMMARY ---- */")
            if group:
                groups.append(Group(group.group(1), group.group(2)))
            elif first is None:
                first = found.group()
        elif line.startswith("#"):
            while line.endswith("\\"):  # a macro of several lines
                end_of_next = text.find("\n", end_of_line) + 1 or len(text)
                line, end_of_line = text[end_of_line:end_of_next].rstrip("\n"), end_of_next
            at, comment = end_of_line, ""
        elif re.match(r"(TESSERA_API|typedef|enum)\b", line):
            end = declaration_end(text, at)
            if not groups:
                raise FormatError(f"{line}: before the first group")
            groups[-1].declarations.append(declaration_of(text[at:end], comment))
            at, comment = end + 1, ""
        else:
            at = end_of_line
    numbers = [re.search(rf"^#define TESSERA_VERSION_{part} (\d+)$", text, re.MULTILINE)
               for part in ("MAJOR", "MINOR", "PATCH")]
    if first is None or not all(numbers):
        raise FormatError("no comment at the start, or no version")
    lines = [re.sub(r"^ ?\*? ?", "", line) for line in first[2:-2].split("\n")]
    return Header("\n".join(lines).strip(), groups, ".".join(number.group(1) for number in numbers))


def read(path):
    with open(path, encoding="utf-8") as file:
        return parse(file.read())

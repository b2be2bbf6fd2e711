#!/usr/bin/env python3
"""Writes the man pages of the library, section 3, from the header's comments: library_pages.py HEADER FOLDER

libtessera.3 has the rules that hold for all functions. Each group of the header has a page, libtessera-GROUP.3, with its
types, to which links with the names of the types lead. Each function has a page of its own. All are packed, with no
time in them. Files of former runs are removed. Error: a function without a description.
"""
import gzip
import os
import re
import sys
import textwrap

import library_header

THREADS = {
    "A": "Any thread may call it at any time.",
    "S": "One thread at a time may call it for one handle. Calls with other handles go on.",
    "R": "One thread at a time may call it for one handle, and a callback of that handle, too.",
}
# Functions whose names say what they do.
SUMMARIES = {
    "_retain": "Adds a reference to a handle, which it returns. NULL is allowed.",
    "_release": "Gives a reference to a handle back. The last one frees the object. NULL is allowed.",
    "_init": "Sets the size and the defaults of a struct.",
}
LETTER = re.compile(r"([ASR])(?:, ([^.]*))?(?:\.|$) ?")
SINCE = re.compile(r"(?:^|(?<= ))Since (\d+\.\d+)\. ?")
EXAMPLES = "The examples are in share/doc/tessera/examples/library below the prefix of the installation."


class Page:
    def __init__(self, name, version):
        self.name = name
        self.lines = [f'.TH {name} 3 "" "libtessera {version}" "Library Functions"']

    def section(self, title):
        self.lines.append(f".SH {title}")

    def request(self, line):
        self.lines.append(line)

    def text(self, text, functions=()):
        """A paragraph. Names of functions become references."""
        text = roff(text)
        text = re.sub(r"`([^`]+)`", r"\\fI\1\\fP", text)
        text = re.sub(r"\b(tessera_[a-z0-9_]+)\(\)",
                      lambda found: rf"\fB{found.group(1)}\fP(3)" if found.group(1) in functions else found.group(),
                      text)
        self.lines.append(text)

    def code(self, code):
        self.lines += [".nf", *(roff(line) for line in code.split("\n")), ".fi"]

    def write(self, folder):
        data = ("\n".join(self.lines) + "\n").encode()
        with open(os.path.join(folder, f"{self.name}.3.gz"), "wb") as file:
            file.write(gzip.compress(data, 9, mtime=0))


def roff(text):
    """A text without signs that mean something to roff."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + text if text[:1] in (".", "'") else text


def as_summary(text):
    """The first clause of a description, as it follows a name."""
    clause = re.split(r"\.(?: |$)|[:;] ", text, maxsplit=1)[0].replace("`", "")
    return clause[:1].lower() + clause[1:] if re.match("[A-Z][a-z]|A ", clause) else clause


def prototype(function):
    """The declaration in lines of a terminal, which end behind commas."""
    whole_parameters = re.sub("(?<!,) ", "\0", " ".join(function.code.split()))
    return "\n".join(textwrap.wrap(whole_parameters, 78, subsequent_indent="    ")).replace("\0", " ")


def split_comment(function):
    """The parts of a function's comment: letter, more about threads, version, description, errors."""
    letter = LETTER.match(function.comment)
    if not letter:
        raise library_header.FormatError(f"{function.name}: its comment begins without A, S or R")
    text = function.comment[letter.end():]
    since = SINCE.search(text)
    text = SINCE.sub("", text)
    description, _, errors = text.partition("Errors: ")
    for suffix, usual in SUMMARIES.items():
        if function.name.endswith(suffix) and not re.match("[A-Z]", description):
            description = f"{usual} {description}"
    description = description.strip()
    if not re.match('[A-Z0-9]', description):
        raise library_header.FormatError(f"{function.name}: no sentence says what it does")
    return letter.group(1), letter.group(2), since.group(1) if since else "1.0", description, errors.strip()


def function_page(function, group, header):
    letter, more, since, description, errors = split_comment(function)
    functions = {one.name for one in header.functions()}
    page = Page(function.name, header.version)
    page.section("NAME")
    page.text(f"{function.name} - {as_summary(description)}")
    page.section("SYNOPSIS")
    page.request(".B #include <tessera/tessera.h>")
    page.request(".PP")
    page.code(prototype(function))
    page.section("DESCRIPTION")
    page.text(description, functions)
    if errors:
        page.section("ERRORS")
        page.text(errors, functions)
    page.section("THREADS")
    page.text(f"{letter}{', ' + more if more else ''}. {THREADS[letter]}", functions)
    page.section("VERSIONS")
    page.text(f"Since {since}.")
    page.section("SEE ALSO")
    page.request(f".BR {roff(group_name(group))} (3),")
    page.request(".BR libtessera (3)")
    return page


def group_name(group):
    return "libtessera-" + group.title.lower().replace(" ", "-")


def group_page(group, header):
    functions = {one.name for one in header.functions()}
    page = Page(group_name(group), header.version)
    page.section("NAME")
    page.text(f"{group_name(group)} - {group.summary}")
    page.section("SYNOPSIS")
    page.request(".B #include <tessera/tessera.h>")
    types = [one for one in group.declarations if not one.is_function]
    if types:
        page.section("TYPES AND CONSTANTS")
    for i, one in enumerate(types):
        if i > 0:
            page.request(".PP")
        if one.comment:
            page.text(one.comment, functions)
            page.request(".PP")
        page.code(one.code)
    page.section("FUNCTIONS")
    for function in group.functions():
        page.request(".TP")
        page.request(f".BR {function.name} (3)")
        page.text(as_summary(split_comment(function)[3]))
    page.section("SEE ALSO")
    page.request(".BR libtessera (3)")
    return page


def overview_page(header):
    first, *paragraphs = header.comment.split("\n\n")
    page = Page("libtessera", header.version)
    page.section("NAME")
    page.text(f"libtessera - {first.partition(': ')[2].strip().rstrip('.')}")
    page.section("SYNOPSIS")
    page.request(".B #include <tessera/tessera.h>")
    page.request(".PP")
    page.code("cc program.c $(pkg-config --cflags --libs tessera)")
    page.section("DESCRIPTION")
    for number, paragraph in enumerate(paragraphs):
        title = re.match(r"([A-Z][a-z]+)\. ", paragraph)
        if title:
            page.request(f".SS {title.group(1)}")
            paragraph = paragraph[title.end():]
        elif number > 0:
            page.request(".PP")
        for line in re.split(r"\n(?=  )|(?<=\S)\n(?! )(?=After)", paragraph):
            item = re.match(r"\s+(\S+)\s{2,}(.*)", line, re.DOTALL)
            if item:
                page.request(".TP")
                page.request(f".B {roff(item.group(1))}")
                line = item.group(2)
            elif page.lines[-2].startswith(".B "):
                page.request(".PP")
            page.text(" ".join(line.split()), {one.name for one in header.functions()})
    page.section("GROUPS")
    for group in header.groups:
        page.request(".TP")
        page.request(f".BR {roff(group_name(group))} (3)")
        page.text(group.summary)
    page.section("EXAMPLES")
    page.text(EXAMPLES)
    page.section("SEE ALSO")
    page.request(".BR tessera (1)")
    return page


def main(path, folder):
    header = library_header.read(path)
    pages, links = [overview_page(header)], []
    for group in header.groups:
        pages.append(group_page(group, header))
        pages += [function_page(one, group, header) for one in group.functions()]
        links += [(one.name, group_name(group)) for one in group.declarations if one.name and not one.is_function]
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    for page in pages:
        page.write(folder)
    for name, target in links:
        os.symlink(f"{target}.3.gz", os.path.join(folder, f"{name}.3.gz"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except library_header.FormatError as error:
        sys.exit(f"error: {sys.argv[1]}: {error}")

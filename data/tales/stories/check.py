"""The generator's self-test: the same bytes for a seed, no name that stands for nothing, no broken sentences."""

import hashlib
import re
import sys
from collections.abc import Iterator

from .beats import SHARED
from .cast import company
from .library import PLOTS, TABLES, WEIGHTED, tell
from .rng import Rng
from .story import Beat, Plot
from .template import Entity, Slot, Template, TemplateError, compile_template
from .words import POOLS

N_ROUNDS = 60  # texts of each plot
N_HASHED = 1 << 20
SHA256 = "18c9f2cc4b3e5df7f0718e9936ac43a9210fb8131a6b856636d55671c568267a"
MAX_WORDS = 300

ARTICLE_FAULT = re.compile(r"\b[Aa] (?:[aeiAEI]|o(?!ne\b|nce\b)|hour|honest)|\b[Aa]n [^aeiouhAEIOUH]")

# What must not be in a text: its name, how it is found, and an example that must be found.
FAULTS = (
    ("a sign of a template", re.compile(r"[{}\[\]|^@;]"), "She saw [a cat."),
    ("a space too many", re.compile(r"  | [.,!?]|\n |^ "), "She saw  a cat."),
    ("a wrong article", ARTICLE_FAULT, "He was a old man."),
    ("no capital", re.compile(r'[.!] "?[a-z]|(?:^|\n)"?[a-z]|\? [a-z]|\." [a-z]'), "It rained. he ran."),
    ("a word twice", re.compile(r"\b(\w+) \1\b", re.IGNORECASE), "She was very very glad."),
    ("a sign twice", re.compile(r'[.,!?:]{2}|[.!?,]"[.,]'), "It rained.. He ran."),
    ("no full stop", re.compile(r"[a-z] (?:It|He|She|They|There|Then|But|When|The) "), "It rained He ran home."),
    ("no end", re.compile(r'[^.!?"]$'), "It rained"),
    ("a strange sign", re.compile(r"[^A-Za-z0-9 .,!?:\"'\n-]"), "It rained; he ran."),
    ("an odd quotation mark", re.compile(r'^[^"]*"(?:[^"]*"[^"]*")*[^"]*$'), '"It rains, said Anna.'),
)


def faults_of(text: str) -> list[str]:
    """What is wrong with a text, each with the place."""
    found = []
    for name, pattern, _ in FAULTS:
        if match := pattern.search(text):
            found.append(f"{name}: ...{text[max(match.start() - 40, 0) : match.start() + 40]}...")
    return found


def templates_of(beat: Beat, cast: str) -> Iterator[Template]:
    """All templates of a beat and of the shared beats that it names."""
    if not isinstance(beat, str):
        for part in beat:
            yield from templates_of(part, cast)
    elif beat[:1] == "@":
        yield from templates_of(SHARED.get(beat[1:], SHARED.get(f"{beat[1:]}.{cast}", "")), cast)
    elif beat != "/":
        yield compile_template(beat)


def slots_of(template: Template) -> Iterator[Slot]:
    """All slots of a template, in all its alternatives."""
    for part in template:
        if isinstance(part, Slot):
            yield part
        elif not isinstance(part, str):
            for option in part.options:
                yield from slots_of(option)


def names_of(plot: Plot) -> dict[str, tuple[Entity, ...]]:
    """What the slots of a plot may be bound to."""
    names = {"S": TABLES["season"]} | {slot: TABLES[table] for slot, table in plot.bind.items()}
    if plot.cast:
        names |= {slot: (who,) for slot, who in company(Rng(0), plot.cast).items()}
        names["home"] = TABLES["den" if plot.cast == "animal" else "home"]
    return names


def unknown_slots(plot: Plot) -> set[str]:
    """Slots of a plot, or of the pools and tables that it uses, that stand for nothing."""
    names = names_of(plot)
    unknown: set[str] = set()
    seen: set[Slot] = set()
    waiting = [slot for template in templates_of(plot.beats, plot.cast) for slot in slots_of(template)]
    while waiting:
        slot = waiting.pop()
        if slot in seen:
            continue
        seen.add(slot)
        if slot.name in names:
            found = [entity.forms.get(slot.form) for entity in names[slot.name]]
        else:
            found = [compile_template(word) for word in POOLS.get(slot.name, ())] if not slot.form else []
        if not found or None in found:
            unknown.add(f"{slot.name}.{slot.form}")
        waiting += [inner for template in found if template for inner in slots_of(template)]
    return unknown


def digest() -> str:
    """The hash of the first MiB of texts of seed 1."""
    rng = Rng(1)
    hashed = hashlib.sha256()
    n_bytes = 0
    while n_bytes < N_HASHED:
        own = Rng(rng.bits())
        text = tell(own, own.pick(WEIGHTED)).encode("ascii")
        hashed.update(text)
        n_bytes += len(text)
    return hashed.hexdigest()


def problems_of(number: int, plot: Plot, known: set[str]) -> Iterator[str]:
    """What is wrong with a plot and with some texts of it; adds their words to `known`."""
    for slot in sorted(unknown_slots(plot)):
        yield f"{plot.name}: nothing has the name {slot}"
    for i in range(N_ROUNDS):
        try:
            text = tell(Rng(1000 * number + i), plot)
        except TemplateError as error:
            yield f"{plot.name}: {error}"
            return
        known.update(re.findall(r"[a-z]+", text.lower()))
        for fault in faults_of(text):
            yield f"{plot.name}: {fault}"
        if len(text.split()) > MAX_WORDS:
            yield f"{plot.name}: {len(text.split())} words"


def self_test() -> int:
    """Runs all checks; prints what fails and returns the exit status."""
    problems = [f"this check finds nothing: {name}" for name, pattern, example in FAULTS if not pattern.search(example)]
    known: set[str] = set()
    for number, plot in enumerate(PLOTS):
        problems += problems_of(number, plot, known)
    if not problems and (found := digest()) != SHA256:
        problems.append(f"the first MiB of seed 1 has the hash {found}, not {SHA256}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(PLOTS)} plots, {len(known)} words, {len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0

"""Templates: sentences with alternatives and slots, compiled once and rendered often.

    [He|She] ran to {place}.      one of the alternatives; they may hold slots and further alternatives
    {A}  {A.his}  {place.sight}   a bound entity, or one of its forms
    {glad}                        a word of the pool of that name
    ^                             the next letter is a capital

A form of an entity is a template too, so that `{C}` may stand for "{A.his} grandmother".
"""

from copy import copy
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Slot:
    """A name to look up: of an entity and its form, or of a pool of words."""

    name: str
    form: str


@dataclass(frozen=True)
class Choice:
    """Alternatives, each a compiled template."""

    options: tuple["Template", ...]


Template = tuple[str | Slot | Choice, ...]
SIGNS = frozenset("[]{}|")


class TemplateError(ValueError):
    """A template that does not parse, or that names something unknown."""


@cache
def compile_template(text: str) -> Template:
    """The parts of a template. Raises TemplateError where brackets do not match."""
    levels: list[list[list[str | Slot | Choice]]] = [[[]]]
    start = 0
    for i, sign in enumerate(text):
        if i < start or sign not in SIGNS:
            continue
        if i > start:
            levels[-1][-1].append(text[start:i])
        start = i + 1
        if sign == "{":
            end = text.find("}", i)
            if end < 0:
                raise TemplateError(f"a brace is not closed: {text}")
            name, _, form = text[i + 1 : end].partition(".")
            levels[-1][-1].append(Slot(name, form))
            start = end + 1
        elif sign == "[":
            levels.append([[]])
        elif sign == "|" and len(levels) > 1:
            levels[-1].append([])
        elif sign == "]" and len(levels) > 1:
            choice = Choice(tuple(tuple(option) for option in levels.pop()))
            levels[-1][-1].append(choice)
        else:
            raise TemplateError(f"a stray {sign!r}: {text}")
    if len(levels) > 1:
        raise TemplateError(f"a bracket is not closed: {text}")
    if start < len(text):
        levels[0][0].append(text[start:])
    return tuple(levels[0][0])


class Entity:
    """Something a text speaks of: its name (the form "") and further forms, each a template."""

    def __init__(self, forms: dict[str, str]) -> None:
        self.name = forms[""]
        self.forms = {form: compile_template(text) for form, text in forms.items()}

    def settled(self, name: str) -> "Entity":
        """The same entity with a name without alternatives; `name` stays the one it is known by."""
        other = copy(self)
        other.forms = {**self.forms, "": (name,)}
        return other


def table(columns: str, rows: str) -> tuple[Entity, ...]:
    """Entities from lines of cells parted by ';': the first column is the name, the others are named by `columns`."""
    names = ["", *columns.split()]
    entities = []
    for line in rows.strip().splitlines():
        cells = [" ".join(cell.split()) for cell in line.split(";")]
        if len(cells) != len(names):
            raise TemplateError(f"{len(cells)} cells instead of {len(names)}: {line}")
        entities.append(Entity(dict(zip(names, cells))))
    return tuple(entities)


def lines(text: str) -> tuple[str, ...]:
    """The lines of a text, without empty ones: a pool of sentences."""
    return tuple(" ".join(line.split()) for line in text.splitlines() if line.strip())


def words(text: str) -> tuple[str, ...]:
    """Words or phrases parted by commas: a pool of words."""
    return tuple(word.strip() for word in text.split(","))

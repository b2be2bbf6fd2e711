"""One text in the making: what its slots stand for, what was said already, and how its beats are played."""

import re
from dataclasses import dataclass, field

from .rng import Rng
from .template import Choice, Entity, Slot, Template, TemplateError, compile_template

# A beat is a sentence (a template), the name of a shared beat ("@walk"), a paragraph break ("/"), nothing (""), a list
# of beats that follow one another, or a tuple of beats of which one is played.
Beat = str | list["Beat"] | tuple["Beat", ...]

ARTICLE = re.compile(r"\b([Aa]) (?=[aeiAEI]|o(?!ne\b|nce\b)|u(?!ni|se)|hour|honest)")
CAPITAL = re.compile(r'(\^"?|[.!?] "?|\." |\n"?)([a-z])')


def polish(text: str) -> str:
    """Articles before vowels, and capitals where a sentence begins."""
    text = ARTICLE.sub(r"\1n ", text)
    text = CAPITAL.sub(lambda match: match[1] + match[2].upper(), text)
    return text.replace("^", "")


@dataclass(frozen=True)
class Plot:
    """A shape of a text: who takes part, what its slots are bound to (names of tables), and what happens.

    `cast` names the kind of the hero A: child, adult, animal, folk, or "" for texts without one; `season` fixes the \
        season.
    """

    name: str
    beats: list[Beat]
    cast: str = ""
    bind: dict[str, str] = field(default_factory=dict)
    season: str = ""
    weight: int = 1


class Story:
    """Renders beats with slots bound to entities; the pools and shared beats are those of the language given."""

    def __init__(self, rng: Rng, pools: dict[str, tuple[str, ...]], shared: dict[str, Beat], cast: str) -> None:
        self.rng = rng
        self.pools = pools
        self.shared = shared
        self.cast = cast
        self.bound: dict[str, Entity] = {}
        self.used: set[str] = set()
        self.recent: dict[str, str] = {}
        self.parts: list[str] = []

    def bind(self, slot: str, entities: tuple[Entity, ...]) -> None:
        """Binds a slot to an entity that no other slot stands for already; alternatives in its name are settled."""
        taken = {entity.name for entity in self.bound.values()}
        free = [entity for entity in entities if entity.name not in taken]
        entity = self.rng.pick(free or entities)
        self.bound[slot] = entity
        if "[" in entity.name:
            self.bound[slot] = entity.settled(self.line(entity.forms[""]))

    def line(self, template: Template) -> str:
        """The text of a template that is not part of the text yet."""
        parts, self.parts = self.parts, []
        self.render(template)
        parts, self.parts = self.parts, parts
        return "".join(parts)

    def play(self, beat: Beat) -> None:
        """Writes a beat; of several, one that was not told in this text yet."""
        if isinstance(beat, list):
            for part in beat:
                self.play(part)
        elif isinstance(beat, tuple):
            self.play(self.fresh(beat))
        elif beat.startswith("@"):
            self.play(self.shared_beat(beat[1:]))
        elif beat == "/":
            self.parts.append("\n")
        elif beat:
            if self.parts and self.parts[-1] != "\n":
                self.parts.append(" ")
            self.parts.append("^")
            self.render(compile_template(beat))

    def shared_beat(self, name: str) -> Beat:
        """A shared beat by its name, or its kind for the cast of this text."""
        for key in (name, f"{name}.{self.cast}"):
            if key in self.shared:
                return self.shared[key]
        raise TemplateError(f"@{name}: no shared beat has this name")

    def fresh(self, beats: tuple[Beat, ...]) -> Beat:
        """One of the beats; a sentence that was used is given up for another, a few times."""
        for _ in range(4):
            beat = self.rng.pick(beats)
            if not isinstance(beat, str) or not beat or beat[0] == "@" or beat not in self.used:
                break
        if isinstance(beat, str):
            self.used.add(beat)
        return beat

    def render(self, template: Template) -> None:
        """Appends the text of a template."""
        for part in template:
            if isinstance(part, str):
                self.parts.append(part)
            elif isinstance(part, Choice):
                self.render(self.rng.pick(part.options))
            else:
                self.slot(part)

    def slot(self, slot: Slot) -> None:
        """Appends what a slot stands for; words of a pool do not come twice in a row."""
        if entity := self.bound.get(slot.name):
            if slot.form not in entity.forms:
                raise TemplateError(f"{{{slot.name}.{slot.form}}}: {entity.name!r} has no such form")
            self.render(entity.forms[slot.form])
            return
        pool = self.pools.get(slot.name)
        if pool is None or slot.form:
            raise TemplateError(f"{{{slot.name}.{slot.form}}}: nothing has this name")
        i = self.rng.below(len(pool))
        word = pool[i] if pool[i] != self.recent.get(slot.name) else pool[(i + 1) % len(pool)]
        self.recent[slot.name] = word
        self.render(compile_template(word))

    def text(self) -> str:
        """The finished text."""
        return polish("".join(self.parts))

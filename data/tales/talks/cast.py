"""Draws what a conversation is about: beings with names, things, places, and invented nouns."""

from dataclasses import dataclass, replace

from stories.rng import Rng

from . import words
from .text import chance, with_article

INVENTED_PERCENT = 28  # of the subjects: the model must copy these from the request
PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
}
FEMALE = frozenset(
    words.words(
        "girl, woman, queen, princess, fairy, witch, nurse, grandmother, mother, sister, aunt, mermaid, old woman,"
        "little girl, young witch, hen, cow, duck, ballerina, nanny"
    )
)
MALE = frozenset(
    words.words(
        "boy, man, king, prince, knight, wizard, giant, monk, grandfather, father, brother, uncle, snowman, old man,"
        "little boy, brave knight, postman, policeman, fireman, fisherman, rooster, bull, sad clown, lonely giant,"
        "ferryman, cowboy, lumberjack"
    )
)


@dataclass(frozen=True)
class Being:
    """Someone in a story. kind: a noun without article, "" for a person known by name only."""

    kind: str
    name: str
    gender: str  # "she" or "he"

    @property
    def the(self) -> str:
        return f"the {self.kind}"

    def values(self, slot: str) -> dict[str, str]:
        """The texts of this being as slots of templates."""
        forms = {f"{slot}.{form}": text for form, text in PRONOUNS[self.gender].items()}
        return {slot: self.name, f"{slot}.k": self.kind, f"{slot}.a": with_article(self.kind), **forms}


class Cast:
    """The words that one set of conversations may use: those of training, or those held out."""

    def __init__(self, held_out: bool) -> None:
        self.held_out = held_out
        out = held_out
        self.animals = words.HELD_OUT_ANIMALS if out else words.ANIMALS
        self.people = words.HELD_OUT_PEOPLE if out else words.PEOPLE
        self.things = words.HELD_OUT_THINGS if out else words.THINGS
        self.places = words.HELD_OUT_PLACES if out else words.PLACES
        self.women = words.HELD_OUT_WOMEN if out else words.WOMEN
        self.men = words.HELD_OUT_MEN if out else words.MEN

    def invented(self, rng: Rng) -> str:
        """A noun that does not exist, such as "flomper"."""
        text = rng.pick(words.SYLLABLES_BEGIN) + rng.pick(words.SYLLABLES_MIDDLE) + rng.pick(words.SYLLABLES_END)
        if chance(rng, 50):
            text += rng.pick(words.SYLLABLES_BEGIN) + rng.pick(words.SYLLABLES_MIDDLE) + rng.pick(words.SYLLABLES_END)
        if chance(rng, 50) or len(text) < 4:
            text += rng.pick(words.NOUN_ENDS)
        return text

    def kind(self, rng: Rng) -> str:
        """A kind of being."""
        if not self.held_out and chance(rng, INVENTED_PERCENT):
            return self.invented(rng)
        return rng.pick(self.animals if chance(rng, 60) else self.people)

    def common_kind(self, rng: Rng) -> str:
        """A kind that the model may choose by itself."""
        return rng.pick(words.ANIMALS[:60] if chance(rng, 70) else words.PEOPLE[:40])

    def thing(self, rng: Rng) -> str:
        if not self.held_out and chance(rng, INVENTED_PERCENT):
            return self.invented(rng)
        return rng.pick(self.things)

    def place(self, rng: Rng) -> str:
        return rng.pick(self.places)

    def rare_name(self, rng: Rng) -> str:
        """A name that occurs in few other places."""
        name = self.invented(rng)
        while len(name) > 8:
            name = self.invented(rng)
        return name.capitalize()

    def being(self, rng: Rng, kind: str, name: str = "") -> Being:
        """A being of this kind, with this name or with one of the model's own choice."""
        gender = "she" if kind in FEMALE else "he" if kind in MALE else rng.pick(("she", "he"))
        if name in words.WOMEN or name in words.HELD_OUT_WOMEN:
            gender = "she"
        if name in words.MEN or name in words.HELD_OUT_MEN:
            gender = "he"
        return Being(kind, name or rng.pick(words.WOMEN if gender == "she" else words.MEN), gender)

    def given_name(self, rng: Rng) -> str:
        """A name that a user gives."""
        if not self.held_out and chance(rng, 45):
            return self.rare_name(rng)
        return rng.pick(self.women if chance(rng, 50) else self.men)

    def friend_of(self, rng: Rng, hero: Being, kind: str = "") -> Being:
        """Someone with another name, and of another kind unless the kind is given."""
        while True:
            friend = self.being(rng, kind or self.common_kind(rng))
            if friend.name[0] != hero.name[0] and (kind or friend.kind != hero.kind):
                return friend


def renamed(being: Being, name: str) -> Being:
    """The same being under another name."""
    return replace(being, name=name)

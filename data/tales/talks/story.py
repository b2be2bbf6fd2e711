"""One story of a conversation: what is true in it, and its text. Facts that the text leaves out are not known."""

from dataclasses import dataclass, field

from stories.rng import Rng

from . import plots, words
from .cast import Being, Cast
from .plots import Plot
from .text import Values, chance, fill, sentence_case, with_article

IRREGULAR = {"mouse": "mice", "man": "men", "woman": "women", "child": "children", "goose": "geese", "wolf": "wolves",
             "thief": "thieves", "elf": "elves", "calf": "calves", "fish": "fish", "sheep": "sheep", "deer": "deer"}


@dataclass(frozen=True)
class Wish:
    """What the user asks for; the empty parts are the model's choice. topic: a phrase that the text repeats."""

    kind: str = ""
    name: str = ""
    friend_kind: str = ""
    thing: str = ""
    place: str = ""
    topic: str = ""
    is_pair: bool = False
    length: str = ""  # "short", "long"


@dataclass
class Story:
    """The facts and the text of a story. known: the slots that the text uses."""

    plot: Plot
    hero: Being
    friend: Being
    values: Values
    wish: Wish
    is_short: bool = False
    known: set[str] = field(default_factory=set)
    text: str = ""
    n_told: int = 0  # continuations

    def say(self, rng: Rng, text: str) -> str:
        """A template with the slots of this story, as sentences."""
        return sentence_case(fill(rng, text, self.values))


def plural(noun: str) -> str:
    """More than one of a noun."""
    head, _, last = noun.rpartition(" ")
    front = f"{head} " if head else ""
    if last in IRREGULAR:
        return front + IRREGULAR[last]
    if last.endswith(("s", "x", "ch", "sh", "z")):
        return front + last + "es"
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return front + last[:-1] + "ies"
    return front + last + "s"


def _values(rng: Rng, cast: Cast, wish: Wish, hero: Being, friend: Being) -> Values:
    thing = wish.thing or rng.pick(words.THINGS)
    colour = rng.pick(words.COLOURS)
    described = thing if " " in thing or chance(rng, 30) else f"{colour} {thing}"
    part = rng.pick(words.PARTS_OF_DAY)
    values: Values = {
        **hero.values("A"),
        **friend.values("B"),
        "T": thing,
        "a_T": with_article(thing),
        "CT": described,
        "CTa": with_article(described),
        "colour": colour if described.startswith(f"{colour} ") else "",
        "P": f"the {wish.place or (cast.place(rng) if chance(rng, 20) else rng.pick(words.PLACES))}",
        "home": rng.pick(words.HOMES),
        "W": rng.pick(words.WEATHERS),
        "S": rng.pick(words.TIMES),
        "part": part,
        "part2": rng.pick(tuple(p for p in words.PARTS_OF_DAY if p != part)),
        "N": rng.pick(words.NUMBERS),
        "F": rng.pick(words.FOODS),
        "skill": rng.pick(plots.SKILLS),
    }
    if hero.kind:
        trait = "" if " " in hero.kind or chance(rng, 55) else rng.pick(words.TRAITS)
        values["A.ta"] = with_article(f"{trait} {hero.kind}".strip())
        values["ks"] = plural(hero.kind)
    return values


def _opening(wish: Wish, hero: Being) -> plots.Beat:
    if wish.is_pair:
        return plots.OPENINGS_OF_TWO
    return plots.OPENINGS if hero.kind else plots.OPENINGS_OF_NAME


def _beats(rng: Rng, story: Story) -> list[str]:
    """The templates of the story, one per sentence or two."""
    chosen = [rng.pick(_opening(story.wish, story.hero))]
    if story.is_short:
        story.values["verb"] = story.plot.verb[0]
        return chosen + [rng.pick(beat) for beat in plots.SHORT]
    keep = 90 if story.wish.length == "long" else 50
    for beat in story.plot.beats:
        if beat[0] == "?":
            if chance(rng, keep):
                chosen.append(rng.pick(beat[1:]))
        else:
            chosen.append(rng.pick(beat))
    if story.wish.is_pair:  # both are known already
        chosen = [text for text in chosen if "neighbour" not in text and "next door" not in text]
    return chosen


def _introduced(text: str, story: Story) -> str:
    """A friend of the same kind is already known."""
    friend = story.friend
    kind = with_article(friend.kind)
    for long, brief in ((f"{kind} named {friend.name}", friend.name), (f"{kind} called {friend.name}", friend.name),
                        (f"{friend.name}, {kind},", friend.name), (f"{friend.name}, {kind}", friend.name)):
        text = text.replace(long, brief)
    return text


def tell(rng: Rng, cast: Cast, wish: Wish) -> Story:
    """A new story that fulfils the wish."""
    hero = cast.being(rng, wish.kind or ("" if wish.name else cast.common_kind(rng)), wish.name)
    friend = cast.friend_of(rng, hero, hero.kind if wish.is_pair else wish.friend_kind)
    may = [plot for plot in plots.PLOTS for _ in range(plot.weight)]
    if wish.is_pair:
        may = [plot for plot in may if plot.name in ("treasure", "quarrel", "race")]
    story = Story(rng.pick(may), hero, friend, _values(rng, cast, wish, hero, friend), wish)
    story.is_short = wish.length == "short"
    templates = _beats(rng, story)
    parts = [fill(rng, template, story.values, story.known) for template in templates]
    if wish.is_pair:
        parts = [parts[0]] + [_introduced(part, story) for part in parts[1:]]
    story.text = sentence_case(" ".join(parts))
    return story

"""Questions about a story and their right answers. Slots beside those of plots.py: {R} the hero as the user says it,
{Rs} with "'s", {k} the kind of the hero, {X} a wrong guess."""

import re
from dataclasses import dataclass

from stories.rng import Rng

from . import words
from .story import Story
from .text import chance, fill, sentence_case, with_article

Texts = tuple[str, ...]
UNKNOWN: Texts = (
    "The story does not say.",
    "The story does not say that.",
    "I do not know. The story does not say.",
    "That is not in the story.",
)
UNKNOWN_SIGNS = [["not say"], ["not in the story"]]
IN_PLACES = frozenset(
    words.words(
        "forest, wood, meadow, valley, village, town, city, castle, tower, palace, cave, garden, orchard, park, barn,"
        "market, bakery, school, library, desert, jungle, swamp, cellar, attic, kitchen, church, museum, dark forest,"
        "big city, empty house, green valley"
    )
)
ON_PLACES = frozenset(words.words("hill, mountain, beach, island, farm, road, bridge, high mountain, small island"))


@dataclass(frozen=True)
class Asked:
    """A question as a template, its answer, and what a right answer contains: one of the lists, all of its texts."""

    kind: str
    question: str
    answer: str
    signs: list[list[str]]


QUESTIONS: dict[str, Texts] = {
    "name": (
        "what was {his} name?", "what is {his} name?", "what was the name of {R3}?", "what's {his} name?",
        "what was {R3} called?", "what is {R3} called?", "tell me {his} name", "{his} name?", "and {his} name?",
        "what was {Rs} name?", "do you remember {his} name?", "what did they call {him}?", "name of {R3}?",
        "what was the name again?", "remind me, what was {his} name?", "who is the hero of the story?",
    ),
    "friend name": (
        "what was the name of the {B.k}?", "what was the {B.k} called?", "what was the {B.k}'s name?",
        "and the {B.k}?", "what was {his} friend called?", "what was the name of {his} friend?", "who was the {B.k}?",
        "and what was the friend called?", "the {B.k}'s name?",
    ),
    "who": (
        "who was in it?", "who was in the story?", "who is in it?", "who is it about?", "who was it about?",
        "who are the characters?", "who was there?", "who were they?", "who played a part in it?", "characters?",
        "which characters were in the story?", "can you tell me who was in it?", "who is the story about?",
    ),
    "kind": (
        "what was {A}?", "who was {A}?", "what kind of animal was {A}?", "who is {A}?", "what is {A}?",
        "was {A} an animal?", "remind me who {A} was", "what sort of creature was {A}?", "and who is {A}?",
    ),
    "friend kind": (
        "who was {B}?", "what was {B}?", "who is {B}?", "what kind of animal was {B}?", "and {B}?", "and who was {B}?",
        "remind me who {B} was", "what is {B}?",
    ),
    "friend": (
        "who helped {him}?", "who did {R} meet?", "whom did {R} meet?", "who was {his} friend?", "who was with {him}?",
        "was {R} alone?", "did {R} have a friend?", "who else was there?", "who was the other one?",
        "who was {Rs} friend?",
    ),
    "where": (
        "where did it happen?", "where was it?", "where was that?", "where did {R} go?", "where does it take place?",
        "where?", "what was the place?", "where did the story happen?", "where did they go?", "in which place was it?",
        "where were they?", "where did all this happen?",
    ),
    "thing": (
        "what did {R} {does}?", "what was it that {R} {did}?", "what did {A} {does}?", "what thing did {R} {does}?",
        "can you tell me what {R} {did}?", "what did they {does}?", "so what did {R} {does}?", "{did} what?",
    ),
    "found": (
        "what did {R} find?", "what did they find?", "did {R} find something?", "what was found?", "what did {A} find?",
    ),
    "colour": (
        "what colour was the {T}?", "what color was the {T}?", "which colour did the {T} have?", "what colour was it?",
        "what was the color of the {T}?", "the {T}, what colour was it?", "what color?", "and the colour of the {T}?",
    ),
    "number": (
        "how many {unit}?", "how many {unit} was it?", "how many {unit} were there?", "how many {unit} did you say?",
        "for how many {unit}?", "how many {unit} were in the story?",
    ),
    "weather": (
        "what was the weather like?", "how was the weather?", "what was the weather?", "was it a nice day?",
        "how was the weather that day?", "did the sun shine?", "was the weather good?", "weather?",
    ),
    "time": (
        "when did it happen?", "when was that?", "when was it?", "in which season was it?", "what season was it?",
        "when did the story happen?", "what time of the year was it?", "when?", "what time was it?",
    ),
    "food": (
        "what did they eat?", "what did {R} eat?", "what was there to eat?", "did they eat something?",
        "what did they have for dinner?",
        "and what did they eat?", "which food was it?", "what kind of food did they have?",
    ),
    "home": (
        "where did {R} live?", "where was {his} home?", "where does {R} live?", "where did {A} live?",
        "and where did {R} live?",
        "where was {Rs} house?",
    ),
    "problem": (
        "what was the problem?", "what went wrong?", "what was wrong?", "what was the trouble?", "what happened?",
        "what was {Rs} problem?", "was there a problem?", "what was so bad?", "what was the matter?",
    ),
    "why": (
        "why was {R} sad?", "why did {R} need help?", "why?", "why was that?", "why was it a problem?", "but why?",
        "why was it hard?",
    ),
    "end": (
        "how did it end?", "how does it end?", "what happened at the end?", "what was the end?",
        "how did the story end?",
        "what happened in the end?", "did it end well?", "was it a happy end?", "and in the end?", "the ending?",
        "tell me the end again", "how did it all end?", "what happened to {R3}?", "what became of {R3}?",
    ),
    "lesson": (
        "what is the moral?", "what is the moral of the story?", "what can we learn from it?",
        "what do we learn from that?",
        "what does the story teach?", "is there a moral?", "and the moral?", "what is the lesson?",
        "what was the point?",
    ),
    "summary": (
        "what was the story about?", "what was it about?", "can you sum it up?", "summarize the story",
        "in one sentence?",
        "tell it in one sentence", "what happened in the story?", "give me a summary", "sum it up please",
    ),
    "title": (
        "what is the story called?", "what is the title?", "give it a title", "does it have a title?", "title?",
        "can you give the story a name?", "what would you call this story?", "how is the story called?",
    ),
    "is kind": ("was {A} a {X}?", "is {A} a {X}?", "was it about a {X}?", "so {A} was a {X}?", "{A} was a {X}, right?"),
    "is name": ("was {his} name {X}?", "is {his} name {X}?", "was {R3} called {X}?", "{his} name was {X}, right?"),
    "is thing": ("did {R} {does} {Xa}?", "was it {Xa}?", "so {R} {did} {Xa}?"),
    "is colour": ("was the {T} {X}?", "is the {T} {X}?", "so the {T} was {X}?"),
    "happy": (
        "was {R} happy in the end?", "were they happy in the end?", "did they become friends?",
        "was everything good again?",
        "was {R} happy?",
    ),
    "not told": (
        "how old was {R}?", "what did {R} wear?", "what was the name of {his} mother?", "did {R} have children?",
        "how tall was {R}?", "what was {his} favourite song?", "how much did it cost?", "what year was it?",
        "what was {Rs} last name?", "did {R} have a sister?", "what colour were {his} eyes?",
    ),
    "first": (
        "who was in the first story?", "who was in the first one?", "what was the name in the first story?",
        "who was the first story about?", "what was the first one about?", "and in the first story, who was that?",
    ),
}


def _reference(rng: Rng, story: Story) -> dict[str, str]:
    """How the user speaks of the hero."""
    hero, pronouns = story.hero, {form: story.values[f"A.{form}"] for form in ("he", "him", "his")}
    if chance(rng, 8) and story.hero.kind not in words.PEOPLE:
        pronouns = {"he": "it", "him": "it", "his": "its"}
    named = f"the {hero.kind}" if hero.kind and chance(rng, 60) else hero.name
    subject = pronouns["he"] if chance(rng, 60) else named
    return {"R": subject, "R3": f"the {hero.kind}" if hero.kind else pronouns["he"], "Rs": f"{named}'s",
            "him": pronouns["him"], "his": pronouns["his"], "does": story.plot.verb[1], "did": story.plot.verb[0],
            "k": hero.kind}


def _place(story: Story) -> str:
    noun = story.values["P"].removeprefix("the ")
    preposition = "in" if noun in IN_PLACES else "on" if noun in ON_PLACES else "at"
    return f"{preposition} the {noun}"


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:] if text.split(" ")[0] in ("The", "There", "They", "It", "During", "In",
        "A") else text


class Questioner:
    """Asks about one story."""

    def __init__(self, rng: Rng, story: Story) -> None:
        self.rng, self.story = rng, story

    def ask(self, kind: str) -> Asked | None:
        """A question of this kind, or None if it makes no sense for the story."""
        method = getattr(self, "_" + kind.replace(" ", "_"))
        answered = method()
        if answered is None:
            return None
        answers, signs, extra = answered
        values = {**self.story.values, **_reference(self.rng, self.story), **extra}
        question = fill(self.rng, self.rng.pick(QUESTIONS[kind]), values)
        if kind.startswith("is ") and "X" in extra and " a " in question:
            question = question.replace(f" a {extra['X']}", f" {with_article(extra['X'])}")
        answer = sentence_case(fill(self.rng, self.rng.pick(answers), {**self.story.values, **extra, "R": values["R"]}))
        return Asked(kind, question, answer, signs)

    def _fact(self, slot: str, answers: Texts, sign: str) -> tuple[Texts, list[list[str]], dict[str, str]]:
        return (answers, [[sign]], {}) if slot in self.story.known else (UNKNOWN, UNKNOWN_SIGNS, {})

    def _name(self):
        forms = ["{A.his} name was {A}.", "{A.his} name was {A}.", "{A}.", "the name was {A}."]
        if self.story.hero.kind:
            forms.append("the {A.k} was called {A}.")
        return tuple(forms), [[self.story.hero.name]], {}

    def _friend_name(self):
        if self.story.wish.is_pair:
            return None
        return ("{B.his} name was {B}.", "{B}.", "the {B.k} was called {B}."), [[self.story.friend.name]], {}

    def _who(self):
        both = [[self.story.hero.name, self.story.friend.name]]
        if self.story.wish.is_pair:
            return ("{A} and {B}, two {ks}.", "it was about {A} and {B}, two {ks}."), both, {}
        if not self.story.hero.kind:
            return ("{A} and {B}, {B.a}.", "it was about {A} and {B.a} named {B}."), both, {}
        return (
            "{A} the {A.k} and {B} the {B.k}.", "{A}, {A.a}, and {B}, {B.a}.",
            "it was about {A.a} named {A} and {B.a} named {B}.", "there were {A} the {A.k} and {B} the {B.k}.",
        ), both, {}

    def _kind(self):
        if not self.story.hero.kind:
            return None
        return ("{A} was {A.a}.", "{A.he} was {A.a}.", "{A} is the {A.k} in the story."), [[self.story.hero.kind]], {}

    def _friend_kind(self):
        return ("{B} was {B.a}.", "{B} was {B.a}, a friend of {A}.",
            "{B.he} was {B.a}."), [[self.story.friend.kind]], {}

    def _friend(self):
        return (
            "{B}, {B.a}.", "it was {B}, {B.a}.", "{A.his} friend was {B}, {B.a}.", "{B} the {B.k} was with {A.him}.",
        ), [[self.story.friend.name]], {}

    def _where(self):
        place = _place(self.story)
        return ("it happened {where}.", "{where}.", "it was {where}.", "{A} was {where}.", "at {P}."), \
            [[self.story.values["P"]]], {"where": place}

    def _thing(self):
        if self.story.plot.name == "dark":
            return None
        thing = self.story.values["T"]
        return ("{A.he} {did} {CTa}.", "{A} {did} {CTa}.", "{CTa}.", "it was {CTa}."), [[thing]], \
            {"did": self.story.plot.verb[0]}

    def _found(self):
        plot, thing = self.story.plot, self.story.values["T"]
        if plot.verb[0] == "found":
            return ("{A.he} found {CTa}.", "{A} found {CTa}.", "{CTa}."), [[thing]], {}
        if plot.name == "lost" and not self.story.is_short:
            return ("{A.he} found {A.his} {T} again.", "they found the {T} that {A} had lost."), [[thing]], {}
        if plot.name == "dark":
            return ("nothing, but {B} carried {CTa}.",), [[thing]], {}
        return ("nothing was found, but {A.he} {did} {CTa}.",
            "{A.he} did not find anything, but {A.he} {did} {CTa}."), \
            [[thing]], {"did": plot.verb[0]}

    def _colour(self):
        colour = self.story.values["colour"]
        if " " in self.story.values["T"]:
            return None
        if not colour or not {"CT", "CTa"} & self.story.known:
            return UNKNOWN, UNKNOWN_SIGNS, {}
        return ("the {T} was {colour}.", "it was {colour}.", "{colour}.", "it was a {colour} {T}."), [[colour]], {}

    def _number(self):
        found = re.search(rf"\b{self.story.values['N']} ([a-z]+)", self.story.text)
        if not found or "N" not in self.story.known:
            return None
        return ("{N} {unit}.", "it was {N} {unit}.", "{N}."), [[self.story.values["N"]]], {"unit": found[1]}

    def _weather(self):
        return self._fact("W", ("it was {W}.", "it was {W}.", "it was {W} that day."), self.story.values["W"])

    def _time(self):
        values, known = self.story.values, self.story.known
        if "S" in known and "part" in known:
            return ("it was a {part} in {S}.", "one {part} in {S}."), [[values["part"], values["S"]]], {}
        if "S" in known:
            return self._fact("S", ("it was in {S}.", "in {S}."), values["S"])
        return self._fact("part", ("it was {in_part}.", "one {part}."), values["part"])[:2] + (
            {"in_part": "at night" if values["part"] == "night" else f"in the {values['part']}"},)

    def _food(self):
        return self._fact("F", ("they ate {F}.", "{F}.", "there was {F}."), self.story.values["F"])

    def _home(self):
        return self._fact("home", ("{A.he} lived {home}.", "{A} lived {home}.", "{home}."), self.story.values["home"])

    def _own_words(self, texts: Texts) -> list[list[str]]:
        return [[fill(self.rng, text, self.story.values).rstrip(".").lower()] for text in texts]

    def _problem(self):
        if self.story.is_short:
            return ("there was no problem at all.", "nothing went wrong."), [["no problem"], ["nothing"]], {}
        return self.story.plot.problem, self._own_words(self.story.plot.problem), {}

    def _why(self):
        if self.story.is_short:
            return None
        text = fill(self.rng, self.rng.pick(self.story.plot.problem), self.story.values)
        return ("because {reason}",), self._own_words(self.story.plot.problem), {"reason": _lowered(text)}

    def _end(self):
        if self.story.is_short:
            last = re.split(r"(?<=[.!?]) ", self.story.text)[-1].replace("Then t", "T").replace("And then t", "T")
            return ("{last}",), [[last.rstrip(".").lower()]], {"last": last}
        return self.story.plot.end, self._own_words(self.story.plot.end), {}

    def _lesson(self):
        if self.story.is_short:
            return None
        return self.story.plot.lesson, self._own_words(self.story.plot.lesson), {}

    def _summary(self):
        if self.story.plot.name == "dark":
            return None
        signs = [[self.story.hero.name, self.story.values["T"]]]
        who = "{A}, {A.a}, who" if self.story.hero.kind else "{A}, who"
        return (f"it was about {who} {{did}} {{CTa}}.", f"it is the story of {who} {{did}} {{CTa}}."), signs, \
            {"did": self.story.plot.verb[0]}

    def _title(self):
        return ('"{A} and the {T}".', 'I call it "{A} and the {T}".', "{A} and the {T}."), \
            [[self.story.hero.name, self.story.values["T"]]], {}

    def _happy(self):
        return ("yes, {A} was happy.", "yes, in the end they were happy.", "yes, everything was good."), [["yes"]], {}

    def _not_told(self):
        return UNKNOWN, UNKNOWN_SIGNS, {}

    def _is_kind(self):
        kind = self.story.hero.kind
        if not kind:
            return None
        if chance(self.rng, 50):
            return ("yes, {A} was {A.a}.", "yes, {A.he} was {A.a}."), [["yes"]], {"X": kind}
        other = self.rng.pick(words.ANIMALS)
        return None if other == kind else (("no, {A} was {A.a}.", "no, {A.he} was {A.a}."), [["no,", kind]],
            {"X": other})

    def _is_name(self):
        name = self.story.hero.name
        if chance(self.rng, 50):
            return ("yes, {A.his} name was {A}.", "yes, that was {A.his} name."), [["yes"]], {"X": name}
        other = self.rng.pick(words.WOMEN + words.MEN)
        return None if other == name else (("no, {A.his} name was {A}.",), [["no,", name]], {"X": other})

    def _is_thing(self):
        if self.story.plot.name == "dark":
            return None
        did = {"did": self.story.plot.verb[0]}
        if chance(self.rng, 50):
            return ("yes, {A.he} {did} {CTa}.", "yes, it was {CTa}."), [["yes"]], {**did,
                "Xa": self.story.values["a_T"]}
        other = self.rng.pick(words.THINGS)
        if other == self.story.values["T"]:
            return None
        return ("no, {A.he} {did} {CTa}.", "no, it was {CTa}."), [["no,", self.story.values["T"]]], \
            {**did, "Xa": with_article(other)}

    def _is_colour(self):
        colour = self.story.values["colour"]
        if not colour:
            return None
        if chance(self.rng, 50):
            return ("yes, it was {colour}.", "yes, the {T} was {colour}."), [["yes"]], {"X": colour}
        other = self.rng.pick(words.COLOURS)
        return None if other == colour else (("no, it was {colour}.", "no, the {T} was {colour}."), [["no,", colour]],
            {"X": other})

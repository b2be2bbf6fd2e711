"""Whole conversations: who says what, in which order, until the context is full."""

from collections.abc import Callable
from dataclasses import dataclass, field

from stories.rng import Rng

from . import plots, small_talk, words
from .cast import Cast
from .questions import QUESTIONS, Asked, Questioner
from .small_talk import TOPICS, Topic
from .story import Story, Wish, plural, tell
from .text import as_typed, chance, fill, sentence_case, with_article

KINDS = tuple(
    kind
    for kind, weight in {
        "name": 5, "friend name": 2, "who": 4, "kind": 2, "friend kind": 2, "friend": 3, "where": 5, "thing": 4,
        "found": 5,
        "colour": 3, "number": 2, "weather": 2, "time": 2, "food": 2, "home": 2, "problem": 3, "why": 2, "end": 5,
        "lesson": 2, "summary": 2, "title": 2, "is kind": 1, "is name": 1, "is thing": 1, "is colour": 1,
        "happy": 1, "not told": 2,
    }.items()
    for _ in range(weight)
)


@dataclass(frozen=True)
class Turn:
    """A message of the user and the answer. kind: of the message; signs: as in Asked, for questions."""

    user: str
    answer: str
    kind: str
    signs: tuple[tuple[str, ...], ...] = ()


@dataclass
class Talk:
    """A conversation while it is made."""

    rng: Rng
    cast: Cast
    turns: list[Turn] = field(default_factory=list)
    stories: list[Story] = field(default_factory=list)
    offer: Wish | None = None
    offered_any: bool = False
    user_name: str = ""
    system: str = ""
    is_brief: bool = False  # only short stories, and questions about them

    @property
    def n_bytes(self) -> int:
        return sum(len(turn.user) + len(turn.answer) + 12 for turn in self.turns) + len(self.system)

    def add(self, said: str, answer: str, kind: str, signs: list[list[str]] | None = None) -> None:
        """A turn; the user's words are typed as people type."""
        keep = frozenset(word.lower() for story in self.stories[-1:] for word in self._names(story))
        typed = as_typed(self.rng, said, keep)
        self.turns.append(Turn(typed, answer, kind, tuple(tuple(s) for s in signs or ())))

    def _names(self, story: Story) -> list[str]:
        wish = story.wish
        text = " ".join((wish.kind, wish.name, wish.friend_kind, wish.thing, wish.place, wish.topic, story.hero.kind,
            story.hero.name,
                         story.friend.name, story.friend.kind, story.values["T"]))
        return text.split() + [plural(word) for word in text.split()]


def draw_wish(rng: Rng, cast: Cast) -> tuple[Wish, str, str]:
    """What a user asks for: the wish, its words after "about", and a bare noun or ""."""
    kind = rng.below(100)
    if kind < 40:
        being = cast.kind(rng)
        return Wish(kind=being), with_article(being), being
    if kind < 52:
        being, name = cast.kind(rng), cast.given_name(rng)
        joint = rng.pick(("called", "named", "called", "named", "whose name is", "with the name"))
        return Wish(kind=being, name=name), f"{with_article(being)} {joint} {name}", ""
    if kind < 59:
        name = cast.given_name(rng)
        return Wish(name=name), name, name if chance(rng, 30) else ""
    if kind < 75:
        thing = cast.thing(rng)
        return Wish(thing=thing), rng.pick((with_article(thing), with_article(thing), f"the {thing}")), thing
    if kind < 80:
        place = cast.place(rng)
        return Wish(place=place), rng.pick((with_article(place), f"the {place}")), place
    if kind < 86:
        being, other = cast.kind(rng), cast.kind(rng)
        if being == other:
            return Wish(kind=being), with_article(being), being
        return Wish(kind=being, friend_kind=other), f"{with_article(being)} and {with_article(other)}", ""
    if kind < 92:
        being, thing = cast.kind(rng), cast.thing(rng)
        joint = rng.pick(("and", "and", "with", "who has", "who finds"))
        return Wish(kind=being, thing=thing), f"{with_article(being)} {joint} {with_article(thing)}", ""
    if kind < 96:
        being, thing = cast.kind(rng), cast.thing(rng) if chance(rng, 60) else ""
        with_thing = f" and {with_article(thing)}" if thing else ""
        return Wish(kind=being, thing=thing, is_pair=True), f"two {plural(being)}{with_thing}", ""
    if kind < 98:
        being = rng.pick(("grandmother", "grandfather", "dog", "cat", "sister", "brother", "mother", "teacher",
            "friend", "rabbit"))
        being = being if not cast.held_out and chance(rng, 60) else cast.kind(rng)
        name = cast.given_name(rng) if chance(rng, 40) else ""
        return Wish(kind=being, name=name), f"my {being}{' ' + name if name else ''}", ""
    topic = rng.pick(words.TOPICS)
    return Wish(topic=topic), topic, ""


def _with_length(wish: Wish, length: str) -> Wish:
    return Wish(wish.kind, wish.name, wish.friend_kind, wish.thing, wish.place, wish.topic, wish.is_pair, length)


def _answer_with(talk: Talk, wish: Wish) -> str:
    if talk.is_brief:
        wish = _with_length(wish, "short")
    story = tell(talk.rng, talk.cast, wish)
    talk.stories.append(story)
    talk.offer, talk.offered_any = None, False
    lead = f"Here is a story about {wish.topic}. " if wish.topic else ""
    if not lead and chance(talk.rng, 20):
        lead = talk.rng.pick(small_talk.LEAD_INS) + " "
    return lead + story.text


def story_turn(talk: Talk) -> None:
    """A wish for a story, and the story."""
    rng = talk.rng
    wish, about, bare = draw_wish(rng, talk.cast)
    values = {"about": about, "bare": bare}
    kind = "story"
    if bare and not talk.stories and chance(rng, 10):
        said = rng.pick(small_talk.WISHES_BARE)
    elif chance(rng, 7):
        said, wish = rng.pick(small_talk.SHORT_ABOUT), _with_length(wish, "short")
    elif talk.stories and chance(rng, 60):
        said = rng.pick(small_talk.MORE_WISHES)
    else:
        said = rng.pick(small_talk.WISHES)
    said = fill(rng, said, values)
    answer = _answer_with(talk, wish)
    parts = [part for part in (wish.kind, wish.name, wish.friend_kind, wish.thing, wish.place, wish.topic) if part]
    if wish.is_pair:
        parts[0] = plural(wish.kind)
    talk.add(said, answer, kind, [parts])


def any_story_turn(talk: Talk) -> None:
    """A wish for a story without a subject."""
    rng = talk.rng
    if not talk.stories or chance(rng, 20):
        said, wish = rng.pick(small_talk.ANY_STORY), Wish()
    elif chance(rng, 50):
        said, wish = rng.pick(small_talk.ANOTHER), Wish()
    elif chance(rng, 75):
        said, wish = rng.pick(small_talk.SHORTER), Wish(length="short")
    else:
        said, wish = rng.pick(small_talk.LONGER), Wish(length="long")
    talk.add(said, _answer_with(talk, wish), "any story")


def go_on_turn(talk: Talk) -> None:
    """The story goes on, at most twice."""
    story, rng = talk.stories[-1], talk.rng
    said = fill(rng, rng.pick(small_talk.GO_ON), story.values)
    if story.n_told >= len(plots.GO_ON):
        talk.offered_any = True
        talk.add(said, story.say(rng, rng.pick(plots.NO_MORE)), "go on")
        return
    beat = plots.GO_ON[story.n_told]
    story.n_told += 1
    talk.offered_any = False
    talk.add(said, story.say(rng, rng.pick(beat)), "go on")


def question_turn(talk: Talk, kind: str | None = None) -> Asked | None:
    """A question about the last story, or about the first one."""
    rng = talk.rng
    if len(talk.stories) > 1 and kind is None and chance(rng, 12):
        asked = _about_first(talk)
    else:
        asked = Questioner(rng, talk.stories[-1]).ask(kind or rng.pick(KINDS))
    if asked is None:
        return None
    question = asked.question
    if chance(rng, 8):
        question = rng.pick(("and ", "please, ", "i forgot, ", "tell me, ", "so ", "wait, ", "hey, ")) + question
    talk.add(question, asked.answer, f"question: {asked.kind}", asked.signs)
    return asked


def _about_first(talk: Talk) -> Asked | None:
    asked = Questioner(talk.rng, talk.stories[0]).ask("who")
    if asked is None:
        return None
    return Asked("first", talk.rng.pick(QUESTIONS["first"]), asked.answer, asked.signs)


def _offer(talk: Talk) -> str:
    """The words of an offer, which the next message may accept."""
    rng = talk.rng
    if chance(rng, 45):
        talk.offered_any = True
        return rng.pick(small_talk.OPEN_OFFERS)
    if chance(rng, 60):
        kind = talk.cast.common_kind(rng)
        talk.offer = Wish(kind=kind)
        return fill(rng, rng.pick(small_talk.OFFERS), {"offer": with_article(kind)})
    thing = rng.pick(words.THINGS)
    talk.offer = Wish(thing=thing)
    return fill(rng, rng.pick(small_talk.OFFERS), {"offer": with_article(thing)})


def small_talk_turn(talk: Talk, topic: Topic | None = None) -> None:
    """A message that is no wish, and maybe an offer."""
    rng = talk.rng
    may = [t for t in TOPICS for _ in range(t.weight) if talk.stories or t.name not in ("praise", "true", "thanks")]
    topic = topic or rng.pick(may)
    thing = talk.cast.thing(rng)
    values = {"n": str(2 + rng.below(98)), "n2": str(2 + rng.below(98)), "thing": thing, "a_thing": with_article(thing),
              "place2": talk.cast.invented(rng).capitalize(), "noise": talk.cast.invented(rng)}
    said = fill(rng, rng.pick(topic.said), values)
    answer = rng.pick(topic.answers)
    talk.offer, talk.offered_any = None, False
    if chance(rng, topic.offers):
        answer += " " + _offer(talk)
    talk.add(said, answer, f"small talk: {topic.name}")


def reply_turn(talk: Talk) -> None:
    """Yes or no to the offer of the last answer."""
    rng = talk.rng
    if chance(rng, 18):
        talk.offer, talk.offered_any = None, False
        talk.add(rng.pick(small_talk.NO), rng.pick(small_talk.ANSWERS_TO_NO), "no")
        return
    wish = talk.offer or Wish()
    parts = [part for part in (wish.kind, wish.thing) if part]
    answer = _answer_with(talk, wish)
    talk.add(rng.pick(small_talk.YES), answer, "yes", [parts] if parts else None)


def name_turn(talk: Talk) -> None:
    """The user gives a name, or asks for it."""
    rng = talk.rng
    talk.offer, talk.offered_any = None, False
    if talk.user_name:
        answer = fill(rng, rng.pick(small_talk.YOUR_NAME_IS), {"U": talk.user_name})
        talk.add(rng.pick(small_talk.WHAT_IS_MY_NAME), answer, "my name", [[talk.user_name]])
    elif chance(rng, 20):
        talk.add(rng.pick(small_talk.WHAT_IS_MY_NAME), rng.pick(small_talk.NO_NAME), "my name", [["not know"],
            ["not tell"]])
    else:
        talk.user_name = talk.cast.given_name(rng)
        said = fill(rng, rng.pick(small_talk.MY_NAME), {"U": talk.user_name})
        answer = fill(rng, rng.pick(small_talk.NICE_TO_MEET), {"U": talk.user_name})
        if chance(rng, 60):
            answer += " " + _offer(talk)
        talk.add(said, answer, "user's name", [[talk.user_name]])


def no_story_turn(talk: Talk) -> None:
    """A question before any story."""
    rng = talk.rng
    said = rng.pick(tuple(q for kind in ("who", "where", "end", "lesson",
        "name") for q in QUESTIONS[kind] if "{" not in q))
    talk.offer, talk.offered_any = None, False
    talk.add(said, rng.pick(small_talk.NO_STORY_YET) + " " + _offer(talk), "no story")


Move = Callable[[Talk], object]


def _next(talk: Talk) -> Move:
    """What happens next."""
    rng = talk.rng
    if (talk.offer or talk.offered_any) and chance(rng, 55):
        return reply_turn
    roll = rng.below(100)
    if talk.is_brief and chance(rng, 85):
        return question_turn if talk.stories else story_turn
    if not talk.stories:
        return story_turn if roll < 62 else any_story_turn if roll < 72 else small_talk_turn if roll < 94 else \
            name_turn if roll < 98 else no_story_turn
    if roll < 62:
        return question_turn
    return go_on_turn if roll < 70 else story_turn if roll < 84 else any_story_turn if roll < 91 else \
        small_talk_turn if roll < 98 else name_turn


def make_talk(rng: Rng, cast: Cast, max_bytes: int, is_brief: bool = False) -> Talk:
    """A conversation of at most about max_bytes."""
    talk = Talk(rng, cast, is_brief=is_brief)
    if not is_brief and chance(rng, 10):
        talk.system = rng.pick(small_talk.SYSTEM)
    if not is_brief and chance(rng, 30):
        small_talk_turn(talk, rng.pick([t for t in TOPICS if t.name in ("hi", "hi", "what can you do", "who are you")]))
    while talk.n_bytes < max_bytes - 100:
        n_before, n_stories = len(talk.turns), len(talk.stories)
        offer = (talk.offer, talk.offered_any)
        _next(talk)(talk)
        if len(talk.turns) > n_before and talk.turns[-1].kind.startswith("question"):
            talk.offer, talk.offered_any = None, False
        if talk.n_bytes > max_bytes:
            del talk.turns[n_before:]
            del talk.stories[n_stories:]
            talk.offer, talk.offered_any = offer
            break
    return talk


def echo(rng: Rng, cast: Cast, n_bytes: int) -> str:
    """Random words, and the same words as the answer: from these a model learns to copy sooner than from stories."""
    known = words.ANIMALS + words.PEOPLE + words.THINGS + words.PLACES + words.WOMEN + words.MEN + words.FOODS
    said = ""
    while len(said) < n_bytes:
        said += " " + (rng.pick(known) if chance(rng, 60) else cast.invented(rng) if chance(rng,
            70) else cast.rare_name(rng))
    return f"<|user|>{said[1:]}<|end|><|assistant|>{said[1:]}<|end|>"


def rendered(talk: Talk) -> str:
    """The conversation as the model's chat template writes it."""
    text = f"<|system|>{talk.system}<|end|>" if talk.system else ""
    return text + "".join(f"<|user|>{turn.user}<|end|><|assistant|>{turn.answer}<|end|>" for turn in talk.turns)

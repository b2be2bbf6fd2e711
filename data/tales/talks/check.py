"""The self-test of the conversations: the same seed gives the same text, answers have their facts."""

import re

from stories.rng import Rng

from . import words
from .cast import Cast
from .questions import QUESTIONS
from .talk import Talk, make_talk, rendered
from .text import as_typed, fill, sentence_case, with_article

N_TALKS = 300
MARKS = re.compile(r"<\|(?:system|user|assistant|end)\|>")


def _talks(seed: int, held_out: bool = False) -> list[Talk]:
    rng, cast = Rng(seed), Cast(held_out)
    return [make_talk(Rng(rng.bits()), cast, 1800) for _ in range(N_TALKS)]


def _check_words() -> None:
    held_out = {word for name, some in vars(words).items() if name.startswith("HELD_OUT") for word in some}
    others = words.ANIMALS + words.PEOPLE + words.THINGS + words.PLACES + words.WOMEN + words.MEN + words.TOPICS
    assert not held_out & set(others), held_out & set(others)


def _check_text() -> None:
    assert with_article("owl") == "an owl" and with_article("unicorn") == "a unicorn"
    assert sentence_case('he said. "yes!" said she. then') == 'He said. "Yes!" said she. Then'
    assert fill(Rng(1), "{A} [ran|ran] to {P}", {"A": "Otto", "P": "the mill"}) == "Otto ran to the mill"
    typed = [as_typed(Rng(seed), "tell me about the walrus", frozenset({"walrus"})) for seed in range(400)]
    assert all("walrus" in text.lower() for text in typed)
    assert any("about" not in text.lower() for text in typed)


def _check_talk(talk: Talk) -> None:
    text = rendered(talk)
    assert text.isascii() and "{" not in text and "[" not in text and "  " not in text, text
    assert MARKS.sub("", text).find("<|") < 0, text
    assert talk.n_bytes <= 1800
    for turn in talk.turns:
        assert turn.answer and turn.answer.count("!") <= 3, turn
        spoken = turn.answer.lower()
        assert not turn.signs or any(all(sign.lower() in spoken for sign in signs) for signs in turn.signs), turn


def self_test() -> int:
    """Runs all checks; returns the exit status."""
    _check_words()
    _check_text()
    talks = _talks(1)
    for talk in talks + _talks(2, held_out=True):
        _check_talk(talk)
    assert [rendered(talk) for talk in talks] == [rendered(talk) for talk in _talks(1)]
    assert rendered(talks[0]) != rendered(_talks(3)[0])
    kinds = {turn.kind.removeprefix("question: ") for talk in talks for turn in talk.turns}
    assert set(QUESTIONS) <= kinds, set(QUESTIONS) - kinds
    print(f"conversations: {len(talks)} checked, {len(kinds)} kinds of messages")
    return 0

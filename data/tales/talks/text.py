"""Fills templates of the conversations, and writes as people type. Templates are those of stories/template.py."""

import re

from stories.rng import Rng
from stories.template import Choice, Slot, Template, compile_template

Values = dict[str, str]
VOWELS = frozenset("aeiouAEIOU")
SENTENCE_BEGIN = re.compile(r'(^|[.!?] |[.]" )("?)([a-z])')


def chance(rng: Rng, percent: int) -> bool:
    """True in so many of a hundred cases."""
    return rng.below(100) < percent


def with_article(noun: str) -> str:
    """The noun after "a" or "an"."""
    begins_as_consonant = noun.startswith(("uni", "use", "one ", "eu"))
    if not noun:
        return ""
    return f"{'an' if noun[0] in VOWELS and not begins_as_consonant else 'a'} {noun}"


def fill(rng: Rng, text: str, values: Values, used: set[str] | None = None) -> str:
    """The template with its alternatives chosen and its slots filled; the names of its slots are added to `used`."""
    return "".join(_parts(rng, compile_template(text), values, used))


def _parts(rng: Rng, template: Template, values: Values, used: set[str] | None) -> list[str]:
    done: list[str] = []
    waiting = list(reversed(template))
    while waiting:
        part = waiting.pop()
        if isinstance(part, Choice):
            waiting += reversed(rng.pick(part.options))
        elif isinstance(part, Slot):
            done.append(values[f"{part.name}.{part.form}" if part.form else part.name])
            if used is not None:
                used.add(part.name)
        else:
            done.append(part)
    return done


def sentence_case(text: str) -> str:
    """A capital letter at the begin of each sentence."""
    return SENTENCE_BEGIN.sub(lambda found: found[1] + found[2] + found[3].upper(), text)


def _misspell(rng: Rng, word: str) -> str:
    at = 1 + rng.below(len(word) - 2)
    kind = rng.below(4)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 2:
        return word[:at] + word[at] + word[at:]
    return word[:at] + "abcdefghijklmnopqrstuvwxyz"[rng.below(26)] + word[at + 1 :]


def as_typed(rng: Rng, text: str, keep: frozenset[str] = frozenset()) -> str:
    """A user's message: maybe in lower case, without its last sign, with a typo; the words in `keep` have no typo."""
    if chance(rng, 55):
        text = text[0].upper() + text[1:] if chance(rng, 15) else (text.lower() if chance(rng, 70) else text)
        if chance(rng, 75):
            text = text.rstrip(".?!") or text
    else:
        text = text[0].upper() + text[1:]
    if chance(rng, 10):
        text = text.replace("'", "")
    if chance(rng, 7):
        spelled = text.split(" ")
        may = [i for i, word in enumerate(spelled) if len(word) > 3 and word.isalpha() and word.lower() not in keep]
        if may:
            i = rng.pick(may)
            spelled[i] = _misspell(rng, spelled[i])
            text = " ".join(spelled)
    if chance(rng, 3):
        text = text.rstrip(".?!") + rng.pick(("!", "!!", "...", " ?", "??", " :)", " pls", " please"))
    return text

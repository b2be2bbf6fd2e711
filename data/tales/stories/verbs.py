"""Verb phrases in their forms: "sweep the floor", "sweeps the floor", "swept the floor", "sweeping the floor"."""

from .template import Entity

VOWELS = "aeiou"

# base: past, past participle
IRREGULAR: dict[str, tuple[str, str]] = {
    line.split()[0]: (line.split()[1], line.split()[2])
    for line in """
be was been
beat beat beaten
begin began begun
bend bent bent
blow blew blown
break broke broken
bring brought brought
build built built
buy bought bought
catch caught caught
choose chose chosen
come came come
cut cut cut
dig dug dug
do did done
draw drew drawn
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feed fed fed
feel felt felt
find found found
fly flew flown
forget forgot forgotten
get got got
give gave given
go went gone
grind ground ground
grow grew grown
hang hung hung
have had had
hear heard heard
hide hid hidden
hold held held
keep kept kept
know knew known
lay laid laid
lead led led
leave left left
lend lent lent
let let let
lie lay lain
light lit lit
lose lost lost
make made made
mow mowed mown
pay paid paid
put put put
read read read
ride rode ridden
ring rang rung
rise rose risen
run ran run
say said said
see saw seen
sell sold sold
send sent sent
set set set
sew sewed sewn
shake shook shaken
shut shut shut
sing sang sung
sit sat sat
sleep slept slept
speak spoke spoken
spend spent spent
spread spread spread
stand stood stood
stick stuck stuck
sweep swept swept
swim swam swum
take took taken
teach taught taught
tell told told
think thought thought
throw threw thrown
wake woke woken
wear wore worn
weave wove woven
win won won
wind wound wound
write wrote written
""".strip().splitlines()
}
DOUBLED = frozenset("chat chop drop grab hum knit pat plan rub scrub shovel skip slip stir stop tap trim wrap".split())
DOUBLED_ING = DOUBLED | frozenset("begin cut dig forget get let put run set shut sit swim win".split())


def third(verb: str) -> str:
    """sweep -> sweeps, wash -> washes, carry -> carries."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb[-1] == "y" and verb[-2] not in VOWELS:
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def past(verb: str) -> str:
    """sweep -> swept, wash -> washed, carry -> carried, stir -> stirred."""
    if verb in IRREGULAR:
        return IRREGULAR[verb][0]
    if verb in DOUBLED:
        return verb + verb[-1] + "ed"
    if verb[-1] == "y" and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return verb + ("d" if verb[-1] == "e" else "ed")


def participle(verb: str) -> str:
    """sweep -> swept, write -> written, wash -> washed."""
    return IRREGULAR[verb][1] if verb in IRREGULAR else past(verb)


def ing(verb: str) -> str:
    """sweep -> sweeping, write -> writing, stir -> stirring, lie -> lying."""
    if verb in DOUBLED_ING:
        return verb + verb[-1] + "ing"
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb[-1] == "e" and verb[-2] != "e" and verb != "be":
        return verb[:-1] + "ing"
    return verb + "ing"


def action(phrase: str) -> Entity:
    """A verb phrase; the verb is its first word."""
    verb, _, rest = phrase.partition(" ")
    tail = " " + rest if rest else ""
    return Entity(
        {
            "": phrase,
            "s": third(verb) + tail,
            "past": past(verb) + tail,
            "done": participle(verb) + tail,
            "ing": ing(verb) + tail,
        }
    )

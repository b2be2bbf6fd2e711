"""Who takes part: names, kinds and pronouns of the hero A, the friend B, the elder C and the stranger D."""

from .rng import Rng
from .template import Entity, words

GIRLS = words(
    "Anna, Clara, Emma, Ella, Greta, Hannah, Ida, Julia, Lena, Lily, Lucy, Maja, Mia, Nina, Nora, Olga, Paula, Rosa, "
    "Ruth,"
    "Sara, Sofia, Tilda, Vera, Zoe, Alice, Martha, Flora, Agnes, Elsa, Marie, Helen, Irma, Jane, Kate, Laura, Molly, "
    "Stella, Amira"
)
BOYS = words(
    "Adam, Anton, Ben, Carl, David, Emil, Felix, Finn, Georg, Henry, Hugo, Jack, Jakob, Jonas, Karim, Leo, Lucas, "
    "Max, Milo, Noah,"
    "Oskar, Otto, Paul, Peter, Robin, Sam, Simon, Theo, Tim, Tom, Victor, Walter, Arthur, Daniel, Edgar, Martin, "
    "Oliver, Toby"
)
BEASTS = words(
    "fox, hare, hedgehog, badger, squirrel, mouse, otter, frog, mole, owl, rabbit, duck, goose, beaver, raccoon, "
    "weasel, sparrow,"
    "robin, crow, toad"
)
SHE_BEASTS = words("Pipa, Tilly, Minka, Hazel, Dotty, Fern, Bella, Luna, Poppy, Wilma, Mossy, Trudy")
HE_BEASTS = words("Pip, Rufus, Bruno, Barnaby, Fidget, Nils, Hopper, Bramble, Tuft, Oskar, Basil, Grumble")
TALE_SHE = words(
    "queen, shepherdess, princess, miller's daughter, goose girl, weaver, fisherman's daughter, young baker, beekeeper"
)
TALE_HE = words(
    "king, shepherd, prince, miller's son, young tailor, woodcutter, fisherman's son, young soldier, shoemaker"
)

SHE = {"he": "she", "him": "her", "his": "her", "himself": "herself", "child": "girl", "young": "young woman"}
HE = {"he": "he", "him": "him", "his": "his", "himself": "himself", "child": "boy", "young": "young man"}
PRONOUNS = (SHE, HE)

ELDERS = (
    ("grandmother", "the old woman", SHE),
    ("grandfather", "the old man", HE),
    ("mother", "the woman", SHE),
    ("father", "the man", HE),
    ("aunt", "the woman", SHE),
    ("uncle", "the man", HE),
)
VILLAGERS = (
    ("the baker", HE), ("the teacher", SHE), ("the old gardener", HE), ("the shopkeeper", SHE), ("the ferryman", HE),
    ("the postwoman", SHE), ("the miller", HE), ("the farmer", SHE), ("the blacksmith", HE), ("the doctor", SHE),
)  # fmt: skip
STRANGERS = (
    ("an old woman with a [heavy basket|grey shawl|walking stick]", "the old woman", SHE),
    ("an old man with a [long white beard|heavy sack|wooden leg]", "the old man", HE),
    ("a tired traveller with dusty boots", "the traveller", HE),
    ("a pedlar with a cart full of pots", "the pedlar", HE),
    ("a young woman with a suitcase", "the young woman", SHE),
    ("a lady in a grey coat", "the lady", SHE),
    ("a sailor with a blue cap", "the sailor", HE),
    ("a musician with a fiddle on {D.his} back", "the musician", HE),
)
ELDER_BEASTS = (
    ("the old owl", SHE), ("the grey heron", HE), ("the old tortoise", SHE), ("the badger with the white beard", HE),
    ("the wise old raven", SHE), ("the old stag", HE), ("the grandmother of the moles", SHE),
)  # fmt: skip


def person(name: str, kind: str, pronouns: dict[str, str], the: str = "") -> Entity:
    """An entity with a name, what it is ("girl", "fox") and pronouns."""
    my = name.replace("{A.his}", "my")
    return Entity({"": name, "kind": kind, "the": the or f"the {kind}", "my": my, **pronouns})


def hero(rng: Rng, cast: str) -> tuple[Entity, Entity]:
    """The hero and the friend, who differ in sex, so that "he" and "she" are always plain."""
    first = rng.below(2)
    names = (rng.pick(GIRLS), rng.pick(BOYS))
    kinds = ("girl", "boy")
    if cast == "animal":
        names = (rng.pick(SHE_BEASTS), rng.pick(HE_BEASTS))
        own = rng.pick(BEASTS)
        kinds = (own, rng.pick([beast for beast in BEASTS if beast != own]))
    elif cast == "adult":
        kinds = ("woman", "man")
    elif cast == "folk":
        kinds = (rng.pick(TALE_SHE), rng.pick(TALE_HE))
    who = [person(names[i], kinds[i], PRONOUNS[i]) for i in (first, 1 - first)]
    return who[0], who[1]


def company(rng: Rng, cast: str) -> dict[str, Entity]:
    """Everyone a plot may call on: A hero, B friend, C elder of the hero, D stranger, V villager."""
    a, b = hero(rng, cast)
    if cast == "animal":
        name, pronouns = rng.pick(ELDER_BEASTS)
        elder = person(name, name, pronouns, name)
    else:
        kind, the, pronouns = rng.pick(ELDERS[:2] if cast == "adult" else ELDERS)
        elder = person("{A.his} " + kind, kind, pronouns, the)
    name, the, pronouns = rng.pick(STRANGERS)
    stranger = person(name, name, pronouns, the)
    name, pronouns = rng.pick(VILLAGERS)
    return {"A": a, "B": b, "C": elder, "D": stranger, "V": person(name, name, pronouns, name)}

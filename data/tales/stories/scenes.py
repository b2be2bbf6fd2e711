"""Scenes: a place, the people in it, and what they do there, in sentences of many shapes and tenses."""

from string import Template as Letters

from .cast import HE, SHE, person
from .story import Beat, Plot
from .template import Entity, lines, words
from .verbs import action

# name: where; people (she: marked with *); actions; things that go on by themselves (clauses in the past tense)
SCENES: dict[str, tuple[str, str, str, str]] = {
    "kitchen": (
        "In the kitchen",
        "the cook, the kitchen maid*, the old housekeeper*, the apprentice",
        "stir the soup, peel the potatoes, wash the dishes, knead the dough, taste the sauce, set the table, chop the "
        "onions,"
        "grate the cheese, fill the kettle, sweep the floor, slice the bread, warm the milk, polish the spoons, dry "
        "the plates",
        "the kettle sang on the stove, it smelled of onions and butter, steam rose from the pots, the window was misty,"
        "a cat slept under the table, the clock ticked above the door",
    ),
    "garden": (
        "In the garden",
        "the gardener, the neighbour*, the old man, the girl*, the boy",
        "water the roses, pull out the weeds, cut the hedge, rake the leaves, pick the beans, dig a bed, plant the "
        "bulbs,"
        "tie up the tomatoes, feed the birds, mow the grass, trim the bushes, carry the pots into the shade, paint "
        "the fence",
        "bees hummed in the lavender, a blackbird pulled at a worm, the cherries were ripe, a snail crept along the "
        "wall,"
        "the shadows grew longer, the air smelled of cut grass",
    ),
    "school": (
        "At school",
        "the teacher*, the new boy, the caretaker, the girl in the first row*, the boy by the window",
        "write a word on the board, read a poem aloud, sharpen a pencil, draw a map, count to a hundred, open the "
        "window,"
        "clean the board, ring the bell, learn a song, fold a paper boat, look for a ruler, hand out the books, solve "
        "a sum",
        "rain ran down the windows, someone whispered in the last row, the chalk squeaked, dust danced in the light,"
        "the clock seemed to stand still, a fly walked across the map",
    ),
    "harbour": (
        "At the harbour",
        "the captain, the fisherman, the sailor, the harbour master, the fishwife*, the cabin boy",
        "mend the nets, load the boxes, pull in the ropes, paint the boat, count the barrels, clean the fish, hoist "
        "the sail,"
        "light the lamp, wave to the ferry, look at the clouds, scrub the deck, oil the winch, drop the anchor",
        "gulls cried above the masts, the tide was going out, a bell rang in the fog, the ropes creaked,"
        "it smelled of tar and salt, small waves slapped against the wall",
    ),
    "farm": (
        "On the farm",
        "the farmer, the farmer's wife*, the milkmaid*, the stable boy, the grandfather",
        "milk the cows, feed the hens, clean the stable, harness the horse, gather the eggs, load the hay, mend the "
        "fence,"
        "sharpen the scythe, carry the milk cans, count the sheep, chop wood, fill the trough, drive the geese to the "
        "pond",
        "the cock crowed on the dunghill, swallows flew in and out of the barn, the dog lay in the sun,"
        "the pigs grunted, a cart rolled through the gate, flies buzzed around the horses",
    ),
    "forest": (
        "In the forest",
        "the woodcutter, the hunter, the charcoal burner, the herb woman*, the ranger*",
        "gather mushrooms, mark the old trees, follow the tracks of a deer, saw a trunk, light a fire, collect dry "
        "wood,"
        "listen to the owls, rest on a stump, drink from the spring, search for herbs, whistle for the dog, sharpen "
        "the axe",
        "a woodpecker knocked somewhere, mist hung between the trunks, the ferns were wet, the wind moved the tops of "
        "the firs,"
        "a squirrel ran up an oak, it grew dark early",
    ),
    "workshop": (
        "In the workshop",
        "the master, the apprentice, the joiner, the customer*, the turner",
        "plane a board, drive in a nail, sharpen a chisel, measure a plank, glue a chair, saw a beam, sand the table "
        "top,"
        "sweep up the shavings, draw a plan, hang the tools on the wall, oil the hinges, turn a bowl, mix the varnish",
        "shavings lay on the floor, it smelled of glue and fresh wood, the fire in the stove crackled, dust hung in "
        "the air,"
        "a radio played softly, rain drummed on the roof",
    ),
    "station": (
        "At the station",
        "the station master, the porter, the conductor*, the old lady*, the soldier, the traveller*",
        "buy a ticket, wait for the train, carry a suitcase, read the timetable, blow the whistle, write a postcard,"
        "drink a cup of coffee, look at the clock, wave a handkerchief, open an umbrella, search for a seat, help a "
        "child up the steps",
        "steam hissed from the engine, a bell rang, pigeons walked between the benches, the train was late again,"
        "voices echoed under the roof, a dog howled in a basket",
    ),
    "beach": (
        "On the beach",
        "the lifeguard, the ice cream man, the painter*, the girl*, the boy, the grandmother*",
        "build a castle of sand, gather shells, swim to the rock, fly a kite, throw a ball into the waves, sleep "
        "under an umbrella,"
        "dig a deep hole, eat an ice cream, look for crabs, hunt for amber, paint the sea, shake the sand from a towel",
        "the tide came in, gulls screamed, the sand was hot, a white sail stood on the horizon,"
        "the waves rolled over the stones, the sun sank into the sea",
    ),
    "market": (
        "At the market",
        "the baker, the flower seller*, the fishmonger, the customer*, the farmer's wife*, the policeman",
        "sell apples, weigh the cheese, count the coins, praise the melons, wrap up the fish, choose a cabbage, taste "
        "the honey,"
        "push a cart, arrange the flowers, fill a basket, bargain over a hen, look for a lost purse, put up a stall",
        "a fiddler played at the corner, pigeons pecked at crumbs, it smelled of cheese and oranges, people pushed "
        "past,"
        "the church clock struck ten, a dog stole a sausage",
    ),
    "library": (
        "In the library",
        "the librarian*, the student, the professor, the reader in the corner*, the schoolboy",
        "look for a book, dust the shelves, read the newspaper, copy a poem, copy a picture, climb the ladder, turn "
        "the pages,"
        "return two novels, carry a pile of books, look up a word, write a list, open an old atlas",
        "it was so quiet that one could hear the pages, the lamps shed a green light, snow fell outside the window,"
        "the floor creaked, an old clock struck, the heating hummed",
    ),
    "winter street": (
        "On the snowy street",
        "the postman, the chimney sweep, the neighbour*, the boy, the girl*, the coachman",
        "shovel the snow, throw a snowball, pull a sledge, scatter sand on the ice, build a snowman, carry wood into "
        "the house,"
        "buy roasted chestnuts, sweep the steps, brush the snow from a hat, blow on cold fingers, light the lanterns, "
        "hang up a wreath",
        "flakes fell without a sound, smoke rose from the chimneys, icicles hung from the roofs, sledge bells rang,"
        "the windows glowed, a sparrow hopped through the snow",
    ),
    "ship": (
        "On the ship",
        "the captain, the helmsman, the ship's cook, the cabin boy, the doctor*, the helmsman's wife*",
        "steer by the stars, climb the mast, roll up the sails, peel potatoes, write in the log, scrub the deck, sing "
        "an old song,"
        "watch the waves, study the chart, keep watch, catch a fish, beat the drum, look for land",
        "the ship rolled from side to side, the wind sang in the ropes, dolphins leapt beside the bow, the lamp swung,"
        "there was nothing but water all around, the stars came out",
    ),
    "hospital": (
        "In the hospital",
        "the nurse*, the doctor*, the young doctor, the student, the old nurse*, the surgeon",
        "measure the temperature, change the bandage, bring a bunch of flowers, read a story aloud, close the "
        "curtain, make tea,"
        "write a note, look for the key, shake the pillows, tell a joke, warm some broth, count the tablets",
        "the corridor smelled of soap, rain ran down the window, a trolley rattled, the night lamp burned,"
        "a clock ticked, it was visiting time",
    ),
    "park": (
        "In the park",
        "the old man, the nursemaid*, the gardener, the girl with the hoop*, the boy, the painter*",
        "feed the ducks, ride a bicycle, play chess, push a pram, read a newspaper, skip over a rope, eat a sandwich,"
        "chase a butterfly, sleep on a bench, draw the fountain, listen to the band, throw a stick for the dog",
        "the fountain splashed, leaves fell into the pond, a band was playing, the chestnuts were in bloom,"
        "two swans came nearer, the lamps were lit",
    ),
    "castle": (
        "In the castle",
        "the king, the queen*, the guard, the page, the cook, the princess*",
        "count the silver, lower the bridge, light the torches, polish the armour, close the gate, play the harp, "
        "feed the falcon,"
        "write a letter with a long feather, search for a secret door, wind up the clock, sweep the hall, comb the dog",
        "ravens circled around the tower, the wind howled in the chimney, trumpets sounded at the gate, candles "
        "flickered,"
        "armour rattled in the hall, a mouse ran across the carpet",
    ),
    "mountain hut": (
        "In the mountain hut",
        "the shepherd, the guide*, the climber, the goatherd, the old woman*",
        "milk the goats, make cheese, light the stove, dry wet socks, study the map, tie a rope, melt snow for tea,"
        "wait for the fog to go, carve a spoon, tell the story of the avalanche, bring in wood, grease the boots",
        "the wind shook the door, clouds hung below the windows, bells rang on the slope, the fire crackled,"
        "the peaks turned red, it smelled of hay and smoke",
    ),
    "bakery": (
        "In the bakery",
        "the baker, the baker's wife*, the apprentice, the shop girl*, the first customer",
        "knead the dough, heat the oven, dust the table with flour, roll out the pastry, fill the buns with jam, "
        "count the rolls,"
        "take the loaves from the oven, open the shop, sell a cake, ice the biscuits, sweep up the flour, carry the "
        "sacks",
        "it was still dark outside, the oven glowed, warm air came from the door, the street was empty,"
        "it smelled of fresh bread, white dust lay on everything",
    ),
}

SEASONS = {"winter street": "winter", "beach": "summer", "garden": "summer", "park": "spring"}

# Patterns of sentences: $q and $r are people, $v and $w what they do, $g something that goes on.
PAST = """
{$q} {$v.past}, and {$r} {$w.past}.
{$q} was {$v.ing} while {$r} {$w.past}.
While {$q} was {$v.ing}, {$r} {$w.past}.
{$q} {$v.past}. Then {$q.he} {$w.past}.
Before {$q} could {$v}, {$q.he} had to {$w}.
After {$q} had {$v.done}, {$q.he} {$w.past}.
{$q} wanted to {$v}, but {$r} asked {$q.him} to {$w} first.
{$r} asked {$q} to {$v}, and {$q.he} did so {gladly}.
{$q} forgot to {$v}, because {$q.he} had to {$w}.
{$q} helped {$r} to {$v}.
{$q} had promised to {$v}, and {$q.he} kept {$q.his} word.
{$q} stopped {$v.ing} and looked up, for {$g}.
It was {$q} who {$v.past}, not {$r}.
{$q} {$v.past} as if there were nothing else in the world.
{$q} tried to {$v}, but it was not as easy as it looked.
Instead of {$v.ing}, {$q} {$w.past}.
{$q} {$v.past} without a word. "Thank you," said {$r}.
When {$q} came in, {$r} was {$v.ing}.
As soon as {$q} had {$v.done}, {$q.he} {$w.past}.
Nobody could {$v} as well as {$q}.
Although {$q} was {tired}, {$q.he} {$v.past}.
{$q} and {$r} {$v.past} together.
"Who will {$v}?" asked {$r}. "I will," said {$q}.
"Have you {$v.done}?" asked {$r}. "Not yet," said {$q}. "First, I must {$w}."
"Please {$v}," said {$r}. "With pleasure," said {$q}.
"I would rather {$v} than {$w}," said {$q} with a {smile}.
"You may {$v} when you have {$w.done}," said {$r}. {$q} nodded.
"Look," said {$r}, "{$q} is {$v.ing}!"
"Why do you not {$v}?" asked {$r}. "Because nobody asked me to," said {$q}.
"It is time to {$v}," said {$q}. "Already?" asked {$r}.
^{$g}. {$q} {$v.past}.
^{$g}, and {$q} {$v.past}.
^{$g} while {$q} {$v.past}.
"""
PRESENT = """
{$q} {$v.s}, and {$r} {$w.s}.
{$q} {$v.s}. After that, {$q.he} {$w.s}.
Before {$q} {$v.s}, {$q.he} {$w.s}.
When {$q} has time, {$q.he} {$v.s}.
Sometimes {$q} {$v.s}, but only when {$r} {$w.s}.
{$q} likes to {$v}, while {$r} likes to {$w}.
{$q} never forgets to {$v}.
If {$q} does not {$v}, {$r} has to do it.
{$q} is {$v.ing}, and {$r} is {$w.ing}.
"May I {$v}?" asks {$r}. "If you like," says {$q}.
{$q} {$v.s} so well that {$r} only watches.
{$q} has already {$v.done}, and now {$q.he} can {$w}.
It is not easy to {$v}, but {$q} has learned it.
{$r} does not want to {$v}, and so {$q} has to do it.
"""
OPENINGS = lines("""
    {where}, there was always something to do.
    {where}, everyone was busy [that day|from morning to night|again].
    {where}, it was {quiet} at that hour.
    {where}, the day began early.
    It was [a Monday|a Tuesday|a Friday|a Saturday], and {where_low}, the work had just begun.
    {S.day}, {B} stood {where_low} and watched. {B.he} had never seen so much at once.
    {S.day}, {where_low}, {L}.
    "What is everyone doing here?" asked {B}. "Just look," said {B.his} [mother|father].
""")
OPENINGS_PRESENT = lines("""
    {where}, there is always something to do.
    {where}, nobody is ever bored.
    Every morning, the same thing happens {where_low}.
    Whoever looks around {where_low} can see a lot.
    [On Mondays|On Saturdays|In {S}], {where_low}, everyone is busy.
""")
GUESTS = lines("""
    {A}, a {A.kind} of {number_old}, had come to help.
    A {trait} {A.kind} named {A} stood at the side and looked on.
    Then {A} came, who was {trait} and always full of questions.
    Today, {A} was there, too.
""")
GUESTS_PRESENT = lines("""
    {A}, a {A.kind} of {number_old}, comes every day to help.
    Today, a {trait} {A.kind} named {A} is here, too.
    {A} comes after school and wants to learn everything.
""")
ENDINGS = lines("""
    Then the day was over, and everyone went home.
    In the evening, when all was done, {Q} and {R} sat side by side and were silent.
    One could have watched for hours.
    So it went on until the evening, and the next day it began again.
    "Tomorrow is another day," said {R}, and {Q} agreed.
    Nobody noticed how the time went by.
    And {N}.
    At the end of the day, {Q} was {tired}, but {Q.he} was content, too.
""")
ENDINGS_PRESENT = lines("""
    And so it goes on, day after day.
    In the evening, it becomes quiet, and only the clock can be heard.
    That is how it has always been here.
    {R} says that there is no better place in the world.
    Those who come once come again.
""")


def people(text: str) -> tuple[Entity, ...]:
    """Persons from words such as "the cook, the nurse*"; a star marks a woman."""
    who = [(name.strip("*"), SHE if name.endswith("*") else HE) for name in words(text)]
    return tuple(person(name, name, pronouns, name) for name, pronouns in who)


def sentences(text: str, **slots: str) -> tuple[Beat, ...]:
    """Patterns with the letters of their slots put in."""
    return tuple(Letters(line).substitute(slots) for line in lines(text))


def scene(name: str, where: str, tense: str) -> Plot:
    """A plot that takes a look at a scene, in the past or the present tense."""
    present = tense == "present"
    text = PRESENT if present else PAST
    openings = OPENINGS_PRESENT if present else OPENINGS
    low = where[0].lower() + where[1:]
    opening = tuple(line.replace("{where}", where).replace("{where_low}", low) for line in openings)
    bind = {"Q": f"people of the {name}", "R": f"people of the {name}"}
    bind |= {slot: f"actions of the {name}" for slot in "TWUXYZIJ"}
    bind |= {slot: f"{name} goes on" for slot in "GHKLMN"}
    beats: list[Beat] = [
        opening,
        sentences(text, q="Q", r="R", v="T", w="W", g="G"),
        sentences(text, q="R", r="Q", v="U", w="X", g="K"),
        (
            [
                GUESTS_PRESENT if present else GUESTS,
                sentences(text, q="A", r="Q", v="Y", w="Z", g="H"),
                sentences(text, q="R", r="A", v="I", w="J", g="M"),
            ],
            sentences(text, q="R", r="Q", v="Y", w="Z", g="H"),
        ),
        (ENDINGS_PRESENT if present else ENDINGS),
    ]
    return Plot(f"{name} ({tense})", beats, cast="child", bind=bind, season=SEASONS.get(name, ""))


TABLES: dict[str, tuple[Entity, ...]] = {}
for _name, (_where, _people, _actions, _clauses) in SCENES.items():
    TABLES[f"people of the {_name}"] = people(_people)
    TABLES[f"actions of the {_name}"] = tuple(action(phrase) for phrase in words(_actions))
    TABLES[f"{_name} goes on"] = tuple(Entity({"": clause}) for clause in words(_clauses))

PLOTS = tuple(scene(name, cells[0], tense) for name, cells in SCENES.items() for tense in ("past", "past", "present"))

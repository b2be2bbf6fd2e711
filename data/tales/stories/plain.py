"""Plain paragraphs of everyday knowledge: about oneself, comparisons, opposites, colours, days, houses, pets."""

from .story import Plot
from .template import Entity, table, words

SIZES = words(
    "an ant, a bee, a mouse, a sparrow, a squirrel, a cat, a fox, a sheep, a wolf, a pony, a cow, a horse, a giraffe, "
    "a whale"
)
SPEEDS = words("a snail, a tortoise, a duck, a person, a cat, a wolf, a horse, a train, an aeroplane, the light")
WEIGHTS = words("a feather, a letter, an apple, a brick, a chair, a bicycle, a piano, a car, a ship, a mountain")


def orders(items: tuple[str, ...], more: str, less: str) -> tuple[Entity, ...]:
    """Pairs of things of which the second has more of a quality."""
    return tuple(
        Entity({"": items[j], "other": items[i], "more": more, "less": less})
        for i in range(len(items))
        for j in range(i + 1, min(i + 5, len(items)))
    )


PAIRS = (
    *orders(SIZES, "bigger", "smaller"),
    *orders(SPEEDS, "faster", "slower"),
    *orders(WEIGHTS, "heavier", "lighter"),
)

OPPOSITES = table(
    "other one two",
    """
hot; cold; fire; ice
big; small; a mountain; a pebble
day; night; the sun; the moon
wet; dry; rain; dust
loud; quiet; a drum; a whisper
old; young; a grandfather; a baby
hard; soft; a stone; a pillow
sweet; sour; honey; a lemon
heavy; light; iron; a feather
early; late; the lark; the owl
full; empty; a barn in autumn; a barn in spring
fast; slow; the hare; the tortoise
high; low; a tower; a cellar
bright; dark; a lamp; a cave
rich; poor; the king; the beggar
sharp; blunt; a knife; a spoon
long; short; a river; a brook
""",
)

COLOURS = table(
    "first second third",
    """
red; a ripe cherry; the roof of a farmhouse; the breast of a robin
green; the grass; a frog; the leaf of a birch in May
blue; the sky at noon; a cornflower; the sea on a clear day
yellow; a lemon; the yolk of an egg; the field when the corn is ripe
white; fresh snow; a swan; the milk in the jug
black; coal; a raven; the night without a moon
brown; the bark of an oak; a bear; the crust of the bread
grey; a donkey; a rainy day; the beard of an old man
orange; a carrot; a pumpkin; the beak of a blackbird
""",
)

WEEK = table(
    "before after",
    """
Monday; Sunday; Tuesday
Tuesday; Monday; Wednesday
Wednesday; Tuesday; Thursday
Thursday; Wednesday; Friday
Friday; Thursday; Saturday
Saturday; Friday; Sunday
Sunday; Saturday; Monday
""",
)

MATERIALS = table(
    "things get feel",
    """
wood; tables, doors, boats and flutes; from trees; warm and light
iron; nails, knives, bridges and stoves; out of the ground, as ore; cold and heavy
glass; windows, bottles and marbles; from sand, which is melted in a hot fire; smooth and hard
wool; scarves, socks and blankets; from sheep, which are shorn in spring; soft and warm
clay; bricks, pots and cups; from the ground near rivers; cool and wet
paper; books, letters and kites; from wood and old rags; thin and dry
leather; shoes, belts and saddles; from the skins of animals; firm and smooth
wax; candles; from bees; smooth and a little sticky
stone; walls, towers and mills; from quarries; cold and rough
cotton; shirts, sheets and curtains; from a plant that grows in warm countries; soft and light
silver; spoons, bells and rings; from deep mines; smooth and bright
straw; roofs, hats and beds for animals; from the fields after the harvest; dry and golden
""",
)

PETS = table(
    "kind he likes habit",
    """
Bello; dog; he; [long walks|old shoes|the sea]; [sleeps in front of my bed|barks at the postman|buries bones in the \
    garden|brings me the newspaper]
Minka; cat; she; [warm milk|the top of the cupboard|open windows]; [comes and goes as she likes|sleeps on the \
    newspaper|catches mice in the barn|sits in every box]
Lotte; hen; she; [worms|sunny places|company]; [lays an egg each morning|follows me into the kitchen|scratches up the \
    flower beds]
Jacky; donkey; he; [carrots|thistles|shade]; [carries our wood|stops when he wants to stop|brays at six in the morning]
Schecki; pony; he; [apples|wide meadows|being brushed]; [opens the gate with his nose|runs to the fence when I whistle]
Flocke; rabbit; she; [dandelions|quiet corners|carrots]; [digs deep holes|stands up to look over the grass|sleeps with \
    open eyes]
Coco; parrot; he; [nuts|music|the mirror]; [says good morning in the evening|can imitate the telephone|whistles when \
    it rains]
""",
)

PLOTS = (
    Plot(
        "about me",
        cast="child",
        bind={"P": "place"},
        weight=5,
        beats=[
            (
                "My name is {A}.",
                "My name is {A}, and I am {number_old} years old.",
                "I am {A}.",
                "Hello, my name is {A}.",
            ),
            (
                "I live {home.in}.",
                "We live {home.in}, my family and I.",
                "I have a [brother|sister] who is {few} years older than I am.",
            ),
            (
                "My [mother|father] is a [baker|teacher|doctor|carpenter|gardener|nurse|sailor|farmer].",
                (
                    "My [mother|father] works [in the city|at the harbour|in a hospital|on a farm|in a school], and "
                    "my [grandmother|grandfather] lives with us."
                ),
            ),
            (
                (
                    "My best friend is called {B}. ^{B.he} lives [next door|across the street|behind the hill], and "
                    "we see each other {often}."
                ),
                "I like to be {P.in}.",
                "I like [reading|swimming|drawing|climbing trees|cooking|music|the smell of rain].",
            ),
            (
                "I do not like [getting up early|onions|thunder|being late|long speeches].",
                "My favourite colour is [red|blue|green|yellow], and my favourite food is {meal}.",
                "When I grow up, I want to be a [sailor|doctor|baker|teacher|gardener|painter|captain].",
            ),
            (
                "What do you like?",
                "And what is your name?",
                "That is all there is to say about me for now.",
                "Sometimes I am [sad|shy|loud], but mostly I am glad.",
                "",
            ),
        ],
    ),
    Plot(
        "comparison",
        bind={"N": "pair", "M": "pair"},
        weight=4,
        beats=[
            (
                "^{N} is {N.more} than {N.other}.",
                "What is {N.more}, {N.other} or {N}? ^{N} is {N.more}.",
                "Everyone knows that {N} is {N.more} than {N.other}.",
            ),
            ("^{N.other} is {N.less} than {N}.", "So {N.other} is {N.less} than {N}.", ""),
            ("^{M} is {M.more} than {M.other}.", "And {M}? ^{M} is {M.more} than {M.other}."),
            (
                "But that does not mean that one is better than the other.",
                "To compare two things, one must look at both of them.",
                "There is always something that is {M.more} still.",
                "",
            ),
        ],
    ),
    Plot(
        "opposites",
        bind={"N": "opposite", "M": "opposite"},
        weight=4,
        beats=[
            (
                "The opposite of {N} is {N.other}.",
                "{N} and {N.other} are opposites.",
                '"What is the opposite of {N}?" asked the teacher. "{N.other}," said the children.',
            ),
            ("When we think of {N}, we think of {N.one}, and when we think of {N.other}, we think of {N.two}.", ""),
            ("The opposite of {M} is {M.other}.", "In the same way, {M} is the opposite of {M.other}."),
            ("Think of {M.one} and of {M.two}.", "Without the one, we would not know the other.", ""),
        ],
    ),
    Plot(
        "colour",
        bind={"N": "colour", "M": "colour"},
        weight=4,
        beats=[
            ("What is {N}?", "Many things are {N}.", "{N} is a beautiful colour."),
            "^{N.first} is {N}, {N.second} is {N}, and so is {N.third}.",
            (
                "If everything were {N}, the world would be dull.",
                "Some people like {M} better. ^{M.first} is {M}.",
                "And what is {M}? {M.second}, for example.",
            ),
            ("Which colour do you like best?", "Every colour is beautiful in its place.", ""),
        ],
    ),
    Plot(
        "week",
        bind={"N": "day"},
        weight=3,
        beats=[
            (
                "{N} comes after {N.before} and before {N.after}.",
                "The day after {N} is {N.after}.",
                "If today is {N}, then yesterday was {N.before}, and tomorrow will be {N.after}.",
            ),
            (
                "A week has seven days.",
                "There are seven days in a week: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.",
            ),
            (
                (
                    "On {N}, [the market is held on the square|the library is open until eight|we have music at "
                    "school|my aunt comes to visit|the garbage is taken away|we eat fish]."
                ),
                "On {N}, I always [water the plants|write a letter|go swimming|clean my shoes|visit my grandmother].",
            ),
            ("Every day has its own face.", "Some people like one day better than the others.", ""),
        ],
    ),
    Plot(
        "material",
        bind={"N": "material", "M": "material"},
        weight=4,
        beats=[
            (
                "Many things are made of {N}: {N.things}.",
                "What is {N} used for? One can make {N.things} of it.",
                "{N} is a useful material.",
            ),
            ("{N} comes {N.get}.", "We get {N} {N.get}."),
            "It feels {N.feel}.",
            ("", "For thousands of years, people have worked with {N}."),
            ("{M} is quite different: it feels {M.feel}.", "Of {M}, on the other hand, people make {M.things}.", ""),
        ],
    ),
    Plot(
        "pet",
        cast="child",
        bind={"N": "pet", "P": "place"},
        weight=4,
        beats=[
            (
                "We have a {N.kind} named {N}.",
                "My {N.kind} is called {N}.",
                "{N} is our {N.kind}, and {N.he} is {few} years old.",
                "In our yard lives a {N.kind} named {N}.",
            ),
            ("{N.he} likes {N.likes}.", "Most of all, {N.he} loves {N.likes}."),
            "{N.he} {N.habit}.",
            (
                "I feed {N} [every morning|twice a day], before I eat anything myself.",
                "When I come home from school, {N} is already waiting.",
                "We found {N} {P.in} when {N.he} was very small.",
            ),
            (
                (
                    "Once, {N} was gone for {days}. Then {N.he} stood at the door again, thin and dirty, and we were "
                    "all glad."
                ),
                "Once, {N} fell into the well, and my [father|uncle|grandfather] climbed down on a rope.",
                "At night, {N} is not supposed to be in my bed, but {N.he} does not know that.",
            ),
            (
                "I would not give {N} away for all the money in the world.",
                "{B} says that {N} is the cleverest {N.kind} in the [street|village].",
                "An animal is a lot of work, but also a lot of joy.",
            ),
        ],
    ),
    Plot(
        "house",
        cast="child",
        weight=4,
        beats=[
            (
                "Our house has {few} rooms and a [red|grey|steep] roof.",
                "The house stands [on a hill|at the end of the lane|beside a {tree}|by the river].",
                "There are {few} windows on each side of our house.",
                "In our house, there is always someone who [sings|laughs|cooks|is looking for something].",
            ),
            (
                "On the ground floor is the kitchen, with [a big stove|a long table|a green bench].",
                "Behind the door hang the coats, and below them stand {few} pairs of boots.",
            ),
            (
                "From my window, I can see [the church tower|the river|the hills|{B}'s house|the old {tree}].",
                (
                    "Under the roof, there is a room with old [books|chests|clothes], where it smells of "
                    "[dust|apples|lavender]."
                ),
            ),
            (
                "In winter, we sit around the stove, and in summer, we sit in front of the door.",
                "The third step of the stairs creaks, and so we always step over it.",
                "The door is never locked, because everyone here knows everyone.",
            ),
            (
                "My [grandfather|great-grandmother|father] built it {number} years before I was born.",
                "Nobody knows how old it is.",
                "It is not large, but there is room for everyone.",
            ),
            (
                "When I am far away, I think of it.",
                "I would not want to live anywhere else.",
                "A house is only a house, but when the lamp is lit, it is a home.",
            ),
        ],
    ),
    Plot(
        "family meal",
        cast="child",
        weight=3,
        beats=[
            (
                "On Sundays, the whole family eats together.",
                "At our table, there are {number} chairs.",
                "When the bell rings, we all come to the table.",
            ),
            (
                "There is {meal}, and for the little ones there is {drink}.",
                "My [grandmother|father|aunt] cooks, and my brother sets the table.",
            ),
            (
                "My [uncle|grandfather] always tells the same story, and we always laugh.",
                "Everyone talks at once, and nobody listens, and that is very nice.",
                "My little sister does not want to eat, but as soon as there is cake, she is hungry.",
            ),
            (
                "Afterwards, we wash the dishes: one washes, one dries, and one drops the spoons.",
                "Then we go for a walk, even when it rains.",
                "Later we play cards until it is dark.",
            ),
            ("I like Sundays best.", "And next Sunday, it will be the same, I hope.", ""),
        ],
    ),
)

TABLES: dict[str, tuple[Entity, ...]] = {
    "pair": PAIRS,
    "opposite": OPPOSITES,
    "colour": COLOURS,
    "day": WEEK,
    "material": MATERIALS,
    "pet": PETS,
}

"""Paragraphs of facts: animals, countries, tools, work, seasons, and questions with answers."""

from .story import Plot
from .template import Entity, table

# plural; young; where; food; about: three sentences
ANIMALS = table(
    "plural young where food first second third",
    """
fox; foxes; cub; in forests and at the edge of towns; mice, berries and beetles; A fox has a bushy tail, which keeps \
    it warm when it sleeps; It can hear a mouse under the snow; Foxes sleep by day and hunt at night
hedgehog; hedgehogs; hoglet; in gardens and hedges; beetles, worms and snails; A hedgehog has several thousand spines \
    on its back; When it is in danger, it rolls itself into a ball; In winter, it sleeps under a heap of leaves
owl; owls; owlet; in woods and old towers; mice and other small animals; An owl can turn its head almost all the way \
    around; Its feathers are so soft that nobody hears it fly; It sees very well in the dark
bee; bees; larva; in a hive; nectar and pollen; A bee visits hundreds of flowers in a day; Bees tell each other by a \
    dance where the flowers are; Out of nectar they make honey
cow; cows; calf; on farms and pastures; grass and hay; A cow chews its food twice; It gives many litres of milk each \
    day; Cows like company and know each other well
horse; horses; foal; on pastures and in stables; grass, hay and oats; A horse can sleep standing up; A foal can stand \
    an hour after it is born; For a long time, horses pulled ploughs and carriages
cat; cats; kitten; in houses and on farms; meat and fish; A cat can jump many times its own height; It washes itself \
    with its tongue; With its whiskers it feels its way in the dark
dog; dogs; puppy; with people; meat and many other things; A dog can smell things that no human can smell; Dogs guard \
    houses and look after sheep; A happy dog wags its tail
squirrel; squirrels; kitten; in trees; nuts, seeds and cones; A squirrel uses its tail to keep its balance; In autumn, \
    it hides nuts for the winter; It forgets some of them, and so new trees grow
frog; frogs; tadpole; in ponds and wet meadows; flies and other insects; A frog catches flies with its long tongue; It \
    can breathe through its skin; In spring, frogs sing at night
swan; swans; cygnet; on lakes and slow rivers; water plants; A swan is one of the heaviest birds that can fly; Young \
    swans are grey, and old ones are white; Two swans often stay together all their lives
beaver; beavers; kit; at streams and rivers; bark, leaves and twigs; A beaver can fell a tree with its teeth; It \
    builds dams of branches and mud; The door of its house lies under the water
bear; bears; cub; in forests and mountains; berries, roots, fish and honey; A bear can run faster than a human being; \
    It sleeps through a large part of the winter; Bears have a very good nose
wolf; wolves; pup; in forests and on wide plains; deer and other animals; Wolves live in families and hunt together; \
    They howl to call each other; Dogs come from wolves
deer; deer; fawn; in woods and meadows; grass, leaves and buds; The male deer has antlers, which grow anew every year; \
    A fawn has white spots that hide it in the grass; Deer are shy and come out in the evening
mole; moles; pup; under the ground; worms and grubs; A mole digs with its front feet, which look like shovels; It can \
    hardly see, but it feels every step above it; Its tunnels can be a hundred metres long
bat; bats; pup; in caves, attics and hollow trees; insects; A bat finds its way with sounds that we cannot hear; It \
    sleeps with its head down; Bats are the only mammals that can really fly
spider; spiders; spiderling; almost everywhere; flies and other insects; A spider has eight legs; Many spiders build a \
    new web every night; Their thread is thinner than a hair, but very strong
ant; ants; larva; in nests under the ground; seeds, insects and sweet juice; An ant can carry much more than its own \
    weight; Thousands of ants live together in one nest; They find their way by smell
snail; snails; hatchling; in gardens and damp places; leaves and herbs; A snail carries its house on its back; It \
    glides on a trail of slime; In dry weather, it shuts its door and waits for rain
swallow; swallows; chick; under roofs and in barns; flies and gnats; A swallow catches its food in flight; It builds \
    its nest of mud; In autumn, swallows fly to Africa
stork; storks; chick; on roofs and tall poles; frogs, mice and worms; A stork does not sing but claps its beak; It \
    comes back to the same nest each year; Storks fly a long way to the south in autumn
duck; ducks; duckling; on ponds and rivers; water plants and small animals; A duck has feathers that do not get wet; \
    Ducklings can swim on their first day; They follow the first thing they see, and that is mostly their mother
goat; goats; kid; on farms and in the mountains; grass, leaves and herbs; A goat can climb very steep rocks; Its milk \
    makes good cheese; Goats are curious and eat almost anything
sheep; sheep; lamb; on meadows and hills; grass and clover; A sheep gives wool, which is cut once a year; Sheep stay \
    close together in a flock; Each lamb knows the voice of its mother
hen; hens; chick; on farms; corn, grass and worms; A hen lays almost one egg a day; She sits on her eggs for three \
    weeks until the chicks hatch; Hens bathe in dust
whale; whales; calf; in the sea; small crabs and fish; The blue whale is the largest animal on earth; Whales must come \
    up to breathe; They sing, and their songs can be heard far away
dolphin; dolphins; calf; in the sea and in some rivers; fish and squid; Dolphins are clever and like to play; They \
    live in groups and help each other; They find fish by sound
penguin; penguins; chick; on the cold coasts of the south; fish and small crabs; A penguin cannot fly, but it swims \
    very well; On land, it walks upright; Penguins stand close together to keep warm
elephant; elephants; calf; in Africa and Asia; grass, leaves, fruit and bark; The elephant is the largest animal on \
    land; It drinks and grasps things with its trunk; Elephants remember places for many years
lion; lions; cub; on the plains of Africa; zebras and other animals; The male lion has a mane; Lions live in families, \
    which are called prides; They sleep for most of the day
giraffe; giraffes; calf; on the plains of Africa; the leaves of tall trees; The giraffe is the tallest of all animals; \
    Its tongue is long and dark; It sleeps only for a short time each night
camel; camels; calf; in dry lands; grass, thorns and dates; A camel keeps fat in its hump; It can live without water \
    for many days; Its broad feet do not sink into the sand
tortoise; tortoises; hatchling; in warm countries; leaves, grass and flowers; A tortoise carries its shell all its \
    life; It can become more than a hundred years old; In danger, it pulls in its head and legs
salmon; salmon; fry; in the sea and in rivers; small fish and insects; A salmon is born in a river and grows up in the \
    sea; Later it swims back to the place where it was born; It can leap up waterfalls
butterfly; butterflies; caterpillar; in meadows and gardens; nectar; A butterfly begins its life as a caterpillar; Its \
    wings are covered with tiny scales; It tastes with its feet
crow; crows; chick; in towns and fields; seeds, insects and scraps; Crows are among the cleverest birds; They can use \
    sticks as tools; They remember the faces of people
robin; robins; chick; in gardens and woods; insects, worms and berries; The robin has a red breast; It sings even in \
    winter; It is small, but it defends its garden bravely
mouse; mice; pup; in fields, barns and houses; seeds and grain; A mouse can pass through a very small hole; It has \
    many enemies, and so it has many children; Mice are most active at night
rabbit; rabbits; kitten; in burrows under meadows; grass and herbs; A rabbit has long ears, which turn towards every \
    sound; It warns the others by beating the ground with its feet; Its teeth never stop growing
""",
)

# capital; what lies there; continent; language
COUNTRIES = table(
    "capital lies part speak",
    """
France; Paris; on the river Seine; Europe; French
Germany; Berlin; on the river Spree; Europe; German
Spain; Madrid; in the middle of the country; Europe; Spanish
Italy; Rome; on the river Tiber; Europe; Italian
Portugal; Lisbon; near the mouth of the river Tagus; Europe; Portuguese
England; London; on the river Thames; Europe; English
Ireland; Dublin; on the east coast of the island; Europe; English and Irish
Austria; Vienna; on the river Danube; Europe; German
Hungary; Budapest; on both banks of the Danube; Europe; Hungarian
Poland; Warsaw; on the river Vistula; Europe; Polish
Sweden; Stockholm; on many islands; Europe; Swedish
Norway; Oslo; at the end of a long fjord; Europe; Norwegian
Denmark; Copenhagen; on the sea; Europe; Danish
Finland; Helsinki; on the Baltic Sea; Europe; Finnish and Swedish
Greece; Athens; not far from the sea; Europe; Greek
Russia; Moscow; on the river Moskva; Europe and Asia; Russian
Turkey; Ankara; on a high plain; Asia and Europe; Turkish
Egypt; Cairo; on the river Nile; Africa; Arabic
Kenya; Nairobi; in the highlands; Africa; Swahili and English
Japan; Tokyo; on a wide bay; Asia; Japanese
China; Beijing; in the north of the country; Asia; Chinese
India; New Delhi; in the north of the country; Asia; Hindi, English and many other languages
Canada; Ottawa; on the river of the same name; North America; English and French
Mexico; Mexico City; high up between mountains; North America; Spanish
Brazil; Brasilia; in the middle of the country; South America; Portuguese
Argentina; Buenos Aires; on a river as wide as a sea; South America; Spanish
Peru; Lima; near the Pacific Ocean; South America; Spanish
Chile; Santiago; at the foot of the Andes; South America; Spanish
Iceland; Reykjavik; on a bay in the south-west; Europe; Icelandic
Scotland; Edinburgh; on seven hills, as people say; Europe; English
""",
)

# the tool; for; how; care
TOOLS = table(
    "job how parts",
    """
hammer; drive nails into wood; hold it near the end of the handle and let the weight do the work; a head of steel and \
    a handle of wood
saw; cut wood; draw it slowly at first, and do not press too hard; a thin blade with many teeth
needle; sew cloth; put the thread through the eye and tie a knot at the end; a point at one end and an eye at the other
spade; dig the ground; set your foot on the edge and push it straight down; a flat blade and a long handle
broom; sweep the floor; sweep from the walls to the middle; a bundle of twigs or bristles on a stick
knife; cut bread and vegetables; keep it sharp, and cut away from your hand; a blade and a handle
ladder; reach high places; set it on firm ground and ask someone to hold it; two long poles and many rungs
rake; gather leaves; pull it towards you in short strokes; a row of teeth on a long handle
bucket; carry water; fill it only so far that it does not spill; a round wall, a floor and a handle
compass; find the way; hold it flat and wait until the needle is at rest; a needle that points to the north
kettle; boil water; fill it, set it on the stove and wait until it sings; a belly, a lid and a spout
lamp; light a room; set it where it shines over your shoulder when you read; a foot, a light and a shade
wheelbarrow; move heavy things; lift the handles and push it in front of you; one wheel, a tray and two handles
watering can; water plants; pour slowly, in the morning or in the evening; a belly, a spout and a rose with small holes
brush; paint walls; dip only the tip into the paint; bristles and a handle
""",
)

# who: a sentence about the work
WORKERS = table(
    "does early needs",
    """
baker; bakes bread, rolls and cakes; gets up long before the sun; flour, water, salt and yeast
farmer; grows food and looks after animals; works longest in summer, at harvest time; good soil, rain and sun
teacher; helps children to read, to write and to think; prepares the lessons in the evening; patience and a piece of \
    chalk
doctor; helps people who are ill; is often called at night; a good ear and calm hands
carpenter; makes tables, doors and roofs; smells of fresh wood; a saw, a plane and a hammer
gardener; plants flowers, trees and vegetables; is busiest in spring; a spade, a rake and a watering can
fisherman; catches fish in the sea; rows out before dawn; a boat, a net and good weather
postwoman; brings letters and parcels; knows every door in the village; a bag and strong legs
librarian; lends books and knows where each of them stands; speaks softly; a good memory
mason; builds walls and houses; cannot work when it freezes; stones, mortar and a level
tailor; sews coats, shirts and dresses; measures twice and cuts once; cloth, thread and a needle
nurse; cares for sick people by day and by night; knows many small ways to comfort; kindness and clean hands
sailor; works on a ship; is away from home for months; a warm jacket and strong arms
musician; plays an instrument; practises every day; a good ear
shepherd; looks after sheep; is out in every weather; a dog, a stick and a thick coat
""",
)

MONTHS = table(
    "next season mark",
    """
January; February; winter; is the first month of the year, and often the coldest
February; March; winter; is the shortest month, with twenty-eight days, and in some years twenty-nine
March; April; spring; brings the first warm days and the first flowers
April; May; spring; is known for its weather, which changes from hour to hour
May; June; spring; is the month in which everything is green and in bloom
June; July; summer; has the longest days of the year
July; August; summer; is often the hottest month
August; September; summer; is the month of ripe corn and falling stars
September; October; autumn; is the month of apples and pears
October; November; autumn; paints the leaves red and yellow
November; December; autumn; is often grey, with fog and rain
December; January; winter; is the last month of the year, and its nights are the longest
""",
)


def question(text: str, short: str, more: str, end: str) -> Entity:
    """A question with its answer in three parts."""
    return Entity({"": text, "short": short, "more": more, "end": end})


QUESTIONS = tuple(
    question(*(" ".join(cell.split()) for cell in line.split(";")))
    for line in """
Why is the sky blue?; The light of the sun holds all colours, and the air scatters the blue light most; So blue light \
    comes to our eyes from every side; In the evening, when the light must travel farther, the sky turns red
Why does it rain?; The sun warms the sea, and water rises into the air as vapour; High up, where it is cold, the \
    vapour becomes tiny drops, and these are the clouds; When the drops grow too heavy, they fall as rain
Why do leaves fall in autumn?; In winter, a tree could not get enough water from the frozen ground to feed its leaves; \
    So it takes back what is useful in them and lets them go; In spring, it grows new ones
Why is the sea salty?; Rivers wash salt out of the stones and carry it to the sea; The water rises from the sea as \
    vapour, but the salt stays; So, over a very long time, the sea has become salty
Why does ice float?; When water freezes, it takes up more room; So ice is lighter than the water around it; That is \
    good for the fish, because a lake freezes from the top
Why do we sleep?; Sleep gives the body time to rest and to mend itself; While we sleep, the brain puts the day in \
    order; Those who sleep well can learn and remember better
Why is the moon sometimes round and sometimes thin?; The moon has no light of its own, and the sun shines on one half \
    of it; As the moon travels around the earth, we see more or less of its bright half; After about four weeks, it \
    looks the same again
Why do birds fly south?; In winter, there are few insects and seeds in the north; In the south it is warm, and there \
    is plenty to eat; In spring, the birds come back to build their nests
Why do cats purr?; Most cats purr when they are content; Some purr, too, when they are ill or afraid, as if to calm \
    themselves; A mother cat purrs to her kittens
Why does bread rise?; There is yeast in the dough; The yeast eats sugar and makes tiny bubbles of gas; The bubbles \
    lift the dough and make the bread soft
Why is snow white?; Snow is made of many small crystals of ice; Each of them throws back light of every colour; All \
    colours together look white to our eyes
Why does thunder come after lightning?; Light is much faster than sound; So we see the flash at once and hear the \
    noise later; The longer the pause, the farther away the storm is
Why do we yawn?; Nobody knows it quite exactly; We yawn when we are tired or bored, and often when we see someone else \
    yawn; Perhaps it helps us to stay awake a little longer
Why is it warmer in summer than in winter?; The earth is tilted as it travels around the sun; In summer, our half \
    leans towards the sun, which then stands high in the sky; In winter, the sun stands low, and the days are short
Why do bees make honey?; Honey is their food for the winter; In the cold months there are no flowers; The bees sit \
    close together in the hive and live on what they have stored
Why do onions make us cry?; When an onion is cut, it sets free a gas; The gas stings the eyes; The eyes make tears to \
    wash it away
Why does a ship float?; A ship pushes water aside, and the water pushes back; As long as the ship weighs less than the \
    water it can push aside, it floats; That is why even a ship of iron does not sink
Why do stars twinkle?; The light of a star passes through moving air before it comes to us; The air bends the light a \
    little, now this way and now that way; Seen from space, stars do not twinkle
Why do trees have bark?; Bark is the skin of a tree; It protects the wood from cold, heat and beetles; Under the bark, \
    water and sugar travel up and down
Why do we need friends?; A friend listens when we are sad and laughs with us when we are glad; With a friend, a heavy \
    bag is only half as heavy; And a friend tells us the truth, even when it is not pleasant
Why is grass green?; There is a green substance in the leaves; With its help, the plant makes sugar from light, air \
    and water; It uses the red and blue light and throws back the green
Why do dogs wag their tails?; A dog speaks with its whole body; When it wags its tail loosely, it is mostly glad; A \
    stiff tail can mean that it is not sure of you
Why does the wind blow?; The sun warms some places more than others; Warm air rises, and cooler air flows in from the \
    side; This moving air is what we call wind
Why do we see a rainbow?; Sunlight enters the drops of rain and is bent inside them; Each colour is bent a little \
    differently, and so they are spread out side by side; To see it, one must have the sun behind one's back
How does a seed grow?; A seed sleeps until it has water and warmth; First it sends a root down, and then a shoot up to \
    the light; As soon as it has leaves, the plant can feed itself
How do fish breathe?; Fish breathe with gills; Water flows in through the mouth and out past the gills; There, the \
    blood takes what it needs from the water
How is paper made?; Paper is made of wood; The wood is cut small and cooked until it is a soft mash; The mash is \
    spread out thin, pressed and dried
How does a mill work?; Water or wind turns a great wheel; The wheel turns a heavy stone, and the stone grinds the \
    corn; At the end, white flour falls into the sack
How do you make a friend?; Say good morning, and ask a question; Listen to the answer; The rest takes a little time
How far away is the moon?; The moon is nearly four hundred thousand kilometres away; A train would need several months \
    for such a journey; Light needs little more than a second
What is a shadow?; Light travels in straight lines; Where something stands in its way, it is dark behind it; That dark \
    place is the shadow
What is an island?; An island is a piece of land with water on every side; Some islands are so small that only birds \
    live on them; Others are so large that one needs days to cross them
What is a river?; A river is water on its way to the sea; It begins as a small spring in the hills; On its way, many \
    streams join it
What is fog?; Fog is a cloud that lies on the ground; It is made of tiny drops of water; When the sun is warm enough, \
    the fog goes away
What is a promise?; A promise is a word about the future; Whoever gives it must keep it, even when it is hard; That is \
    why one should not promise too much
What is a map?; A map is a picture of the land as a bird would see it; Blue lines are rivers, and thin lines are \
    roads; In most maps, north is at the top
What is courage?; Courage does not mean that one is never afraid; It means to do what is right although one is afraid; \
    Sometimes courage is very quiet
What is an echo?; An echo is sound that comes back; When you call towards a wall of rock, the rock throws your voice \
    back to you; The farther away the wall is, the later the answer comes
What do plants need?; Plants need light, water, air and some food from the ground; If one of these is missing, they \
    become pale and weak; Most plants also need time and peace
Who was the first to wake up?; It was the blackbird; Long before the sun rose, it sat on the roof and sang; Then the \
    baker lit his oven, and after that the whole street woke up
When do the stars come out?; The stars are always there, but by day the sun is too bright; When the sun has gone down, \
    we begin to see them; The brightest ones come first
""".strip().splitlines()
)

PLOTS = (
    Plot(
        "animal",
        bind={"N": "animal"},
        weight=3,
        beats=[
            (
                "The {N} lives {N.where}.",
                "A {N} lives {N.where}.",
                "The {N} is an animal that lives {N.where}.",
                "Have you ever seen a {N}? It lives {N.where}.",
            ),
            ("The {N} feeds on {N.food}.", "It eats {N.food}.", "Its food is {N.food}."),
            "{N.first}.",
            "{N.second}.",
            "{N.third}.",
            ("A young {N} is called a {N.young}.", "The young of the {N} is called a {N.young}.", ""),
            (
                "",
                "If you are quiet and wait, you may see one.",
                "Many stories tell of the {N}.",
                "Children like to watch {N.plural}.",
            ),
        ],
    ),
    Plot(
        "two animals",
        bind={"N": "animal", "M": "animal"},
        beats=[
            (
                "What is the difference between a {N} and a {M}?",
                "A {N} and a {M} are not alike.",
                "One could ask whether a {N} and a {M} could be friends.",
            ),
            (
                "The {N} lives {N.where}, while the {M} lives {M.where}.",
                "You find {N.plural} {N.where}, and {M.plural} {M.where}.",
            ),
            (
                "The {N} feeds on {N.food}. The {M}, on the other hand, eats {M.food}.",
                "The one eats {N.food}, and the other eats {M.food}.",
            ),
            "{N.first}.",
            "{M.first}.",
            (
                "Each of them is good at something.",
                "Both of them are worth watching.",
                "And each of them is just right for the place where it lives.",
            ),
        ],
    ),
    Plot(
        "capital",
        bind={"L": "country"},
        weight=3,
        beats=[
            (
                [
                    "The capital of {L} is {L.capital}.",
                    (
                        "{L.capital} lies {L.lies}.",
                        "The city lies {L.lies}.",
                        "It lies {L.lies}, and it is [an old|a busy|a beautiful] city.",
                    ),
                ],
                "The capital of {L} is {L.capital}, a [large|famous|lively] city {L.lies}.",
                "The capital of {L}, a country in {L.part}, is {L.capital}. It lies {L.lies}.",
                "{L} is a country in {L.part}. Its capital is {L.capital}, which lies {L.lies}.",
            ),
            ("The people there speak {L.speak}.", "In {L}, people speak {L.speak}."),
            (
                "Many people visit the city [every year|in summer|to see its old streets].",
                (
                    "In the morning, the streets fill with [people|bicycles|buses], and the cafes put their chairs "
                    "outside."
                ),
                "There are museums, markets, wide streets and quiet corners.",
                "At night, the lights of the city can be seen from far away.",
                "Those who live there say that one must see it in [spring|autumn], when the light is soft.",
            ),
            (
                "",
                "A capital is the city from which a country is governed.",
                "It is not the only city worth seeing, but it is the best known.",
            ),
        ],
    ),
    Plot(
        "two capitals",
        bind={"L": "country", "M": "country"},
        beats=[
            ('"What is the capital of {L}?" asked the teacher.', '"Who knows the capital of {L}?" asked the teacher.'),
            ('"{L.capital}," said [a girl in the first row|a boy by the window]. "It lies {L.lies}."',),
            ('"Very good. And what is the capital of {M}?"', '"That is right. And {M}?"'),
            (
                'Nobody answered. Then a quiet voice from the last row said, "The capital of {M} is {M.capital}."',
                '"{M.capital}!" cried the whole class at once.',
            ),
            (
                '"And what do people speak there?" asked the teacher. "They speak {M.speak}," said the children.',
                '"My uncle lives there," said one of the children. "He says that it lies {M.lies}."',
            ),
            ("Then the bell rang, and the lesson was over.", "The teacher smiled and rolled up the map."),
        ],
    ),
    Plot(
        "tool",
        bind={"N": "tool"},
        weight=2,
        beats=[
            (
                "One uses a {N} to {N.job}.",
                "To {N.job}, one needs a {N}.",
                "What is a {N} good for? It helps us to {N.job}.",
            ),
            ("It has {N.parts}.", "It is made of {N.parts}."),
            ("To use it well, {N.how}.", "When you use it, {N.how}."),
            (
                "After work, it should be cleaned and hung in its place.",
                "A good one lasts for many years if it is kept clean and dry.",
                "The best one is the one that fits your hand.",
                "In many houses, the same one has been used for three generations.",
            ),
            (
                "",
                "Those who borrow one should bring it back.",
                "It is a simple thing, but it is hard to imagine a house without it.",
            ),
        ],
    ),
    Plot(
        "worker",
        bind={"N": "worker"},
        weight=2,
        beats=[
            ("A {N} {N.does}.", "The {N} {N.does}.", "What does a {N} do? A {N} {N.does}."),
            ("A {N} {N.early}.", "Often, a {N} {N.early}."),
            ("For this work, one needs {N.needs}.", "What is needed most is {N.needs}."),
            (
                "It is hard work, but it is never dull.",
                "In the evening, the {N} is tired but content.",
                "Many children want to become a {N} one day.",
                "It takes years to learn it well.",
                "Without people like that, the village would be a sad place.",
            ),
        ],
    ),
    Plot(
        "month",
        bind={"N": "month"},
        weight=2,
        beats=[
            ("{N} is a month of {N.season}. It {N.mark}.", "{N} {N.mark}. It belongs to {N.season}."),
            ("After {N} comes {N.next}.", ""),
            (
                "There are twelve months in a year, and {N} is one of them.",
                "A year has four seasons: spring, summer, autumn and winter.",
            ),
            (
                "In the [garden|fields], there is always something to do.",
                "[Farmers|Gardeners] look at the sky every morning.",
                "In the evening, people sit together and talk about the weather.",
            ),
            ("", "Some people like it best of all.", "When it is over, many are glad, and some are sorry."),
        ],
    ),
    Plot(
        "question",
        bind={"N": "question"},
        weight=6,
        beats=[
            "{N}",
            "{N.short}.",
            "{N.more}.",
            "{N.end}.",
            (
                "",
                "",
                "It is a good question, and it took people a long time to find the answer.",
                "Now you know.",
                "Next time, you can explain it to someone else.",
            ),
        ],
    ),
    Plot(
        "question of a child",
        cast="child",
        bind={"N": "question"},
        weight=5,
        beats=[
            (
                '"{N}" {asked} {A}.',
                '{S.day}, {A} {asked}, "{N}"',
                '"{N}" {A} {asked} {C}.',
                '{A} was full of questions. "{N}" {A.he} {asked} {S.day_low}.',
            ),
            (
                "^{C} thought about it {moment}.",
                "^{C} put down the [newspaper|spoon|book].",
                '"That is a good question," {said} {C}.',
                "",
            ),
            '"{N.short}," {said} {C}.',
            ('"{N.more}," {C.he} went on.', '"And what else?" {asked} {A}. "{N.more}."'),
            (
                '"Not everyone knows that, {A}," {C.he} added with a smile.',
                '"I see," {said} {A}. "{N.end}," {said} {C}.',
                '{A} nodded. "{N.end}," {said} {C}.',
            ),
            (
                "",
                '"How do you know that?" {asked} {A}. "I asked, too, when I was small," {said} {C}.',
                "Then {A} ran off to tell {B}.",
                "{A} already had the next question.",
            ),
        ],
    ),
)

TABLES = {
    "animal": ANIMALS,
    "country": COUNTRIES,
    "tool": TOOLS,
    "worker": WORKERS,
    "month": MONTHS,
    "question": QUESTIONS,
}

"""Tables of the world: seasons, places, homes, things, skills, gifts. Each cell is a template, the first the name."""

from .template import Entity, table, words

# day: opens a sentence about an action; sky: a sentence; plant: something to see
SEASONS = table(
    "day day_low sky plant night",
    """
spring; [One|On a] [mild|bright|fresh|windy] spring [morning|day|afternoon]; [one|on a] [mild|bright|fresh|windy] \
    spring [morning|day|afternoon]; [The snow had melted and the first [flowers|crocuses|violets] were out|The air was \
    mild and smelled of wet earth|A soft wind blew and small clouds sailed over the sky|It had rained in the night, \
    and every leaf was shining|The birds were singing as if they had waited all winter for it]; [tulips|primroses|the \
    first green leaves|apple blossom]; [The night was mild, and frogs sang in the pond|A soft rain fell in the night]
summer; [One|On a] [warm|hot|sunny|clear] summer [morning|day|afternoon|evening]; [one|on a] [warm|hot|sunny|clear] \
    summer [morning|day|afternoon|evening]; [The sun was high and the grass was full of crickets|It was so warm that \
    even the bees were slow|Not a cloud was in the sky|The air smelled of hay|A light wind moved the tall grass]; \
    [poppies|ripe cherries|tall grass|wild roses]; [The night was warm, and the crickets sang|A thunderstorm rumbled \
    behind the hills, but it did not come near]
autumn; [One|On a] [cool|grey|golden|windy|misty] autumn [morning|day|afternoon|evening]; [one|on a] \
    [cool|grey|golden|windy|misty] autumn [morning|day|afternoon|evening]; [The leaves were turning red and yellow|The \
    wind shook the trees, and leaves danced in the air|A thin mist lay over the fields|It smelled of smoke and ripe \
    apples|Geese flew south over the roofs]; [red leaves|ripe pears|mushrooms|heaps of yellow leaves]; [The night was \
    windy, and the shutters rattled|The fog came up from the river in the night]
winter; [One|On a] [cold|frosty|clear|snowy|quiet] winter [morning|day|afternoon|evening]; [one|on a] \
    [cold|frosty|clear|snowy|quiet] winter [morning|day|afternoon|evening]; [Snow lay on the roofs and on every \
    branch|It was so cold that the [pond|stream] had frozen|Thick flakes fell without a sound|The sky was pale and the \
    air was sharp|Ice flowers covered the windows]; [icicles|bare branches|fir trees under the snow|red berries in the \
    snow]; [The night was clear and very cold|It snowed all night]
""",
)

# in, to: phrases; sight: a sentence about it; spot: a place in it where something may lie; noun: without the article
PLACES = table(
    "in to sight spot",
    """
the forest; in the forest; into the forest; [Sunlight fell between the trees in long stripes|A woodpecker was knocking \
    somewhere|The moss was soft under {A.his} feet|It smelled of pine and mushrooms]; under a [fern|fallen tree|root]
the meadow; in the meadow; to the meadow; [Butterflies flew from flower to flower|The grass came up to {A.his} \
    knees|Bees were humming in the clover|A lark sang high above]; between the [daisies|tall grasses|poppies]
the river; by the river; down to the river; [The water ran fast over the stones|A heron stood in the shallow water|The \
    river glittered in the sun|Small fish darted through the water]; between two [stones|roots|reeds]
the lake; by the lake; down to the lake; [The water was as smooth as a mirror|Two swans swam slowly past|Reeds \
    whispered along the shore|Little waves lapped at the sand]; near the [old boat|jetty|reeds]
the beach; on the beach; down to the beach; [Waves rolled in, one after another|Gulls cried above the water|The sand \
    was warm and full of shells|It smelled of salt and seaweed]; behind a [rock|heap of seaweed|dune]
the hill; on the hill; up the hill; [From the top one could see the whole valley|Sheep were grazing on the slope|The \
    path was steep and stony|The wind was stronger up there]; beside a [flat stone|thorn bush|hollow]
the garden; in the garden; into the garden; [Beans climbed up their poles|A snail crept along the wall|The roses \
    smelled sweet|A blackbird pulled at a worm]; under the [currant bush|bench|rose bush]
the orchard; in the orchard; to the orchard; [The branches were heavy with fruit|Wasps buzzed around the fallen \
    apples|The old trees stood in long rows|A ladder leaned against a tree]; below the [oldest|largest|last] tree
the market; at the market; to the market; [The stalls were full of fruit and cheese|People were talking and laughing \
    everywhere|A man was selling paper birds|The smell of fresh bread filled the air]; under a [stall|cart|table]
the old mill; at the old mill; to the old mill; [The great wheel turned slowly|White dust lay on every beam|The water \
    splashed from the wheel|Sparrows were nesting under the roof]; behind the [sacks|wheel|door]
the harbour; at the harbour; down to the harbour; [Fishing boats rocked on the water|Nets were hung up to dry|Sailors \
    were carrying boxes|The ropes creaked in the wind]; between the [nets|barrels|ropes]
the valley; in the valley; down into the valley; [A narrow stream ran through the grass|Cow bells rang softly|Small \
    farms lay along the road|The shadows of the clouds moved over the fields]; beside a [fence|haystack|stream]
the park; in the park; to the park; [Ducks swam in the pond|Children were playing around the fountain|Old men sat on \
    the benches and played chess|The paths were swept clean]; under a [bench|bush|chestnut tree]
the village square; on the village square; to the village square; [The fountain splashed in the middle|Two women were \
    talking beside the well|Pigeons walked over the stones|The clock struck the hour]; beside the [well|fountain|steps]
the field; in the field; out to the field; [The corn stood high and yellow|Crows were hopping along the furrows|A \
    scarecrow waved its empty sleeves|A cart rolled by in the distance]; at the edge of the [ditch|path|corn]
the barn; in the barn; into the barn; [It smelled of hay and leather|Dust danced in a beam of light|A swallow flew in \
    and out|The straw rustled under {A.his} feet]; in the [straw|hay|old wagon]
""",
)

WILD = words("the forest, the meadow, the river, the lake, the hill, the valley, the beach, the field")
WILD_PLACES = tuple(place for place in PLACES if place.name in WILD)

# Where people live. in: phrase
HOMES = table(
    "in",
    """
a village by the sea; in a [small|quiet|windy] village by the sea
a farm; on a [small|lonely|pretty|busy] farm [at the edge of the forest|in the hills|near the river]
a town; in a [small|busy|pleasant|friendly] town [on a river|among the hills|with a tall clock tower]
a cottage; in a [small|low|white|crooked] cottage [at the edge of the forest|by the lake|under three old oaks]
a mountain village; in a village high up in the mountains
a house by the mill; in a narrow house beside the mill
a city; in a large city with [many bridges|wide streets|a hundred towers]
a fishing village; in a fishing village on a rocky coast
an island; on a small island [far from the mainland|with a white lighthouse|where the wind never slept]
a street; in a house at the end of a [long|quiet|narrow] street
a valley; in a green valley between two mountains
a house with a blue door; in a little house with a [blue|green|red] door
""",
)

# Homes of animals.
DENS = table(
    "in",
    """
a hollow oak; in a hollow oak
a burrow; in a [warm|dry|cosy] burrow under a hill
the reeds; among the reeds of a [quiet|small] lake
a hedge; under a thick hedge beside a [field|garden]
a forest; in a [deep|green|large] forest
an old barn; behind an old barn
a cave; in a dry little cave above the river
a meadow; at the edge of a wide meadow
roots; between the roots of an old [beech|pine|willow]
""",
)

# Small things one can lose, find, carry and give. use: what it is good for ("to ..."); from: its story
THINGS = table(
    "plain use shine",
    """
[red|blue|yellow] kite; kite; to fly it [in the wind|above the hill]; its tail [fluttered|danced] in the wind
wooden flute; flute; to play a [song|tune] on it; the wood was smooth and [dark|warm]
silver bell; bell; to hear its clear sound; it [shone|gleamed] like the moon
[silver|tin] whistle; whistle; to call the dog with it; it [shone|gleamed] in the sun
[green|blue|grey] scarf; scarf; to wear it in the cold; the wool was soft and thick
small brass key; key; to open the [old box|garden gate] with it; it was no longer than a finger
[blue|white|round] pebble; pebble; to hold it in the sun; it was smooth and cool
picture book; book; to read it by the window; there was a ship on its cover
pocket watch; watch; to know the time; it ticked very softly
leather ball; ball; to play with it [after lunch|on the grass]; it was round and brown
toy boat; boat; to let it sail; its sail was made of an old shirt
wicker basket; basket; to carry [apples|eggs|mushrooms] in it; it was woven of thin willow twigs
[red|blue] umbrella; umbrella; to stay dry in the rain; its handle was shaped like a [duck|swan]
tin lantern; lantern; to light the way at night; a small flame burned behind the glass
straw hat; hat; to keep off the sun; a [blue|red] ribbon went around it
[grey|blue|striped] blanket; blanket; to sleep under it; it smelled of lavender
silver spoon; spoon; to eat porridge with it; a tiny [rose|star] was cut into its handle
glass marble; marble; to look through it; there was a [blue|green] swirl inside
box of paints; paint box; to paint [a picture|the sky] with them; there were twelve colours in it
wool cap; cap; to wear it in the snow; it had a [red|white] tassel
little drum; drum; to beat it at the [festival|parade]; its skin was tight and clear
compass; compass; to find the way; its needle always swung to the north
notebook; notebook; to write down [ideas|stories|new words]; its pages were still white
""",
)

# Things that are made by hand as a gift. with: material; made: what the maker did
GIFTS = table(
    "with made",
    """
a wooden bird; a piece of lime wood; carved the wings first, and then the head
a warm scarf; a ball of soft wool; knitted row after row
a bird house; some old boards; sawed the boards and nailed them together
a necklace; a handful of shells; put the shells on a string, one by one
a painted cup; a white cup and some paint; painted a ring of blue flowers around it
a small book; paper and thread; wrote a story and drew a picture on each page
a honey cake; flour, butter and honey; stirred the dough and baked it until it was brown
a paper lantern; thin paper and four sticks; folded the paper and glued it to the sticks
a basket; long willow twigs; bent the twigs and wove them together
a quilt; scraps of old cloth; sewed the scraps together with tiny stitches
a kite; paper, string and two sticks; tied the sticks into a cross and stretched the paper over them
a pair of mittens; grey wool; knitted one mitten and then the other
a bunch of dried flowers; lavender and straw flowers; tied them with a ribbon
a whistle; a green willow twig; cut the bark and slid it loose
""",
)

# Skills one can learn. try: past tense; fail: a sentence; do: past tense, done well; need: what it takes
SKILLS = table(
    "ing attempt fail succeed place",
    """
ride a bicycle; riding a bicycle; climbed on the bicycle and pushed off; [the bicycle wobbled and fell over|{A.he} \
    rode straight into a hedge]; rode down the lane without falling; in the lane
play the flute; playing the flute; put the flute to {A.his} lips and blew; [only a squeak came out|it sounded like an \
    angry goose]; played a whole song without one wrong note; by the window
bake bread; baking bread; mixed flour, water and salt; [the bread was as hard as a stone|the bread was black outside \
    and wet inside]; took a round and golden loaf from the oven; in the kitchen
juggle; juggling; threw three apples into the air; [all three fell on the floor|one of them hit the cat's bowl]; kept \
    four apples in the air; in the yard
whistle; whistling; put two fingers between {A.his} lips; [nothing came out but air|there was only a hiss]; whistled \
    like a blackbird; in the garden
paint; painting; dipped the brush into the blue paint; [the sky ran down into the trees|the horse looked like a \
    table]; painted a picture that everyone admired; under the apple tree
knit; knitting; took two needles and a ball of wool; [the wool turned into one big knot|there were more holes than \
    stitches]; knitted a pair of socks that fitted well; on the bench
read; reading; opened the book and looked at the letters; [the letters seemed to hop about like fleas|{A.he} could not \
    tell one word from another]; read the first page aloud; at the kitchen table
dance; dancing; listened to the music and lifted one foot; [{A.he} stepped on every foot but {A.his} own|{A.he} turned \
    left when all the others turned right]; danced the whole evening without a mistake; in the barn
""",
)
SUMMER_SKILLS = table(
    "ing attempt fail succeed place",
    """
swim; swimming; jumped into the shallow water and kicked with {A.his} legs; [{A.he} swallowed water and \
    coughed|{A.his} feet sank to the sand again]; swam all the way to the little island; by the lake
row a boat; rowing; sat down in the boat and pulled at the oars; [the boat turned in circles|one oar slipped and \
    splashed {A.him} with water]; rowed straight across the bay; at the harbour
climb; climbing; took hold of the lowest branch; [{A.his} foot slipped and {A.he} slid down again|{A.he} did not dare \
    to go higher]; sat in the top of the tree and waved; behind the house
sail; sailing; pulled up the sail and held the rope; [the wind pushed the boat back to the shore|the sail flapped and \
    would not fill]; sailed around the bay and back; at the harbour
""",
)
WINTER_SKILLS = table(
    "ing attempt fail succeed place",
    """
skate; skating; stepped onto the ice in {A.his} new skates; [{A.his} legs slid apart and {A.he} sat down hard|{A.he} \
    fell before {A.he} had gone three steps]; glided over the ice in a wide circle; on the frozen pond
ski; skiing; stood on two long skis and pushed off; [{A.his} skis crossed and {A.he} fell into the snow|{A.he} slid \
    backwards into a fence]; flew down the hill and came to a stop in a cloud of snow; on the slope behind the house
build a house of snow; building a house of snow; cut blocks of snow and piled them up; [the wall leaned over and fell \
    down|the roof fell on {A.his} head]; put the last block in its place and crept inside; in the garden
""",
)

# Fears. thing: what is feared; reason: a sentence; fact: what it really was or why there was nothing to fear
FEARS = table(
    "reason calm act",
    """
the dark; at night every coat on the wall looked like a stranger; the dark is only the day with its eyes closed; \
    walked through the dark hall without a candle
thunder; the noise made the windows shake; thunder is only the sound that lightning makes, and sound can hurt nobody; \
    stood at the window and counted the seconds between the flash and the thunder
deep water; one could not see the bottom; water carries those who lie still; lay down on {A.his} back in the water and \
    floated
dogs; a big dog had once barked at {A.him}; a dog that wags its tail wants to be a friend; held out a hand and let the \
    old dog sniff it
high places; everything looked so small from above; one should look at the next step and not at the ground; climbed up \
    the tower, step by step
the cellar; it was cold there, and something rustled behind the barrels; a mouse is more afraid of people than people \
    of a mouse; went down with a lamp and fetched the apples
strangers; {A.he} never knew what to say to them; every friend was a stranger once; said good morning to the new \
    neighbour
speaking aloud; {A.his} cheeks turned red when others looked at {A.him}; a voice grows stronger each time it is used; \
    stood up before everyone and read {A.his} poem
the old bridge; its boards creaked at every step; the bridge had carried heavy carts for a hundred years; walked \
    across with {A.his} head held high
""",
)

# Small animals that need help. he: it is always "it"; hurt: past tense sentence part; food; home
PATIENTS = table(
    "hurt food home free",
    """
young swallow; had fallen out of its nest; flies; the nest under the roof; spread its wings and flew up to the others
hedgehog; was caught in a piece of netting; beetles and apple peel; the hedge; trotted away into the tall grass
small owl; had hurt its wing; bits of meat; the old tower; flew up without a sound
young hare; had lost its mother; clover; the field; leapt over a furrow and was gone
duckling; had a piece of string around its leg; soaked bread and grass; the pond; paddled off to its family
squirrel; had a thorn in its paw; nuts; the old pine; raced up the trunk and looked down once more
crow; had broken a wing; eggs and bread; the poplar trees; flew in a circle over the house and called three times
kitten; was wet and shivered with cold; warm milk; the basket by the stove; slept on {A.his} lap from then on
little lamb; was stuck in the mud; milk from a bottle; the flock; ran to its mother and bleated
fox cub; was limping on three legs; scraps of meat; its den in the wood; turned its head once and slipped into the \
    bushes
""",
)

# Dishes. what: the ingredient that is missing or special
DISHES = table(
    "missing where",
    """
apple cake; eggs; with the neighbour who kept hens
pancakes; milk; at the farm down the road
vegetable soup; an onion; in the garden of the old schoolteacher
a birthday cake; sugar; in the shop on the corner
fresh rolls; yeast; at the baker's
plum jam; cinnamon; in the spice shop at the market
a cherry pie; butter; at the dairy
porridge; honey; with the beekeeper on the hill
pumpkin soup; salt; with the fisherman's wife
""",
)

# Seeds. plant: what grows; fruit: what it brings; end: a sentence about sharing
SEEDS = table(
    "plant fruit",
    """
bean; bean plant; long green beans
sunflower seed; sunflower; a flower as large as a plate
pumpkin seed; pumpkin plant; a pumpkin that two people had to carry
apple pip; little apple tree; small sweet apples
acorn; little oak; new green leaves
pea; pea plant; pods full of sweet peas
strawberry plant; strawberry bed; the sweetest strawberries in the street
tulip bulb; tulip; a flower as red as fire
cherry stone; young cherry tree; dark sweet cherries
potato; row of potato plants; a whole basket of potatoes
""",
)

# Work for grown heroes. tool; work: past tense; makes: what customers get
TRADES = table(
    "tool work makes place",
    """
baker; rolling pin; kneaded dough and baked bread; loaves and rolls; the bakery
shoemaker; hammer; cut leather and stitched soles; shoes and boots; the workshop
carpenter; saw; sawed boards and planed them smooth; tables and chairs; the workshop
tailor; needle; measured cloth and sewed seams; coats and shirts; the shop
clockmaker; tiny screwdriver; cleaned wheels and wound up springs; clocks and watches; the shop
potter; wheel; shaped clay with wet hands; cups and bowls; the pottery
gardener; spade; dug the beds and watered the seedlings; flowers and vegetables; the garden
fisher; net; mended nets and rowed out before dawn; fresh fish; the hut by the water
blacksmith; hammer; heated iron and beat it into shape; nails and horseshoes; the forge
weaver; loom; sat at the loom and threw the shuttle; cloth and carpets; the weaving room
miller; great stone; ground wheat and rye; flour; the mill
beekeeper; smoker; looked after forty hives; honey and candles; the honey house
bookbinder; bone folder; folded paper and sewed the pages; books; the workshop
""",
)

# Trades of which the customers take something home that lasts.
CRAFTS = tuple(trade for trade in TRADES if trade.name in words(
    "shoemaker, carpenter, tailor, clockmaker, potter, blacksmith, weaver"
))

TABLES: dict[str, tuple[Entity, ...]] = {
    "season": SEASONS,
    "place": PLACES,
    "wild_place": WILD_PLACES,
    "home": HOMES,
    "den": DENS,
    "thing": THINGS,
    "gift": GIFTS,
    "skill": SKILLS,
    "summer_skill": SUMMER_SKILLS,
    "winter_skill": WINTER_SKILLS,
    "fear": FEARS,
    "patient": PATIENTS,
    "dish": DISHES,
    "seed": SEEDS,
    "trade": TRADES,
    "craft": CRAFTS,
}

"""Texts that are no stories: letters, recipes, conversations, days, places, advice."""

from .story import Plot
from .template import table

RECIPES = table(
    "needs first then last serve",
    """
pancakes; two eggs, a cup of flour, a cup of milk and a little salt; Beat the eggs and stir in the flour and the milk \
    until the batter is smooth; Heat some butter in a pan and pour in a spoonful of batter; When the edge is brown, \
    turn the pancake over; with honey or jam
vegetable soup; carrots, potatoes, an onion, a leek and a litre of water; Wash the vegetables and cut them into small \
    pieces; Fry the onion in a little oil, add the rest and pour in the water; Let the soup simmer for half an hour; \
    with fresh bread
apple cake; four apples, three eggs, a cup of sugar, a cup of flour and some butter; Peel the apples and cut them into \
    thin slices; Stir the eggs with the sugar until they are light, and add the flour; Lay the apples on the dough and \
    bake the cake for forty minutes; warm, with a spoon of cream
bread; a pound of flour, a spoon of salt, some yeast and a cup of warm water; Mix everything in a bowl and knead the \
    dough until it is soft; Cover it with a cloth and let it rise for an hour; Bake it in a hot oven until it sounds \
    hollow when you knock on it; with butter and salt
baked potatoes; six large potatoes, some oil, salt and rosemary; Wash the potatoes well and cut them in half; Rub them \
    with oil and sprinkle them with salt; Bake them until the skin is crisp; with cottage cheese
tomato salad; five ripe tomatoes, an onion, oil, vinegar and salt; Cut the tomatoes into slices and the onion into \
    thin rings; Stir the oil with the vinegar and the salt; Pour it over the tomatoes and let them stand for a while; \
    with white bread
porridge; a cup of oats, two cups of milk and a pinch of salt; Bring the milk to the boil; Stir in the oats and the \
    salt, and turn down the heat; Stir until the porridge is thick; with berries or honey
scrambled eggs; four eggs, a spoon of butter and a little salt; Break the eggs into a bowl and stir them with a fork; \
    Melt the butter in a pan over a low fire and pour in the eggs; Push them slowly from the edge to the middle; at \
    once, on toast
plum jam; two pounds of plums and one pound of sugar; Wash the plums, cut them in half and take out the stones; Cook \
    them with the sugar, and stir often; When a drop stays firm on a cold plate, the jam is done; on fresh rolls
lemonade; three lemons, four spoons of sugar and a jug of cold water; Cut the lemons in half and press out the juice; \
    Stir in the sugar until it has gone; Pour in the water and add a leaf of mint; very cold
mushroom omelette; three eggs, a handful of mushrooms, butter and parsley; Clean the mushrooms with a brush and slice \
    them; Fry them in butter until they are brown, and pour the beaten eggs over them; Fold the omelette in half when \
    it is nearly firm; with a green salad
rice pudding; a cup of rice, a litre of milk, sugar and a stick of cinnamon; Put the rice, the milk and the cinnamon \
    into a pot; Cook it over a very low fire and stir it again and again; Sweeten it at the end; warm or cold, with \
    cherries
""",
)

WARES = table(
    "price many",
    """
a loaf of bread; two coins; Is it fresh?
a pound of apples; three coins; Are they sweet?
a dozen eggs; four coins; Are they from today?
a piece of cheese; five coins; Is it a mild one?
a bunch of flowers; one coin; Will they last?
a jar of honey; six coins; Is it from here?
a pair of gloves; seven coins; Are they warm?
a ball of string; one coin; Is it strong?
a bag of flour; three coins; Is it good for cakes?
a fish; four coins; Was it caught this morning?
""",
)

ADVICE = table(
    "first second third why",
    """
sleep well; Go to bed at the same time each day; Open the window for a while before you lie down; Put away what shines \
    and rings; The night is long enough for everything that you have to dream
learn something by heart; Read it aloud, slowly; Close the book and say what you remember; Wait a day and do it again; \
    What one has said three times on three days, one seldom forgets
write a letter; Begin with a greeting; Tell one thing that you have seen and one that you have thought; Ask a question \
    at the end; A question is the best reason for an answer
keep plants alive; Give them light, but not too much of it; Water them when the ground feels dry; Speak to them, if \
    you like; More plants have died of too much water than of too little
light a fire in the stove; Lay paper at the bottom and thin sticks on top of it; Open the flap and light the paper; \
    Add a log when the sticks burn well; A fire needs air as much as it needs wood
cross a street; Stop at the edge; Look to the left, to the right and to the left again; Walk straight over, and do not \
    run; Those who hurry see only half
pack a bag; Put the heavy things at the bottom; Roll up your shirts; Leave a little room for what you will find; One \
    always needs less than one thinks
tell a story; Think of someone who wants something; Put something in the way; Let it end a little differently than \
    everyone expects; People listen as long as they want to know what happens next
make peace after a quarrel; Wait until you are calm; Say what you are sorry for; Ask how you can make it good; Nobody \
    has ever lost anything by the words I am sorry
paint a fence; Brush off the dust and the old paint; Stir the paint well; Paint from the top to the bottom, and always \
    along the wood; The second coat takes half the time of the first
find your way in a strange town; Remember a tower or a hill; Look back from time to time, for the way back looks \
    different; Ask someone with a dog; People with dogs know every street
catch a cold less often; Wash your hands before you eat; Wear a cap in winter; Go outside every day; Fresh air is good \
    for almost everything
""",
)

LANDSCAPES = table(
    "begin middle people close",
    """
the harbour; Before sunrise, the harbour is quiet, and only the ropes creak; Then the first boats come in, with gulls \
    behind them; The men throw the ropes over the posts, and the women carry the baskets to the market; At noon, there \
    is nothing left but a few scales that glitter on the stones
the village; The village lies in a bend of the river; In its middle stand a church, a well and an inn with a golden \
    star; Everyone knows everyone else, and the dogs know them all; At ten in the evening, the last lamp goes out
the forest; The forest begins behind the last house; First there are birches, then beeches, and at last dark fir \
    trees; Only the woodcutter and the children know the narrow paths; Those who stand still can hear it breathe
the market; On Saturdays there is a market on the square; The farmers put up their stalls while it is still dark; One \
    can buy cheese, flowers, live hens and second-hand boots; By two o'clock it is all over, and the sparrows take \
    what is left
the school; The school has two rooms and a bell; In the one room sit the little ones, and in the other the big ones; \
    When it snows, nobody looks at the blackboard; In the holidays, the swallows have it to themselves
the lake; In the morning, the lake is as smooth as glass; Later the wind comes and draws dark lines on it; In summer \
    people swim, and in winter they skate; At night, the moon lies in the middle of it
the mountain; The mountain can be seen from every window; Its top is white, even in July; In the old days people \
    believed that a giant slept inside; When clouds hang on it in the morning, it will rain by evening
the station; There are two trains a day, one in each direction; The station master has a red cap and a canary; Some \
    people come only to watch the others leave; When the last train has gone, he waters the flowers
the garden; Behind the house there is a garden with high walls; Roses, beans and strawberries grow side by side; An \
    old man works in it every day, and he is never in a hurry; In September, it smells of apples up to the street
the city; In the city, it is never quite dark and never quite still; Trams ring, bicycles glide past, and someone \
    always plays the piano; A million people live there, and most of them are looking for their keys; But early on \
    Sunday, one can hear a blackbird in the main street
the island; The island is so small that one can walk around it in an hour; There are eleven houses, one shop and two \
    hundred sheep; On Wednesdays, the boat brings letters and oranges; In a storm, the boat stays away, and people \
    tell each other old letters
the kitchen; The kitchen is the warmest room in the house; A kettle is always on the stove, and a cat is always under \
    it; Here they cook, quarrel, do their homework and make peace; When guests come, they are shown the parlour, but \
    in the end, all of them sit in the kitchen
""",
)

TABLES = {"recipe": RECIPES, "ware": WARES, "advice": ADVICE, "landscape": LANDSCAPES}

PLOTS = (
    Plot(
        "letter",
        cast="child",
        bind={"X": "thing", "P": "place"},
        weight=3,
        beats=[
            ("Dear {B},", "Dear {B},"),
            "/",
            (
                "thank you for your letter, which came [yesterday|on Monday|this morning].",
                "how are you? I am well.",
                "I have not written for a long time, and I am sorry.",
                "you asked me how things are here, and so I will tell you.",
            ),
            (
                "We have had [rain|snow|sunshine] for {days}.",
                "It is {S} now, and one can see {S.plant} everywhere.",
                "The weather is [bad|cold|wet], but we are all well.",
            ),
            ("On Sunday, we went {P.to}.", "Last week, I was {P.in} with my [sister|brother|cousin]."),
            (
                "We ate {meal} and came home late.",
                "There we saw a {wild}, quite near.",
                "I fell into the water, but only up to my knees.",
            ),
            (
                "For my birthday I got a {X}. I like it very much.",
                "I have lost my {X} and found it again. I was {glad}.",
                "I am learning to [swim|play the flute|bake bread], and it is harder than I thought.",
            ),
            (
                "Our {farm_animal} has a young one now, and I may choose a name for it.",
                "[Grandmother|Grandfather] sends you greetings and says that you should eat more.",
                "The old {tree} in front of the house was struck by lightning, but it is still alive.",
            ),
            (
                "When will you come to visit us?",
                "Do you still have the little dog?",
                "What are you reading at the moment?",
                "Is it true that you are moving to the city?",
            ),
            (
                "Please write soon.",
                "I have to stop now, because supper is ready.",
                "I am sending you a [leaf|feather|drawing] with this letter.",
            ),
            "/",
            ("Your friend {A}.", "With many greetings, your {A}.", "Best wishes from {A}."),
        ],
    ),
    Plot(
        "recipe",
        bind={"R": "recipe"},
        weight=2,
        beats=[
            (
                "To make {R}, you need {R.needs}.",
                "For {R}, take {R.needs}.",
                "Here is a good way to make {R}. You need {R.needs}.",
            ),
            ("{R.first}.", "First, wash your hands. {R.first}."),
            "{R.then}.",
            "{R.last}.",
            ("It tastes best {R.serve}.", "Eat it {R.serve}."),
            (
                "It is easy, and even children can do it.",
                "It is enough for four people, or for two hungry ones.",
                "If it does not go well the first time, try again.",
                "My grandmother always made it on Sundays.",
                "",
            ),
        ],
    ),
    Plot(
        "cooking",
        cast="child",
        bind={"R": "recipe"},
        weight=1,
        beats=[
            ('"How do you make {R}?" {asked} {A}.', '"Today I will show you how to make {R}," {said} {C}.'),
            (
                '"First of all, we need {R.needs}," {said} {C}.',
                "They took {R.needs} from the cupboard.",
                '"We need {R.needs}," {said} {C}. "Is everything here?"',
            ),
            '"{R.first}," {said} {C}.',
            ("{A} did so, {slowly}.", "{A} nodded and set to work.", "It was not as easy as it looked."),
            '"And now? {R.then}."',
            ("{A} spilled a little, but {C} only laughed.", "It smelled good already.", ""),
            '"{R.last}," {said} {C}.',
            ("They ate it {R.serve}.", "When it was ready, {B} came in, as if by chance."),
            ("Nothing had ever tasted so good.", "@praise", "{A} wrote everything down in a small book."),
        ],
    ),
    Plot(
        "shop",
        bind={"W": "ware", "U": "ware"},
        weight=2,
        beats=[
            (
                '"{greet}," said the shopkeeper. "What can I do for you?"',
                '"{greet}," said the man behind the counter. "What would you like?"',
                "The bell above the door rang, and a woman came in.",
            ),
            (
                '"I would like {W}, please."',
                '"Do you have {W}?" asked the customer.',
                '"I need {W}," said the customer.',
            ),
            ('"Certainly. That is {W.price}."', '"Here you are," said the shopkeeper. "That makes {W.price}."'),
            '"{W.many}"',
            (
                '"The best in town," said the shopkeeper.',
                '"Of course," said the shopkeeper. "I sell only the best."',
                '"You can be sure of that."',
            ),
            (
                '"Then I will also take {U}."',
                '"And how much is {U}?" "That is {U.price}."',
                '"Is there anything else?" "Yes, {U}, please."',
            ),
            (
                '"It is {S} already," said the shopkeeper while wrapping it up. "How time flies!"',
                '"It looks like rain," said the shopkeeper.',
                '"How is your family?" "They are all well, thank you."',
            ),
            ('"Goodbye, and thank you."', '"Have a good day," said the shopkeeper.', '"Until next week, then."'),
        ],
    ),
    Plot(
        "asking the way",
        cast="adult",
        bind={"trade": "trade"},
        weight=2,
        beats=[
            ('"Excuse me," {said} {D}. "How do I get to the {goal}?"', '"Is this the way to the {goal}?" asked {D}.'),
            ('"It is not far," {said} {A}.', '{A} put down {A.his} bag. "Let me think," {A.he} {said}.'),
            (
                '"Go straight on until you see a {tree}, and then turn [left|right]."',
                '"Cross the bridge and take the second street on the [left|right]."',
                '"Follow this road past the [church|school|inn]."',
            ),
            (
                '"After that, go on until you can see the [tower|water|red roof]."',
                '"Then you will come to a place where three roads meet. Take the [middle|narrow|widest] one."',
            ),
            (
                (
                    '"And how long does it take?" "About [ten|twenty|thirty] minutes," {said} {A}, "or an hour, if '
                    'you stop to look."'
                ),
                '"Can I miss it?" "Hardly," {said} {A}. "You will hear it before you see it."',
            ),
            ('"{thanks}," {said} {D.the}.', "^{D.the} repeated it all and got it wrong, and so {A} repeated it, too."),
            (
                "{A} watched until {D.the} had turned the corner, in the right direction.",
                '"You know what?" {said} {A}. "I will come with you."',
                "^{D.the} waved and walked on.",
            ),
        ],
    ),
    Plot(
        "morning",
        cast="child",
        weight=3,
        beats=[
            (
                "In the morning, {A} was the first to wake up.",
                "In the morning, the sun shone through the window, and {A} opened {A.his} eyes.",
                "In the morning, the house was still quiet.",
                "Early in the morning, when the street was still empty, {A} got up.",
                "In the morning, it was raining, and {A} did not want to get up.",
            ),
            ("{S.sky}.", "Outside, a {bird} was singing.", "The floor was cold under {A.his} feet."),
            (
                "{A.he} washed {A.his} face, put on {A.his} clothes and combed {A.his} hair.",
                "{A.he} looked for {A.his} second sock and found it under the cat.",
                "{A.he} got dressed and went down to the kitchen.",
            ),
            (
                "^{C} was making tea.",
                "There was {snack} for breakfast, and {drink}.",
                "^{C} was already sitting at the table and reading the newspaper.",
            ),
            (
                '"Did you sleep well?" {asked} {C}. "I dreamed that I could fly," {said} {A}.',
                (
                    '"What day is it today?" {asked} {A}. '
                    '"[Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday]," {said} {C}.'
                ),
                '"Hurry up," {said} {C}, "or you will be late."',
            ),
            (
                "Then {A} fed the [hens|rabbits|cat] and watered the flowers.",
                "Then {A} packed {A.his} bag and tied {A.his} shoes.",
                "{A} drank {drink} and looked out of the window.",
            ),
            (
                "At half past seven, {B} called from the street.",
                "On the way to school, {A.he} met {B}.",
                "The clock struck eight.",
            ),
            (
                "And so the day began, like many others, and yet like no other.",
                "It was going to be a good day.",
                "Nobody knew yet what would happen on that day.",
            ),
        ],
    ),
    Plot(
        "evening",
        cast="child",
        weight=2,
        beats=[
            (
                "In the evening, when the work was done, the whole family sat around the table.",
                "In the evening, it grew cool, and {A} closed the window.",
                "In the evening, {A} sat {by_the_door} and waited for {C}.",
            ),
            ("There was {meal}.", "^{C} lit the lamp.", "The fire crackled in the stove."),
            (
                "They told each other what had happened during the day.",
                "{A} told about school, about {B}, and about a {wild} that {A.he} had seen.",
            ),
            (
                [
                    '"And what was the best thing today?" {asked} {C}.',
                    (
                        '{A} thought for a while. "[That {B} laughed|That I was not afraid|The pancakes|This]," '
                        "{A.he} {said}."
                    ),
                ],
                [
                    '"Tell us a story," {said} {A}. "Which one?" {asked} {C}. "A true one," {said} {A}.',
                    (
                        "^{C} told of the winter when the snow reached up to the roof.",
                        '"When I was a child," {C} began, "there was no lamp in this room."',
                    ),
                ],
            ),
            ("Outside, the first stars came out.", "{S.night}.", "The cat lay in front of the stove and slept."),
            (
                "Then they washed the dishes, and {A} dried them.",
                "One after another, they said good night.",
                "{A} fell asleep at the table, and {C} carried {A.him} to bed.",
            ),
        ],
    ),
    Plot(
        "advice",
        bind={"N": "advice"},
        weight=2,
        beats=[
            (
                "How can one {N}?",
                "If you want to {N}, there are three things to remember.",
                "To {N} is easier than many people think.",
                '"How do you {N}?" a boy once asked his grandmother.',
            ),
            "{N.first}.",
            "{N.second}.",
            "{N.third}.",
            ("{N.why}.", "Why? {N.why}."),
        ],
    ),
    Plot(
        "landscape",
        bind={"N": "landscape"},
        weight=2,
        beats=[
            "{N.begin}.",
            ("{N.middle}.", "{N.people}."),
            ("{S.sky}.", "", ""),
            ("{N.people}.", "{N.middle}."),
            (
                "Strangers sometimes ask what there is to see here.",
                "Not much happens here, and that is the beauty of it.",
                "In {S}, it is finest of all.",
                "Those who were born here come back sooner or later.",
                "",
            ),
            "{N.close}.",
        ],
    ),
    Plot(
        "weather",
        weight=2,
        beats=[
            (
                "Today it [will be|is going to be] [sunny|cloudy|windy|cold|mild] in the [north|south|west|east].",
                "The weather for tomorrow: in the morning there will be fog, and later the sun will come out.",
                "In the night, it will rain in the [hills|valleys].",
            ),
            (
                "In the [mountains|hills], there may be some [snow|rain|thunder] in the afternoon.",
                "On the coast, a fresh wind will blow from the [west|north|south].",
            ),
            ("It will be [warmer|colder] than yesterday.", "By evening, the clouds will go away."),
            (
                "Those who go out should take [an umbrella|a warm coat|a hat] with them.",
                "Farmers will be glad of the [rain|sun].",
                "It is a good day for [a walk|flying a kite|staying at home with a book].",
            ),
            (
                "On [Saturday|Sunday|Monday], it will be [dry|fine|wet] again.",
                "The moon will be full, and the night will be clear.",
                "After that, nobody knows, and so we must wait and see.",
            ),
        ],
    ),
    Plot(
        "stroll",
        cast="child",
        bind={"P": "wild_place", "T": "tree_word"},
        weight=6,
        beats=[
            (
                "{A} took a walk {P.to}.",
                "{S.day}, {A} went out to see what there was to see.",
                "After lunch, {A} and {C} went for a walk.",
                "{A} had a free afternoon, and {A.he} went {P.to}.",
            ),
            (
                (
                    "There was a {small} [gate|bridge|hut|bench|window], and behind it stood a {large} "
                    "[{T}|barn|gate|house]."
                ),
                "First, {A.he} came to a {large} house with a {small} door.",
                "On the left, there was a {fine} house, and on the right, there was an empty one.",
            ),
            (
                "A {old} [man|woman] was selling {fruits} and {vegetables} there.",
                "Behind a fence, there grew {fruits}, {vegetables} and {flowers}.",
                "In front of the houses stood baskets full of {fruits}.",
            ),
            (
                "In a {dark} corner lay a {colour} [ball|ribbon|glove|feather|button].",
                "Something {colour} was hanging in the {T}. It was a [scarf|balloon|kite|shirt].",
                "A {colour} [cat|door|cart|flag] caught {A.his} eye.",
            ),
            (
                "It was a {strange} thing to find there.",
                "How {strange}, {A} thought.",
                "{A} wondered to whom it belonged.",
                "",
            ),
            (
                '"{exclaim}, a {wild}!" {cried} {A} and stood still.',
                "{far_off}, a bell rang.",
                "A {cold} wind came up, and {A} buttoned {A.his} coat.",
                "A {bird} sang, and {A} whistled back.",
            ),
            (
                "{later}, {A.he} was {hungry} and ate {snack}.",
                "The way back was {hard}, for it went uphill.",
                "Then it began to rain, and {A} {ran} home {quickly}.",
            ),
            (
                "At home, {A.he} drew everything that {A.he} had seen, and {A.he} was {proud} of the picture.",
                "{next_day}, {A} went the same way again, and everything was different.",
                (
                    'At home, {C} {asked} what {A.he} had seen. "Nothing special," {said} {A}, and then {A.he} talked '
                    'for an hour.'
                ),
            ),
        ],
    ),
    Plot(
        "diary",
        cast="child",
        bind={"P": "place", "X": "thing"},
        weight=2,
        beats=[
            (
                "Today was a [strange|long|wonderful|quiet] day.",
                "[Monday|Tuesday|Friday|Sunday]. I want to write down what happened today.",
                "I have never kept a diary before, but today I must begin.",
            ),
            ("In the morning, I went {P.to}.", "I was {P.in} with {B}.", "After breakfast, {B} and I went {P.to}."),
            (
                "The weather was [fine|bad|warm|cold], and we were [cheerful|tired|hungry].",
                "We saw a {wild}, which looked at us as if it knew us.",
            ),
            (
                "We found a {X} there.",
                "{B} told me a secret, which I may not write down.",
                "We talked about what we want to be one day. I want to be a [sailor|doctor|baker|teacher|gardener].",
            ),
            (
                "Then we had a quarrel, but it did not last long.",
                "On the way back, it began to rain, and we ran.",
                "We stayed until the sun went down.",
            ),
            (
                "I am [tired|happy|a little sad], and I do not quite know why.",
                "I think that I will remember this day.",
                "Tomorrow we want to go there again.",
            ),
            ("Now I will put out the lamp.", "Good night, dear diary.", "My hand is tired, and so I will stop here."),
        ],
    ),
    Plot(
        "two friends talk",
        cast="child",
        bind={"F": "fear"},
        weight=3,
        beats=[
            (
                [
                    '"What are you thinking about?" {asked} {B}.',
                    '"About what I want to be," {said} {A}. "And what do you want to be?"',
                    "@pause",
                    (
                        '"I want to be [someone who knows the names of all the stars|a captain|a baker, because it '
                        'always smells good there]," {said} {B}.'
                    ),
                ],
                [
                    '"You are so quiet today," {said} {B}.',
                    '"I am thinking that everything changes," {said} {A}.',
                    "@pause",
                    '"Some things do not change," {said} {B}. "You always lose your cap."',
                ],
                [
                    '"Is anything the matter?" {asked} {B}.',
                    '"I am afraid of {F}," {said} {A}. "You must not tell anyone."',
                    "@pause",
                    (
                        '"Everyone is afraid of something," {said} {B}. "I am afraid of [geese|spiders|my aunt|being '
                        'forgotten]."'
                    ),
                ],
            ),
            (
                [
                    '"Do you think that we will still be friends when we are old?" {asked} {A}.',
                    '"Of course," {said} {B}. "Who else would laugh at my jokes?"',
                ],
                [
                    '"If you could go anywhere, where would you go?" {asked} {A}.',
                    '"[To the sea|To the mountains|To the moon]," {said} {B}. "Or home. It depends on the day."',
                ],
                [
                    '"What is the best thing in the world?" {asked} {A}.',
                    '"[Summer|My birthday|Snow]," {said} {B}. "No, wait. The day before it."',
                ],
            ),
            ("They were silent, as only good friends can be.", "A {bird} flew over them.", "Then it was time to go."),
            (
                '"Until tomorrow," {said} {A}. "Until tomorrow," {said} {B}.',
                "They walked back slowly, because nobody was waiting.",
            ),
        ],
    ),
)

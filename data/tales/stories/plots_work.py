"""Plots about grown people and villages: work, storms, bridges, markets, letters, music."""

from .story import Plot

PLOTS = (
    Plot(
        "careful work",
        cast="adult",
        bind={"trade": "craft"},
        beats=[
            "@open",
            (
                "{S.day}, a rich [lady|gentleman] came through the door.",
                "{S.day}, a carriage stopped in front of the door.",
            ),
            (
                '"I need it by tomorrow," said the guest, "and I will pay double."',
                '"Work fast," said the guest. "I have no time to wait."',
            ),
            (
                '"Good work takes three days," {said} {A}.',
                '"I can work fast, or I can work well," {said} {A}. "I prefer to work well."',
            ),
            (
                "The guest was {angry} and went to another {trade} across the street.",
                '"Then I will go to someone else!" cried the guest and left.',
            ),
            ("{A} {smiled} and picked up the {trade.tool} again.", "{A} went on with the work, calm as ever."),
            "@time",
            ("Then there was a knock. It was the same guest.", "A week later, the guest was back."),
            (
                '"What I bought broke on the first day," the guest said in a low voice.',
                '"It was cheap and it was quick," said the guest, "and now it is in pieces."',
            ),
            (
                '"Sit down," {said} {A}. "Have some {drink}. It will take three days."',
                "{A} did not laugh. {A.he} only asked what was needed.",
            ),
            (
                "After three days, everything was ready, and it lasted for twenty years.",
                "On the third day it was done, and it was the best that {A} had ever made.",
            ),
            ("@end.work", "{from_then}, the guest told everyone about {A}'s {trade.makes}."),
        ],
    ),
    Plot(
        "storm at sea",
        cast="adult",
        bind={"trade": "trade"},
        season="autumn",
        beats=[
            (
                "On the cliff above the harbour stood a lighthouse, and its keeper was a {trait} {A.kind} named {A}.",
                "{A} was the keeper of the lighthouse. {A.he} had [lived|worked] there for {number} years.",
            ),
            (
                "Every evening, {A.he} climbed the stairs, a hundred and twelve of them, and lit the lamp.",
                "By day {A.he} slept, and by night {A.he} looked after the light.",
            ),
            ("{S.day}, a storm came up.", "Then came the night of the great storm."),
            ("The waves were as high as houses.", "The wind howled around the tower, and rain beat against the glass."),
            (
                "Far out on the water, {A} saw a small light that rose and sank. A ship!",
                '"Who would be out on such a night?" thought {A}. Then {A.he} saw the sail.',
            ),
            (
                [
                    "At that very moment, the great lamp went out.",
                    "The oil had run out. {A} looked for more, but the can was empty.",
                    "{A.he} ran down all the stairs and up again with the oil from {A.his} own kitchen.",
                    "All night long, {A.he} did not leave the lamp for a moment.",
                ],
                [
                    "Then a gust broke the window, and the lamp went out.",
                    "{A}'s hands were wet, and the matches would not burn.",
                    (
                        "{A.he} held {A.his} coat in front of the broken window and tried once more.",
                        "With the very last match, {A.he} lit the lamp again.",
                    ),
                    "Until the morning, {A.he} stood there and kept the wind away from the flame.",
                ],
            ),
            (
                "At dawn, the wind grew weaker. In the harbour lay a fishing boat, broken but safe.",
                "When the sun rose, the sea was calm, and a boat was coming in between the rocks.",
            ),
            (
                "{few} men climbed the stairs to thank {A.him}.",
                '"We saw the light go out, and we thought that we were lost," {said} the captain. "Then it came back."',
            ),
            (
                '"I only did my work," {said} {A} and put the kettle on.',
                "{A} gave them {drink} and slept for a day and a night.",
                "{from_then}, a basket of fish stood at {A.his} door every Friday.",
            ),
        ],
    ),
    Plot(
        "bridge",
        cast="",
        season="spring",
        beats=[
            (
                "There were once two villages, one on each side of a river.",
                "A river ran between two villages, and an old bridge joined them.",
            ),
            (
                (
                    "The people on the left side said that those on the right were lazy. The people on the right side "
                    "said that those on the left were proud."
                ),
                "For many years, the people of the two villages had not liked each other, and nobody remembered why.",
            ),
            ("{S.day}, after a week of rain, the river rose.", "When the snow melted, the river became wild."),
            ("In one night, it carried the bridge away.", "There was a groan and a crack, and the bridge was gone."),
            ('"Good," said some. "Now we have our peace."', "At first, nobody was sorry."),
            (
                "But the mill was on one side and the bakery was on the other.",
                "But the doctor lived on the left, and the well with the good water was on the right.",
            ),
            (
                "Soon there was no bread in one village and no flour in the other.",
                "Soon everyone noticed what was missing.",
            ),
            (
                "Two children, a girl on this side and a boy on that, waved to each other across the water.",
                (
                    "One morning, a child began to carry stones to the bank, one by one. On the other side, another "
                    "child did the same."
                ),
            ),
            (
                "An old carpenter saw it, fetched his saw, and said nothing.",
                '"What are you doing?" asked the mayor. "Building a bridge," said the child.',
            ),
            (
                "Then more and more people came. They worked from both sides, and in the middle they met.",
                "Some brought beams, others brought nails, and the rest brought soup.",
            ),
            (
                "When the last board was laid, they shook hands.",
                "They found that those on the other side were neither lazy nor proud.",
            ),
            (
                "The new bridge was wider than the old one, wide enough for a feast.",
                "They danced on it until the morning.",
                "And in the middle they put a bench, and it is seldom empty.",
            ),
        ],
    ),
    Plot(
        "well is dry",
        cast="child",
        season="summer",
        beats=[
            "@open",
            (
                "That summer, it did not rain for {number} weeks.",
                "It was the driest summer that anyone could remember.",
            ),
            ("The leaves hung down, and the fields were grey.", "The stream became a thread, and then it was gone."),
            ("Then the well ran dry.", "{S.day}, the bucket came up empty."),
            ("The people stood around it and did not know what to do.", '"We will have to leave," said some of them.'),
            (
                "Only {A} noticed that the [goats|bees|swallows] were never thirsty.",
                "{A} was watching the ants, which came from a crack in the rock and were wet.",
            ),
            (
                '"They must drink somewhere," {A.he} {said}. But nobody listened to a child.',
                '"Where do they get their water?" {A.he} {thought}.',
            ),
            (
                "So {A} followed them, up the hill and over the stones, the whole hot day.",
                "{A} got up before sunrise and went after them.",
            ),
            (
                "Behind a thorn bush, it was cool and green. The ground was soft.",
                "High up, under a ledge, the moss was dripping.",
            ),
            (
                "{A.he} dug with {A.his} bare hands, and the hole filled with clear water.",
                "{A.he} pushed a stone aside, and a spring jumped out.",
            ),
            (
                "{A} ran down to the village with wet sleeves, and now everyone listened.",
                '"Water!" {cried} {A}. "I have found water!"',
            ),
            (
                "They dug a channel, and {few} days later water was running into the village again.",
                "They laid pipes of hollow wood down to the village square.",
            ),
            (
                "They named the spring after {A.him}.",
                '"You have good eyes," {said} {C}.',
                "And when the rain came at last, they all stood outside and got wet, and laughed.",
            ),
        ],
    ),
    Plot(
        "market trades",
        cast="child",
        bind={"X": "thing", "Y": "thing"},
        beats=[
            "@open",
            (
                "{S.day}, {C} sent {A} to the market with a [hen|goose|basket of eggs].",
                "{S.day}, {A} went to the market to sell a [goat|sack of apples|jar of honey].",
            ),
            ('"Bring back something useful," {said} {C}.', '"Sell it well," {said} {C}.'),
            (
                "On the way, {A.he} met {D}, who offered {A.him} a {X} for it.",
                "There stood {D}. In {D.his} hands was a {X}, and {X.shine}.",
            ),
            (
                '"It is very good, {X.use}," said {D.the}. So they traded.',
                "{A} could not resist and traded it at once.",
            ),
            (
                "But a little farther on, {A.he} met {B}, who was sitting by the road and crying.",
                "Then {A.he} saw {B}, who looked so sad that {A.he} stopped.",
            ),
            (
                "{B} had lost {B.his} money and could not go home without a gift for {B.his} little sister.",
                "\"It is my sister's birthday,\" said {B}, \"and I have nothing to give her.\"",
            ),
            (
                "{A} looked at the {X.plain}. Then {A.he} gave it to {B}.",
                '"Take this," {said} {A} and held out the {X.plain}.',
            ),
            ("So {A} came home with empty hands.", "All the way home, {A} thought about what to say."),
            (
                '"And what did you bring?" {asked} {C}. {A} told everything.',
                '^{C} listened to the story to the end. "Hm," {C.he} said.',
            ),
            (
                '"That was not a good trade," {said} {C}, "but it was a good deed."',
                '"You have brought back a friend," {said} {C}. "That is useful, too."',
            ),
            (
                "The next week, {B} stood at the door with a {Y} and a big grin.",
                "Some time later, a parcel came. In it was a {Y}, with greetings from {B}.",
            ),
            ("@end.kind", "@end.friends"),
        ],
    ),
    Plot(
        "musician",
        cast="adult",
        bind={"trade": "trade", "P": "wild_place"},
        beats=[
            (
                "{A} was a fiddler, and when {A.he} played, even the {farm_animals} stood still and listened.",
                "There was once a musician named {A}, who went from village to village with a fiddle.",
            ),
            ("But {S.day_low}, {A} had no more songs.", "Then, one day, the music was gone."),
            (
                "{A.he} lifted the bow, but nothing came to {A.his} mind.",
                "{A.he} could still play the old tunes, but they sounded empty, even to {A.himself}.",
            ),
            "@sad",
            (
                '"Rest," said the doctor. "Practise," said the teacher.',
                "{A.he} bought a new bow, and then new strings, but it did not help.",
            ),
            (
                "So {A} put the fiddle under the bed and went {P.to}.",
                "So {A.he} locked the door and went {P.to}, without a fiddle and without a plan.",
            ),
            ("{P.sight}.",),
            ("{A.he} sat down and did nothing at all.", "For {days}, {A.he} did nothing but listen."),
            (
                "The wind hummed in a hollow {tree}. A drop fell, and then another one. A {bird} answered.",
                "There was a rhythm in the steps of the cows, and a tune in the wind.",
            ),
            (
                "{A} began to tap with {A.his} foot.",
                "{A} {smiled}. There it was, the new song, and it had been there all the time.",
            ),
            (
                "{A.he} ran home and played until the neighbours came and opened the windows.",
                "{that_night}, {A} played it for the first time. An old man wept, and two children danced.",
            ),
            (
                '"Where did you get that song?" they asked. "I did not make it," {said} {A}. "I only listened."',
                "{from_then}, whenever the music left {A.him}, {A.he} went out and was silent until it came back.",
            ),
        ],
    ),
    Plot(
        "letter",
        cast="adult",
        bind={"trade": "trade"},
        beats=[
            (
                "Every day, {A} waited for the post.",
                "{A} lived alone {home.in}. {A.his} [son|daughter|brother] had gone to sea {number} years ago.",
            ),
            (
                "When the postwoman came up the road, {A.he} was already standing at the gate.",
                '"Is there anything for me?" {A} {asked}, every morning at ten.',
            ),
            (
                '"Not today," said the postwoman. "Perhaps tomorrow," said {A}.',
                "But there was never anything for {A.him}, only newspapers.",
            ),
            ("The postwoman was sorry for {A.him}.", "It went on like this for [months|years]."),
            (
                (
                    "One evening, the postwoman sat down and wrote a letter herself. It told of [a garden|a cat that "
                    "could open doors|a day at the sea]."
                ),
                (
                    '{S.day}, a girl from the next house saw it. She took a sheet of paper and wrote: "Dear '
                    'neighbour, how are you?"'
                ),
            ),
            ("{A} read it three times.", "{A}'s hands trembled when {A.he} opened it."),
            (
                "The next day, {A.he} wrote an answer. It was four pages long.",
                '"It is for me!" {A.he} {said} and held the letter up to the light.',
            ),
            ("So it began. A letter went, and a letter came.", "{from_then}, there was a letter every week."),
            (
                "{A} no longer stood at the gate. {A.he} had no time, for {A.he} was writing.",
                "{A} told of {A.his} childhood, of the great flood, and of the year when the wolves came.",
            ),
            (
                "And then, {S.day_low}, there were two letters in the box. One of them had a stamp with a ship on it.",
                'And one day, a tall stranger stood at the gate and said, "I have come home."',
            ),
            ("{A} sat down on the steps, for {A.his} knees were weak with joy.", "@glad"),
        ],
    ),
    Plot(
        "clock stops",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, the great clock on the tower stopped. It was ten past four, and it stayed ten past four.",
                "In the middle of the town stood a tower with a clock. One day it stopped.",
            ),
            (
                "Nobody knew when to eat or when to sleep.",
                "The baker baked too late, the school began too early, and the night watchman slept through the night.",
            ),
            (
                "They sent for [a clever man|a clever woman] from the city, but nobody could find the fault.",
                "The mayor climbed up with a hammer, and came down again with a blue thumb.",
            ),
            (
                "{A} was small enough to creep between the wheels.",
                '"May I try?" {asked} {A}. Everyone laughed, but the mayor gave {A.him} the key.',
            ),
            (
                "It was dusty up there, and it smelled of oil.",
                "Inside the clock, the wheels stood like a sleeping herd.",
            ),
            (
                "{A} looked at one wheel after the other, {slowly}.",
                "{A} did not touch anything at first. {A.he} only looked.",
            ),
            (
                "And what was there, between two teeth of the smallest wheel? A nest with [two|three|four] blue eggs.",
                "There, behind the bell, a {bird} had built its nest, and a straw had got between the wheels.",
            ),
            ('"So that is it," {said} {A}.', "{A} laughed softly, so as not to frighten the mother."),
            (
                "{A.he} pulled out the straw and moved the nest a little to the side, as carefully as could be.",
                '"We must wait until they have hatched," {A} told the people. And the people waited, for three weeks.',
            ),
            ("Then it went tick, and tock, and the bell rang over the roofs.", "The great hand shook, and moved."),
            ("The whole town clapped.", "Down on the square, hats flew into the air."),
            (
                "@praise",
                "{from_then}, {A} had the key to the tower, and every spring {A.he} looked after the birds.",
                "@end.ever",
            ),
        ],
    ),
    Plot(
        "raft",
        cast="child",
        season="summer",
        beats=[
            "@open",
            (
                "{S.day}, {A} and {B} decided to build a raft.",
                '"Let us build a raft," {said} {A} to {B}, "and go down the river."',
            ),
            ("They needed boards, ropes and [four|six] empty barrels.", "They collected everything that floats."),
            (
                "\"It will sink,\" said {B}'s [brother|sister].",
                '"It must be wide, or it will tip over," {said} {C}, who had once been a sailor.',
            ),
            (
                "For {days}, they sawed and tied knots.",
                "{A} held the boards and {B} hammered, and then it was the other way round.",
            ),
            (
                "The first raft fell apart before it was in the water.",
                "The first raft sank. They stood up to their bellies in the river and looked at each other.",
            ),
            ('"Well," {said} {B}, "now we know how not to do it."', '"Once more," {said} {A}.'),
            "@think",
            (
                "The second time, they tied the ropes crosswise.",
                "This time they put the barrels on the outside, as {C} had told them.",
            ),
            (
                "They called it [the Sea Star|the Brave Duck|the Old Barrel] and pushed it off.",
                "They put up a bed sheet as a sail and pushed off.",
            ),
            ("It rocked, it turned, and it floated.", "The water gurgled under the boards, but their feet stayed dry."),
            (
                "They drifted past the willows, past the cows, and under the bridge, where {C} stood and saluted.",
                "A family of ducks swam along with them for a while.",
            ),
            (
                "At the bend they ran aground, and there they ate {snack} in the sun.",
                "In the evening, they tied it to a {tree}, with three knots, to be sure.",
            ),
            ("@end.together", "@end.friends", "@end.home"),
        ],
    ),
    Plot(
        "kitten in tree",
        cast="child",
        bind={"T": "tree_word"},
        beats=[
            "@open",
            (
                "{S.day}, {A} heard a pitiful cry. High up in the {T} sat {B}'s little cat.",
                "{S.day}, a crowd was standing around the old {T}. In its top sat {B}'s little cat.",
            ),
            (
                '"How did it get up there?" {asked} {A}.',
                "It had climbed up after a {bird}, and now it did not know how to come down.",
            ),
            ("They called it, but it only cried louder.", "{B} held up a bowl of milk, but the cat did not move."),
            (
                "^{V} brought a ladder, but it was too short.",
                '^{V} shook the tree. "Stop!" {cried} {A}. "It will fall!"',
            ),
            ("The clouds grew darker, and it began to rain.", "It was getting dark."),
            "@idea",
            (
                "{A.he} fetched a basket and a long rope.",
                '"Cats like fish," {said} {A}. {A.he} put a herring into a basket.',
            ),
            (
                "{A.he} threw the rope over a branch and pulled the basket up, {slowly}.",
                "With the rope, they drew the basket up to the branch.",
            ),
            (
                "The cat sniffed. It put in one paw, and then the other.",
                "The cat looked at the basket, and at the crowd, and at the basket again. Then it jumped in.",
            ),
            ("Inch by inch, they let it down.", "Everyone held their breath until the basket touched the ground."),
            (
                "{B} pressed the cat to {B.his} cheek.",
                "The cat stepped out, as if nothing had happened, and licked its paw.",
            ),
            ('"{praise}!" {said} {V}.', "@glad"),
            ("The next morning, the cat was sitting in the tree again.", "@end.friends", "@end.home"),
        ],
    ),
    Plot(
        "missing ingredient",
        cast="child",
        bind={"R": "dish"},
        weight=2,
        beats=[
            "@open",
            (
                "{S.day}, {A} wanted to make {R} for {C}.",
                '{S.day}, {C} was ill in bed. "I will make {R}," {said} {A}.',
                "{S.day}, guests were coming, and {A} was to make {R}.",
            ),
            (
                "{A.he} tied on an apron and put everything on the table.",
                "{A} washed {A.his} hands and opened the cookbook.",
            ),
            (
                "But there was one thing missing: {R.missing}.",
                "Everything was there, except for {R.missing}.",
                '"Oh no," {said} {A}. "I forgot {R.missing}!"',
            ),
            (
                "{A} {ran} to {B}, but {B} had none either.",
                "The shop was closed already.",
                "{A} asked on the left and on the right, in vain.",
            ),
            (
                '"I know where you can find some," {said} {B}, "{R.where}."',
                "Then {A} remembered where there might be some: {R.where}.",
            ),
            ("So {A} set off. {S.sky}.", "It was a long way, but {A.he} ran."),
            (
                (
                    'There {A.he} met {D}. "I can give you some," {said} {D.the}, "if you will [carry my basket|help '
                    'me stack the wood|find my glasses] first."'
                ),
                (
                    '"I will gladly give you some," said the voice behind the door, "but bring me a piece when it is '
                    'done."'
                ),
            ),
            ("{A} did so, and got what {A.he} needed.", '"{yes}," {said} {A}.'),
            (
                "At home, {A.he} stirred and tasted, and tasted and stirred.",
                "Then {A.he} set to work. Flour was on the table, on the floor, and on {A.his} nose.",
            ),
            (
                "{soon}, the whole house smelled of it.",
                "It was a little [lopsided|too dark at the edge|too thick], but it smelled wonderful.",
            ),
            (
                '^{C} took the first bite and closed {C.his} eyes. "{praise}," {C.he} said.',
                '"Who made this?" {asked} {C}. "It is very good."',
            ),
            (
                "And {A} carried a large piece to the one who had helped {A.him}.",
                "Nothing was left, not even a crumb.",
                "@glad",
            ),
            ("", "@end.kind", "@end.home"),
        ],
    ),
)

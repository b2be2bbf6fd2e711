"""Plots about children out and about: lost ways, old maps, noises at night, snow, stars, a lamb, a dog."""

from .story import Plot

PLOTS = (
    Plot(
        "lost way",
        cast="child",
        bind={"P": "wild_place"},
        beats=[
            "@open",
            (
                "{S.day}, {A} and {B} went {P.to} to look for [berries|mushrooms|nuts|shells].",
                "{S.day}, {A} and {B} followed a {wild}, on and on, {P.to}.",
            ),
            ("{P.sight}.", "@sky"),
            (
                "They went farther than ever before, and when they looked around, they did not know where they were.",
                "Then the fog came. It was so thick that they could not see their own hands.",
                "When it grew dark, every path looked like every other path.",
            ),
            (
                '"We are lost," {said} {B} in a small voice.',
                '"Which way did we come?" {asked} {B}. {A} did not know.',
                "{B} began to cry.",
            ),
            "@afraid",
            (
                '"Let us sit down and think," {said} {A}.',
                '"Listen," {said} {A}. "I can hear water."',
                "{A} remembered what {C} had once told {A.him}.",
                "Then {A} looked up at the sky.",
            ),
            (
                (
                    '"[A stream always leads to people|Water runs down to the valley]," {A.he} said. So they followed '
                    'the stream.'
                ),
                "There was the star that always stands in the north, and the village lay to the north.",
                "The wind had been behind them all day. If they walked against it, they had to come home.",
                "From far away came the sound of a bell. They walked towards it, hand in hand.",
            ),
            (
                "They climbed over stones and crept under branches.",
                "{B} stumbled, but {A} held {B.him}.",
                "To keep up their courage, they sang every song they knew.",
            ),
            (
                "{at_last}, they saw a light.",
                "{at_last}, the trees ended, and below them lay the lamps of the village.",
            ),
            (
                "^{C} was coming up the road with a lantern.",
                "At the gate stood {C}, who had not slept.",
                "Half the village was out looking for them.",
            ),
            (
                '"You kept your heads," {said} {C}. "That was good."',
                "They were wrapped in blankets and given {drink}.",
                "@eat",
            ),
            ("@end.courage", "@end.home", "@end.friends"),
        ],
    ),
    Plot(
        "treasure map",
        cast="child",
        bind={"P": "place"},
        beats=[
            "@open",
            (
                (
                    "{S.day}, {A} found an old [map|sheet of paper] [in the attic|behind a loose brick|in a book from "
                    "the library]."
                ),
                "{S.day}, {A} opened an old chest in the attic. At the bottom lay a map.",
            ),
            (
                "There was a path on it, a tree with two tops, and a red cross.",
                "The ink was faded, but one could see a [path|river], a tower, and a red cross.",
            ),
            ('"A treasure!" {whispered} {A} and ran to {B}.', "{A} showed it to {B}, whose eyes grew wide."),
            (
                "They took a spade, a rope and {snack}, and set off.",
                '"We need a spade," {said} {B}. "And something to eat," {said} {A}.',
            ),
            ("The path led {P.to}.", "They counted forty steps from the [well|bridge|big stone] and came {P.to}."),
            ("{P.sight}.", ""),
            (
                "There they dug until their hands hurt.",
                "They dug a hole, and then a second one, and then a third.",
                '"There is nothing here," {said} {B}. "Deeper," {said} {A}.',
            ),
            (
                "Then the spade struck [wood|metal]. It was a box!",
                "{suddenly}, there was a hollow sound. They pulled out a rusty box.",
            ),
            (
                "There was no gold in it. There were [marbles|shells], a [wooden horse|tin soldier], and a letter.",
                "In the box lay a letter, a ribbon, and a handful of [buttons|coloured stones].",
            ),
            (
                '"Whoever finds this," it said, "should know that we were happy here." Below it was the name of {C}.',
                (
                    '"This is our treasure," they read. "We were friends, and we were nine years old." It was {C} who '
                    'had signed it.'
                ),
            ),
            (
                "^{C} laughed when they brought the box home, and then wiped a tear away.",
                '"So it is still there," {said} {C}. "I had forgotten it long ago."',
            ),
            (
                "The next day, {A} and {B} put in a letter of their own and buried the box again.",
                "That evening, {C} told them stories of long ago until the lamp went out.",
            ),
            ("@end.friends", "@end.ever"),
        ],
    ),
    Plot(
        "attic ghost",
        cast="child",
        beats=[
            "@open",
            (
                (
                    "At night, {A} heard a noise in the attic: [scratch, scratch, bump|a knock, a rustle, and a long "
                    "sigh]."
                ),
                "{S.day}, a strange noise came from above. It sounded like steps.",
            ),
            (
                '"It is a ghost," {said} {B}.',
                '"There is somebody up there," {A} told {C}. "It is only the wind," {said} {C}.',
            ),
            "@afraid",
            ("But {A} was even more curious than {A.he} was afraid.", "But {A.he} wanted to know what it was."),
            (
                "{that_night}, {A.he} took a [lamp|candle] and climbed the stairs.",
                "{A} and {B} took each other by the hand and climbed up, one step after another.",
            ),
            ("The door creaked.", "The stairs groaned.", "It was as dark as in a sack."),
            (
                "There it was again! {A} lifted the lamp.",
                "Something white moved in the corner.",
                "Two yellow eyes shone in the dark.",
            ),
            (
                "It was an owl, which sat on a beam and was just as frightened as they were.",
                "It was a family of [martens|swallows|squirrels], who had made a nest in an old [hat|suitcase].",
                (
                    "It was the neighbour's cat, who had come in through the broken window and had [three|four|five] "
                    "kittens."
                ),
            ),
            ('"So this is our ghost," {said} {A} and {smiled}.', "{B} laughed until {B.he} had to sit down.", "@glad"),
            (
                "They crept down again and did not disturb it.",
                "They left a bowl of water there and closed the door softly.",
                "{A} told {C}, and they let the guests stay until [spring|summer].",
            ),
            ("@end.courage", "@end.home"),
        ],
    ),
    Plot(
        "first snow",
        cast="child",
        season="winter",
        beats=[
            "@open",
            (
                "One {S} morning, {A} woke up, and it was strangely quiet.",
                "When {A} woke up, the light in {A.his} room was different, white and soft.",
            ),
            (
                "{A.he} {ran} to the window. Snow!",
                "{A.he} looked out. The [street|garden] had gone, and the hedges wore white caps.",
            ),
            (
                "{A} did not even finish {A.his} breakfast.",
                '"Put on your [gloves|cap|boots]!" {cried} {C}, but {A} was already outside.',
            ),
            (
                "The snow creaked under {A.his} boots.",
                "{A.he} put out {A.his} tongue and caught a flake.",
                "There were the tracks of a {wild}, like a row of small letters.",
            ),
            ("{B} came with a sledge.", "Then a snowball hit {A.him} on the back. It was {B}."),
            (
                (
                    "They built a snowman with a carrot for a nose and [an old hat|a pot on its head|two buttons for "
                    "eyes]."
                ),
                "They rode down the hill, and {A} sat in front, and both of them screamed with joy.",
                "They built a house of snow and sat inside like two bears.",
            ),
            (
                "Their cheeks were red and their fingers were cold.",
                "Only when the lamps were lit did they notice how cold they were.",
            ),
            (
                "^{C} made [tea|cocoa|hot milk] for them and hung up the wet clothes beside the stove.",
                "In the kitchen, {C} gave them [tea|cocoa|hot milk], and the windows were misty.",
            ),
            (
                '"Will it still be there tomorrow?" {asked} {A}. "Perhaps," {said} {C}.',
                "{that_night}, new flakes were falling past the lamp.",
                "Outside, the snowman stood in the moonlight and kept watch.",
            ),
            ("@end.home", "{A} fell asleep before {A.he} could finish counting the flakes.", "@end.friends"),
        ],
    ),
    Plot(
        "stars",
        cast="child",
        season="summer",
        beats=[
            "@open",
            (
                "One {S} night, {A} could not sleep.",
                "In the middle of the night, {A} woke up and looked out of the window.",
            ),
            ("{S.night}.", ""),
            (
                "^{C} was sitting on the steps in front of the house and looking up.",
                "^{C} took {A.him} by the hand, and they went out into the garden.",
            ),
            (
                [
                    '"How many stars are there?" {asked} {A}.',
                    (
                        '"More than all the grains of sand on the beach," {said} {C}.',
                        '"Nobody has counted to the end yet," {said} {C}.',
                    ),
                ],
                [
                    '"[Why do the stars not fall down|What is behind the stars|Who lit the stars]?" {asked} {A}.',
                    '"People have asked that as long as there have been people," {said} {C}.',
                ],
            ),
            (
                "They lay down in the grass and wrapped themselves in a blanket.",
                "They sat close together, because it was cool.",
            ),
            (
                (
                    '"Do you see those seven? They look like a wagon," {said} {C}. "And that bright one always stands '
                    'in the north."'
                ),
                '"That light has been on its way for many years," {said} {C}. "It started before you were born."',
                "^{C} showed {A.him} the wagon, the swan, and the hunter with the three stars in his belt.",
            ),
            ("Then a star fell, quick as a scratch on glass.", "A shooting star flew over the roof."),
            (
                '"Did you make a wish?" {asked} {C}. {A} nodded, but {A.he} did not tell.',
                '"I wished for nothing," {said} {A}. "I have everything now."',
            ),
            (
                "{A.he} felt very small, but it was not a bad feeling.",
                "{A}'s eyes fell shut, and {C} carried {A.him} in.",
                "An owl called, and far away a dog answered.",
            ),
            ("@end.ever", "{A} still knows the names of the stars today."),
        ],
    ),
    Plot(
        "lost lamb",
        cast="child",
        season="summer",
        bind={"P": "wild_place"},
        beats=[
            "@open",
            (
                "{A} looked after the sheep of the village. There were forty of them, and {A.he} knew each one.",
                "In the summer, {A} took the sheep up to the hill.",
            ),
            (
                "One evening, {A.he} counted them. There were only thirty-nine.",
                "One evening, one lamb was missing, the small one with the black ear.",
            ),
            (
                '"It is only one," {said} {B}. "Come home, it is getting dark."',
                "The clouds were dark, and the wind smelled of rain.",
            ),
            (
                'But {A} shook {A.his} head. "It is alone out there," {A.he} {said}.',
                "But {A} could not leave it behind.",
            ),
            ("{B} stayed with the flock, and {A} went back alone.", "{A} took {A.his} lantern and set off."),
            (
                "{A.he} searched {P.in}. {P.sight}.",
                "It began to rain. {A} called and listened, called and listened.",
                "{A.he} slipped on the wet stones and cut {A.his} hand, but {A.he} went on.",
            ),
            (
                "Then {A.he} heard a thin voice. The lamb had fallen between two rocks.",
                "There, {P.spot}, it lay. It was wet and too weak to stand.",
            ),
            (
                "{A.he} lay down on {A.his} stomach, reached down as far as {A.he} could, and pulled it up.",
                "{A} took it on {A.his} shoulders and felt its warm breath on {A.his} neck.",
            ),
            (
                "It was nearly morning when they came back.",
                "The whole night {A.he} walked, with the lamb on {A.his} back.",
            ),
            (
                "The old ewe ran towards them and bleated.",
                '"All that for one lamb?" {asked} {B}. "Yes," {said} {A}. "For one."',
            ),
            (
                "That day, {A} was allowed to sleep as long as {A.he} wanted.",
                "Forty, counted {A}, and fell asleep.",
                "@end.kind",
            ),
        ],
    ),
    Plot(
        "stray dog",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, a dog was sitting in front of the house. It was thin, and one of its ears was torn.",
                "{S.day}, a dog followed {A} home from school. It had no collar.",
            ),
            (
                '"Go away," {said} {A}, but not very loud.',
                '"Whose dog is that?" {asked} {C}. "Mine, perhaps," {said} {A}.',
            ),
            (
                '"It cannot stay," {said} {C}. "A dog means work every day."',
                '^{C} shook {C.his} head. "One night," {C.he} said, "and not in the house."',
            ),
            (
                "But that night, there was a storm, and the dog howled so sadly that {C} opened the door.",
                "{A} put out a bowl of water and an old blanket.",
            ),
            (
                "The next day they asked all over the village, but nobody knew the dog.",
                "They put up a note at the baker's, but nobody came.",
            ),
            (
                "{A} fed it, brushed it, and walked with it in every weather.",
                "{A} got up an hour earlier each day to go out with it.",
                "It chewed up two shoes and a cushion, and it was sorry each time.",
            ),
            (
                [
                    "One evening, {A} did not come home on time. The dog barked at the door and would not stop.",
                    "^{C} followed it to the old well. There sat {A}, who had hurt {A.his} foot.",
                ],
                [
                    "Then, one night, the dog woke everyone up with its barking: there was smoke in the kitchen!",
                    "A coal had fallen out of the stove, and they could put out the fire just in time.",
                ],
            ),
            (
                '"Now it can stay," {said} {C} and scratched it behind the torn ear.',
                '"I believe that it is our dog," {said} {C}.',
            ),
            (
                "It already knew that, of course.",
                "The dog wagged its tail and lay down by the stove, as if it had always lain there.",
                "@glad",
            ),
        ],
    ),
)

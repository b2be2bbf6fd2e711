"""Plots of today: a power cut, a match, a school play, a robot, a tent, a missed bus."""

from .story import Plot

PLOTS = (
    Plot(
        "power cut",
        cast="child",
        beats=[
            "@open",
            (
                "One {S} evening, all the lights went out at once.",
                "It was seven in the evening when the lamp flickered and went out.",
            ),
            (
                "The radio fell silent, and the refrigerator stopped humming.",
                "The whole street was dark, from one end to the other.",
            ),
            (
                '"What is that?" {asked} {A}. "A power cut," {said} {C}.',
                '"Who turned off the light?" {cried} {A}. Nobody had.',
            ),
            (
                "^{C} felt along the shelf and found a box of candles.",
                "They looked for the torch, but its battery was empty.",
                "{A} bumped into a chair, and then into the cat.",
            ),
            (
                "The candle threw large shadows on the wall, and {A} made a {wild} out of {A.his} hands.",
                "In the candlelight, the kitchen looked like a cave.",
            ),
            (
                "There was a knock at the door. It was {B} from upstairs, who did not want to sit alone in the dark.",
                "Soon the neighbours came down, one after another, each with a candle.",
            ),
            (
                "Because nobody could watch anything, they told stories.",
                "Someone had a guitar, and so they sang.",
                "They ate all the ice cream, because it would have melted anyway.",
            ),
            (
                "People who had said no more than good morning for years sat side by side on the stairs.",
                "{A} learned that the old lady from the third floor had once been a [dancer|pilot|diver].",
            ),
            ("Then, at half past ten, the light came back.", "All at once, it was bright again, and everyone blinked."),
            ('"Oh," {said} {A}. "What a pity."', "Nobody cheered. Some of them looked almost {sad}."),
            (
                "{from_then}, they turned off the light once a month and lit candles.",
                "The next day, people greeted each other by name on the stairs.",
            ),
        ],
    ),
    Plot(
        "football match",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, there was a match against the team from the next village.",
                "The biggest match of the year was to be played on Saturday.",
            ),
            (
                "{A} had never been allowed to play. {A.he} sat on the bench and kept the water bottles in order.",
                "{A} was the smallest of the team, and mostly {A.he} only fetched the balls.",
            ),
            (
                "After half an hour, it was [two to nothing|one to nothing] for the others.",
                "The others were taller and faster, and they scored twice.",
            ),
            ("Then {B} hurt {B.his} foot and could not go on.", '"My ankle!" {cried} {B} and limped to the side.'),
            (
                'The trainer looked along the bench. There was only {A}. "Now it is your turn," the trainer said.',
                '"You are in," said the trainer and pointed at {A}.',
            ),
            "@afraid",
            ("At first, {A} only ran after the others.", "The first time {A} got the ball, {A.he} lost it at once."),
            (
                '"You are small," {cried} {B} from the side. "Run where they cannot turn!"',
                '"Look where they are not looking!" {cried} {B}.',
            ),
            (
                "{A} slipped between two tall defenders and passed the ball on. Goal!",
                "{A} ran between their legs like a mouse, and before they knew it, the ball was in the net.",
            ),
            ("In the last minute, it was two to two.", "A minute before the end, the score was even."),
            (
                (
                    "{A} saw a gap, no wider than a door, and kicked. The ball hit the post, rolled along the line, "
                    "and stayed outside."
                ),
                "{A} kicked as hard as {A.he} could. The goalkeeper leapt, and the ball flew past his fingers.",
            ),
            ("Then came the whistle.", "The referee blew the whistle."),
            (
                "They carried {A} off on their shoulders, as if {A.he} had won the cup.",
                "It was not a great victory, but nobody ever called {A} too small again.",
                '"{praise}!" {said} {B} and shook {A.his} hand.',
            ),
        ],
    ),
    Plot(
        "school play",
        cast="child",
        beats=[
            "@open",
            (
                "The class was going to put on a play. {B} was to be the king, and {A} was to be a tree.",
                "In the school play, {A} had only one sentence to say.",
            ),
            (
                "{A} practised in front of the mirror {often}.",
                "{A} said the words in bed, in the bath and on the way to school.",
            ),
            (
                "Then the evening came. The hall was full, up to the last row.",
                "{S.day}, all the parents came, and even the mayor.",
            ),
            (
                "Behind the curtain it was hot, and {A}'s mouth was dry.",
                "{A} looked through a hole in the curtain and wished {A.he} had not.",
            ),
            "@afraid",
            (
                "The play began. Everything went well, until {B} stopped in the middle of a sentence.",
                "In the second act, {B} opened {B.his} mouth, and nothing came out.",
            ),
            (
                "It was so quiet that one could hear the rain.",
                "{B} turned white, and then red.",
                "Somebody in the first row coughed.",
            ),
            (
                "{A} knew the words. {A.he} had heard them a hundred times.",
                "{A} knew every part by heart, because {A.he} had listened at every rehearsal.",
            ),
            (
                'So the tree bent its branches and whispered, "My kingdom is large, but my heart is heavy."',
                (
                    'Then {A} did something that was not in the play. "O king," {A.he} {said}, "the wind told me that '
                    'your heart is heavy!"'
                ),
            ),
            ('"My heart is heavy!" {cried} {B}, and the play went on.', "{B} took a breath, and the words came back."),
            ("In the end, the applause would not stop.", "The people clapped until their hands hurt."),
            (
                "{B} took the tree by the branch and pulled it to the front, and they bowed together.",
                '"You saved me," {whispered} {B}.',
                "The newspaper wrote that the tree had been the best of all.",
            ),
            ("@end.friends", ""),
        ],
    ),
    Plot(
        "robot",
        cast="child",
        beats=[
            (
                "In the year when {A} was {number_old}, {C} built a robot.",
                "{A}'s family had a robot. It was old and dented, and it was called Otto.",
                "{A} found a robot in a heap of scrap. It had one arm and a square head.",
            ),
            (
                "It could [wash dishes|count to a million|fry eggs], but it could not laugh.",
                "It did everything one told it to do, and nothing else.",
            ),
            (
                '"What is a joke?" it asked one day.',
                '"Why do you make that noise?" asked the robot when {A} was laughing.',
            ),
            (
                '{A} told it one. "I do not understand," said the robot.',
                '"It is hard to explain," {said} {A}. "One feels it in the belly." "I have no belly," said the robot.',
            ),
            (
                "{A} told it a joke every day. Each time, the robot blinked and said that it did not understand.",
                "{A} tried it with funny hats, with silly songs and with a hen on a bicycle.",
            ),
            (
                "{S.day}, {A} slipped on a banana skin, fell into the pond, and came up with a frog on {A.his} head.",
                (
                    "{S.day}, {C} looked for {C.his} glasses all over the house and had them on {C.his} nose the "
                    "whole time."
                ),
            ),
            (
                "There was a strange sound. It squeaked, it rattled, and it did not stop.",
                "Something inside the robot began to hiccup.",
            ),
            ('"Are you broken?" {cried} {A}.', '"I think it needs oil," {said} {C}.'),
            (
                '"No," said the robot. "I think that I have a belly after all."',
                '"I believe," said the robot, "that this was a joke."',
            ),
            ("They laughed until the robot's eyes flickered.", "{A} laughed, too, and then nobody could stop."),
            (
                "{from_then}, it was the one who told the jokes, and they were very bad.",
                "The robot wrote it down, so as not to forget how it is done.",
                "Now it laughs at everything, even at the weather report.",
            ),
        ],
    ),
    Plot(
        "tent",
        cast="child",
        season="summer",
        beats=[
            "@open",
            (
                "{S.day}, {A} and {B} put up a tent in the garden.",
                '"Tonight we will sleep outside," {said} {A} to {B}.',
            ),
            (
                "It took them an hour, and at the end there was one pole too many.",
                "The tent was a little crooked, but it stood.",
            ),
            (
                "They took blankets, a torch, {snack} and a book about [pirates|wolves|the North Pole] with them.",
                "^{C} gave them a basket with sandwiches and did not say that it might rain.",
            ),
            ("As long as it was light, it was easy.", "They lay on their stomachs and told each other stories."),
            ("Then it grew dark. {S.night}.", "But at night, a garden is not the same as by day."),
            (
                "Something rustled. Something snorted, quite near.",
                "There was a scratching at the tent, first on the left and then on the right.",
            ),
            (
                (
                    '"What is that?" {whispered} {B}. "A bear," {whispered} {A}. "There are no bears here," '
                    '{whispered} {B}. "Not many," {said} {A}.'
                ),
                '"Did you hear that?" {asked} {B}. {A} had heard it.',
            ),
            ("{A} pulled the blanket over {A.his} head.", "They held each other's hands and did not breathe."),
            (
                "At last {A} opened the tent, just a crack, and shone the torch outside.",
                "{A} counted to three, tore the tent open and shouted.",
            ),
            (
                "Two small eyes looked at them. It was a hedgehog, and it was eating the sandwiches.",
                "There stood {C} with two cups of cocoa and was just as frightened as they were.",
            ),
            ("They laughed so loud that the light went on in the next house.", '"A very small bear," {said} {B}.'),
            (
                "In the morning, the grass was wet, and they were the first to see the sun.",
                "They slept until the sun made the tent as hot as an oven.",
            ),
            ("@end.friends", "@end.courage", ""),
        ],
    ),
    Plot(
        "missed bus",
        cast="child",
        beats=[
            "@open",
            (
                (
                    "{S.day}, {A} missed the bus, because {A.he} had stopped to look at [a snail|a shop window|a dead "
                    "beetle|the clouds]."
                ),
                "{S.day}, {A} ran to the stop, but the bus drove off in front of {A.his} nose.",
            ),
            ("The next one came in an hour.", '"Wait!" {cried} {A}, but the driver did not hear it.'),
            "@angry",
            ("So {A} had to walk. {S.sky}.", "There was nothing to be done. {A} set off on foot."),
            (
                "And because {A.he} was walking, {A.he} saw things that one does not see from the bus.",
                "From the bus, the road had always looked the same. Now it was different.",
            ),
            (
                "There was a shop where a man repaired violins. He waved and let {A.him} try one.",
                "Behind a wall, somebody was practising the trumpet, always the same three notes.",
                "On a balcony sat a parrot that knew the names of all the days.",
            ),
            (
                "On the bridge {A.he} met {D}, who had also missed the bus, and they walked together for a while.",
                "At the corner, {D} asked the way, and {A} knew it.",
                "An old dog came along for three streets and then turned back, as if it had an appointment.",
            ),
            (
                (
                    "A sign told {A.him} that [this street had once been a river|there had been a circus with "
                    "elephants here|an emperor had slept in the house with the green shutters]."
                ),
                "{A} picked up a chestnut, a feather and a screw, and put them into {A.his} pocket.",
            ),
            (
                "When {A} arrived, {A.he} was an hour late, and {A.his} pockets were full.",
                "{A} came too late, of course.",
            ),
            (
                '"Where have you been?" {asked} {C}. "I missed the bus," {said} {A}. "It was wonderful."',
                '"I am sorry," {said} {A}. "The road was so long and so interesting."',
            ),
            (
                "{from_then}, {A} missed the bus every Friday, on purpose.",
                "The next day, {A} caught the bus, but {A.he} sat at the window and looked out for the parrot.",
                "@end.ever",
            ),
        ],
    ),
    Plot(
        "bottle post",
        cast="child",
        season="summer",
        beats=[
            "@open",
            (
                "{S.day}, {A} wrote a letter, put it into a bottle, and threw it into the river.",
                (
                    "{S.day}, {A} put a letter into a green bottle, closed it with a cork, and let it float down the "
                    "river."
                ),
            ),
            (
                '"I am {number_old} years old," it said, "and I would like to know where the river goes."',
                'It said, "Whoever reads this, please tell me what it looks like where you are."',
            ),
            ("For {days}, nothing happened.", "Weeks went by, and {A} almost forgot it."),
            (
                "Then the postwoman came with a card. There was a harbour on it, with white ships.",
                "Then an answer came, with a stamp that nobody knew.",
            ),
            (
                (
                    '"The river goes to the sea," it said, "and the sea goes everywhere. Your bottle came to my net. '
                    'I am a fisherman."'
                ),
                '"I live where the water is warm," it said. "My name is {B}, and I found your bottle under my boat."',
            ),
            ("{A} read it so often that the paper became soft.", "{A} ran through the whole house with it."),
            (
                "They wrote to each other all winter long.",
                "A letter went there, and a letter came back, and each of them smelled a little of salt.",
            ),
            (
                (
                    "{A} learned how to mend nets and what a storm sounds like. In return, {A} told about [snow|the "
                    "mill|the mountains]."
                ),
                "Each of them drew what could be seen from the window.",
            ),
            (
                "{number} years later, {A} travelled down the river, to its very end.",
                "When {A} was grown up, {A.he} took the train to the sea.",
            ),
            (
                "Someone was standing on the pier and held up an old green bottle.",
                "On the pier stood a stranger, and they knew each other at once.",
            ),
            ("@end.ever", "@end.kind", ""),
        ],
    ),
    Plot(
        "piano",
        cast="child",
        beats=[
            "@open",
            (
                "^{C} had a piano, but nobody ever played it.",
                "In the corner of the room stood an old piano, and it was out of tune.",
            ),
            (
                '"Why does nobody play it?" {asked} {A}. "My brother used to play," {said} {C} and said no more.',
                "{A} was not allowed to touch it. \"It was my brother's,\" {C} had once said.",
            ),
            (
                "{S.day}, when nobody was at home, {A} lifted the lid and pressed one key.",
                "{S.day}, {A} could not resist. {A.he} sat down and touched the white keys, very softly.",
            ),
            ("It sounded like a drop that falls into a deep well.", "The sound stayed in the room for a long time."),
            (
                "{from_then}, {A} played in secret, first with one finger and then with two.",
                "Day after day, {A.he} looked for the notes of a song that {A.he} had once heard.",
            ),
            (
                "One evening, {A} did not hear the door. ^{C} stood there with {C.his} coat on.",
                "{A} played, and when {A.he} looked up, {C} was standing beside {A.him}.",
            ),
            ("{A} jumped up and shut the lid.", '"I am sorry," {said} {A}.'),
            (
                '"Go on," {said} {C}. "That was his song."',
                "^{C} said nothing. Then {C.he} sat down on the bench, too, and played the lower part.",
            ),
            (
                "They played until the neighbours leaned out of their windows.",
                "It was not perfect, and two of the keys were stuck, but it was music.",
            ),
            ("The next day, a man came to tune the piano.", "{from_then}, the lid was never closed."),
            ("@end.ever", "@end.home", "@glad"),
        ],
    ),
    Plot(
        "too many cooks",
        cast="adult",
        bind={"trade": "trade"},
        beats=[
            (
                "{A} wanted to cook for the whole street.",
                "For the summer feast, {A} had promised to cook a big pot of soup.",
            ),
            ("{A.he} chopped and stirred from early in the morning.", "At ten o'clock, the pot was on the fire."),
            (
                'Then {D} came by and tasted it. "There is no salt in it," {said} {D.the}, and put in a spoonful.',
                "When {A} went to fetch wood, {D} came by. ^{D.the} tasted the soup and added a pinch of salt.",
            ),
            (
                'Next came {V}. "It needs salt," {said} {V}, and put in two spoonfuls.',
                "After that, {V} came by and thought the same.",
            ),
            (
                "At noon, {B} did it, too, just to be sure.",
                "And when {A} came back, {A.he} could not remember whether {A.he} had salted the soup. So {A.he} did.",
            ),
            (
                "In the evening, they all sat down at a long table.",
                "Then the bell rang, and everyone came with a spoon.",
            ),
            ("They took the first spoonful, and it became very quiet.", "{V} coughed. ^{D.the} reached for the water."),
            (
                '"Who salted it?" {asked} {A}. One hand went up, then another, and then they all went up.',
                '"I only meant well," {said} {V}. "So did I," {said} {B}.',
            ),
            (
                "Then {A} began to laugh, and the others laughed, too.",
                "For a moment, {A} was {angry}. Then {A.he} had to laugh.",
            ),
            (
                "They fetched three more pots, and with a lot of water and potatoes it became soup for the whole town.",
                "They ate bread and cheese and apples, and it was the merriest feast in years.",
            ),
            (
                "{from_then}, there was a sign beside the stove: Ask the cook.",
                "Too many cooks had spoiled the soup, but not the evening.",
            ),
        ],
    ),
)

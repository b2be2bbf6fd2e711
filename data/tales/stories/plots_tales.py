"""Fairy tales: wishes, riddles, giants, gifts, and what became of them."""

from .story import Plot

PLOTS = (
    Plot(
        "three wishes",
        cast="folk",
        bind={"Y": "patient"},
        beats=[
            "@open",
            (
                "{S.day}, {A.he} freed a [fish|bird|hare] from a net.",
                "{S.day}, {A} shared {A.his} last bread with {D}.",
            ),
            (
                '"For that you shall have three wishes," said a voice. "But choose well."',
                'And a voice out of the wind said, "Three wishes are yours."',
            ),
            (
                '"I wish for [a palace|a chest of gold|a table full of food]," {said} {A} without thinking.',
                "The first wish was quickly said: {A.he} wished to be rich.",
            ),
            ("At once, it was there.", "{A.he} had hardly spoken when it came true."),
            (
                "But the gold was heavy, and {A.he} could not sleep for fear of thieves.",
                "Now people came from everywhere and wanted something, and nobody came just to talk.",
            ),
            (
                '"Then I wish to be [clever|wise|beautiful]," {said} {A}.',
                "So {A} made the second wish: {A.he} wished to know everything.",
            ),
            (
                "{A.he} knew all the answers now, but there was nothing left to ask.",
                "But now {A.he} knew what everyone thought, and most of it was not pleasant.",
            ),
            (
                "One wish was left. {A} thought about it for a year.",
                "{A} kept the last wish in {A.his} pocket, so to speak, for a long time.",
            ),
            (
                "Then, one evening, a [blind|lame|sick] old woman stood at the gate.",
                "In a hard winter, a sick child was brought to {A.him}.",
            ),
            (
                '"I wish that you may be well," {said} {A}, and it was so.',
                "{A} did not think long. {A.he} gave the last wish away.",
            ),
            (
                "In that moment, the gold and the wisdom were gone, and {A} was as poor as before.",
                "With that, the magic was at an end.",
            ),
            (
                "But {A.he} slept well that night, for the first time in years.",
                "And strangely, {A} was happier than ever.",
                "Only the last wish had been a good one, and {A} never was sorry for it.",
            ),
        ],
    ),
    Plot(
        "riddle",
        cast="folk",
        beats=[
            (
                "Once upon a time, there was a king who loved riddles more than anything else.",
                "There once was a queen who was so clever that she found nobody to talk to.",
            ),
            (
                (
                    '"Whoever can answer my three questions," said the ruler, "shall have [half my kingdom|a sack of '
                    'gold|a wish]."'
                ),
                "So it was made known in the whole land: three questions, and a great reward.",
            ),
            (
                "Professors came with thick books, and knights with loud voices. They all went home again.",
                "Many clever people came, and none of them knew the answers.",
            ),
            (
                "{S.day}, a {A.kind} named {A} came to the castle.",
                "At last came {A}, a {trait} {A.kind}, who had never read a book.",
            ),
            (
                'The guards laughed. "Let {A.him} in," said the ruler.',
                "{A}'s shoes were muddy, and the servants turned up their noses.",
            ),
            (
                '"[What is faster than the wind|What is quicker than an arrow]?" was the first question. "A thought," '
                '{said} {A}.'
            ),
            (
                '"What gets bigger the more you take away from it?" was the second. "A hole," {said} {A}.',
                '"What has teeth and cannot bite?" was the second. "A comb," {said} {A}.',
                '"What belongs to you, but others use it more than you?" was the second. "My name," {said} {A}.',
            ),
            ("It was quiet in the hall.", "The ruler leaned forward."),
            (
                [
                    '"And what is the best thing in the world?" was the third question.',
                    '"Good company," {said} {A}. "With it, a hut is a palace, and without it, a palace is a hut."',
                ],
                [
                    '"And now tell me," said the ruler, "what am I thinking at this moment?"',
                    (
                        '{A} {smiled}. "You think that I am a fool, and that I have had luck. But you are beginning to '
                        'doubt it."'
                    ),
                ],
            ),
            ("The ruler laughed until the crown slipped.", "Then the ruler stood up and bowed."),
            (
                '"And what do you wish?" "Come and eat with us on Sunday," {said} {A}. "We have {meal}."',
                '"Keep your gold," {said} {A}, "and ask me another one."',
            ),
            (
                "And they asked each other riddles until the candles burned down.",
                "It was the best Sunday in the life of the ruler.",
            ),
        ],
    ),
    Plot(
        "giant",
        cast="folk",
        beats=[
            "@open",
            (
                (
                    "Above the village, on the mountain, lived a giant. At night one could hear him "
                    "[stamp|groan|sigh], and the cups trembled on the shelves."
                ),
                "Everyone was afraid of the giant on the hill.",
            ),
            (
                '"He eats sheep," said the people. "He eats houses," said others.',
                "Nobody had ever seen him, but everyone knew a terrible story about him.",
            ),
            (
                "{S.day}, {A} went up, to see for {A.himself}.",
                '"Has anyone ever asked him what he wants?" {asked} {A}. Nobody had.',
            ),
            (
                "{A.he} took a [loaf of bread|cake|jar of honey] with {A.him}.",
                '"You will not come back," said the people.',
            ),
            (
                "The path was steep, and with every step, {A}'s heart beat faster.",
                "Up there, the footprints were as long as boats.",
            ),
            (
                "The giant sat in front of his cave and wept. His tears ran down the hill as a stream.",
                "In front of a cave sat the giant with his face in his hands.",
            ),
            ('"Why are you crying?" {asked} {A}.', '"{greet}," {said} {A}, as loud as {A.he} could.'),
            (
                [
                    '"I have a thorn in my foot," said the giant, "and my fingers are too thick to pull it out."',
                    (
                        '"Show me," {said} {A}. And with both hands {A.he} pulled and pulled, until {A.he} fell on '
                        '{A.his} back.'
                    ),
                    "The giant laughed with relief, and stones rolled into the valley.",
                    (
                        "{from_then}, the giant carried the heavy trees down for the villagers.",
                        "When it rained hard, he held his hand over the village like a roof.",
                    ),
                ],
                [
                    '"I am so alone," said the giant. "Whenever I go down to say good morning, everyone runs away."',
                    '"You are very loud," {said} {A}. "Try to whisper." And they practised it until the sun went down.',
                    '"{thanks}," whispered the giant, and only a few leaves fell from the trees.',
                    "The next Sunday, the giant came down, very softly, and sat at the end of the table.",
                ],
            ),
            (
                "Nobody told terrible stories any more.",
                'And {A} was asked to tell how {A.he} had dared to go. "I only wanted to know," {A.he} {said}.',
                "Most monsters are only lonely, {A} {thought}.",
            ),
        ],
    ),
    Plot(
        "magic thing",
        cast="folk",
        bind={"X": "thing"},
        beats=[
            "@open",
            (
                '{S.day}, {D} gave {A} a {X}. "Use it only in need," {D.he} said.',
                "From {A.his} [grandmother|godmother|father], {A} had nothing but an old {X}. {X.shine}.",
            ),
            ("{A} did not know that there was magic in it.", "It looked like any other {X.plain}."),
            (
                "But whoever held it and told the truth was heard by all the [birds|animals|winds].",
                "But when one held it tight and thought of home, one could not lose the way.",
            ),
            (
                (
                    "Then, one day, a [wicked|greedy|clever] magician came into the land and stole [the sun|all the "
                    "songs|the colours]."
                ),
                "Then a magician sent a fog over the land, and people lost their way between house and well.",
            ),
            ("Brave men rode out on tall horses. None of them came back.", '"Who will help us?" {asked} the people.'),
            ('"I will try," {said} {A}.', "{A} took the {X.plain} and went."),
            (
                "{A.he} crossed seven mountains and seven rivers.",
                "{A.he} walked for {days}, through forests and over bare hills.",
                "{A.he} slept under trees and ate berries.",
                "@tired",
            ),
            (
                "In a tower made of [glass|black stone|bones of old ships], {A.he} found the magician.",
                "On the highest mountain stood a tower without a door, and in it sat the magician.",
            ),
            (
                (
                    '"What do you want, little one?" asked the magician. "I want back what is ours," {said} {A}, and '
                    'that was the truth.'
                ),
                (
                    '"You are afraid," laughed the magician. "Yes," {said} {A}, and held the {X.plain} tight. "But I '
                    'am here."'
                ),
            ),
            ("Then the {X.plain} began to glow.", "There was a wind, and a ringing, and the walls cracked like ice."),
            (
                "The magician became smaller and smaller, and at last he was only a [mouse|beetle|grey feather].",
                "The tower fell, and the light came back over the hills.",
            ),
            (
                "{A} walked home, and on both sides of the road, the flowers opened.",
                "When {A} came home, the whole village was singing.",
            ),
            (
                "{A.he} hung the {X.plain} on a nail, and there it still hangs.",
                "The {X.plain} never glowed again. It did not have to.",
                "@end.ever",
            ),
        ],
    ),
    Plot(
        "three sisters",
        cast="",
        beats=[
            (
                "Once upon a time, there was a farmer who had three [sons|daughters].",
                "There once was an old miller with three children.",
            ),
            (
                "When the old man felt that he was growing weak, he called them to his bed.",
                '"I am old," the father said one evening. "One of you shall have the house."',
            ),
            (
                '"I will give each of you one coin," he said. "Whoever fills this room with it shall have the farm."',
                '"Here is a penny for each of you. Buy something that fills the whole house."',
            ),
            (
                "The eldest went to town and bought straw. It covered the floor, but no more than that.",
                "The first one bought straw, a whole cart of it, but it did not even reach the windows.",
            ),
            (
                "The second one bought feathers. They flew about for a while, and then they lay in the corners.",
                "The second one bought feathers. When the door opened, they all blew away.",
            ),
            (
                "The youngest came back in the evening with empty hands.",
                "The youngest gave half of the coin to a beggar and came home late.",
            ),
            ('"And what did you buy?" asked the father.', '"Well?" said the two others and laughed.'),
            (
                "The youngest took a candle out of a pocket and lit it.",
                "The youngest set one small candle on the table.",
            ),
            ("And the light filled the room, up to the last corner.", "At once the whole room was full of light."),
            ('"You shall have the farm," said the father.', "The old man smiled. He had known it."),
            (
                "The youngest took the two others in, for the house was large enough.",
                (
                    "And because light does not grow less when it is shared, all three of them stayed and lived there "
                    "together."
                ),
                "They kept the candle for many years, and lit it on the longest night.",
            ),
        ],
    ),
    Plot(
        "dragon",
        cast="folk",
        beats=[
            "@open",
            (
                "In the mountains lived a dragon, and each year it burned a field.",
                "{S.day}, a dragon settled on the hill beside the town.",
            ),
            ("The king sent for knights.", '"Somebody must drive it away," said the mayor.'),
            (
                (
                    "The first knight came back without his horse, the second one without his helmet, and the third "
                    "one did not go at all."
                ),
                "The knights looked at its teeth and remembered that they had other things to do.",
            ),
            ('Then {A} said, "Let me talk to it."', '"Perhaps it is only cold," {said} {A}.'),
            ("People shook their heads, but nobody had a better plan.", '"Talk? To a dragon?" People laughed.'),
            (
                "{A} took a [kettle|warm blanket|pot of soup] and went up.",
                "{A} went up the hill alone, with a [basket|lantern] in {A.his} hand.",
            ),
            "@afraid",
            (
                '"{greet}," {said} {A}. "Why do you burn our fields?"',
                "The dragon opened one eye. It was as large as a window.",
            ),
            (
                '"I have a cold," said the dragon. "Whenever I sneeze, there is fire."',
                '"I do not mean to," said the dragon. "Nobody has ever taught me to aim."',
                '"Because nobody ever invites me," said the dragon.',
            ),
            (
                '"We can do something about that," {said} {A}.',
                "{A} had to laugh, and after a moment the dragon laughed, too, with a little smoke.",
            ),
            (
                "They sat together until the evening and made a plan.",
                "{A} made tea out of herbs, and the dragon drank forty cups.",
            ),
            (
                "{from_then}, the dragon lit the ovens of the bakers every morning.",
                "In winter, it lay in the middle of the town square, and the children leaned on its warm belly.",
                "And when there was a feast, the dragon lit all the lanterns at once.",
            ),
            (
                "Nobody was afraid of it now, except for the knights.",
                '"How did you drive it away?" asked the king. "I did not," {said} {A}. "I invited it in."',
                "@end.ever",
            ),
        ],
    ),
    Plot(
        "shoes that walk",
        cast="folk",
        beats=[
            "@open",
            (
                "{A} was always unhappy with what {A.he} had. Other places, {A.he} {thought}, must be better.",
                '"Here, everything is grey," {A} used to say. "I want to see where the happy people live."',
            ),
            (
                "{S.day}, {A.he} met {D}, who sold {A.him} a pair of old shoes.",
                "{S.day}, {D} gave {A.him} a pair of boots in return for some bread.",
            ),
            (
                '"They walk by themselves," {said} {D.the}. "They will take you to the best place in the world."',
                '"These will carry you to where you are happiest," {said} {D.the}.',
            ),
            ("{A} put them on, and off they went.", "Hardly had {A} tied the laces when {A.his} feet began to run."),
            (
                "They ran through [a city of white towers|a land of snow|a desert of red sand], but they did not stop.",
                (
                    'They went through a city where music came from every window. "Stop!" {cried} {A}, but the shoes '
                    'went on.'
                ),
            ),
            (
                "They climbed a mountain from which one could see the end of the world.",
                "They crossed the sea on a ship with green sails.",
                "They passed a lake as blue as glass, but there, too, they did not stay.",
            ),
            (
                "{A} saw a great deal and met many people. Some were happy, and some were not.",
                "For a year and a day, it went on like this.",
            ),
            (
                "Then the road seemed familiar. There was a bent {tree}, and there was a gate.",
                "Then, one evening, the shoes slowed down. In front of {A.him} stood a house that {A.he} knew.",
            ),
            ("The shoes stopped at {A}'s own door.", "It was {A.his} own house, and there was light in the window."),
            (
                '"You have come back!" {cried} {C} and put down the spoon.',
                "It smelled of soup. Somebody was singing inside.",
            ),
            (
                "{A} took off the shoes and stood on the warm floor with bare feet.",
                "Then {A} understood, and {A.he} laughed until the tears came.",
            ),
            (
                "Some people must walk around the whole world to find their own house.",
                "{A.he} gave the shoes to the next person who was unhappy.",
                "And it was not grey at all. {A.he} had only never looked.",
            ),
        ],
    ),
    Plot(
        "wind and cloud",
        cast="",
        beats=[
            (
                "Long ago, the wind and the sun had a quarrel.",
                "Once, the wind and the sun argued about which of them was stronger.",
            ),
            ('"I can bend trees and sink ships," said the wind.', '"When I come, everyone runs," said the wind.'),
            ('"That is true," said the sun, "but strength is not only noise."', "The sun said nothing and shone."),
            (
                "Below them, a traveller came along the road in a thick coat.",
                "Just then, a man in a grey coat walked over the hill.",
            ),
            (
                '"Let us see who can take his coat from him," said the wind.',
                '"Whoever makes him take off his coat is the stronger one," said the sun.',
            ),
            ("The wind blew with all its might.", "First came the wind. It howled and whistled and tore at the coat."),
            (
                "But the harder it blew, the tighter the man held his coat.",
                "The man turned up his collar and buttoned every button.",
            ),
            ("At last, the wind had no breath left.", '"It cannot be done," said the wind.'),
            (
                "Then the sun came out from behind a cloud, quite gently.",
                "Now it was the sun's turn. It did nothing but shine.",
            ),
            (
                "It grew warm. The man opened the first button, and then the second.",
                "The birds began to sing, and the man wiped his forehead.",
            ),
            (
                "At last he took off the coat and carried it over his arm.",
                "Then he took off the coat, sat down under a {tree}, and fell asleep.",
            ),
            (
                "The wind was silent for a long time.",
                "One often gets further with warmth than with force.",
                '"I see," said the wind, and {from_then}, it was a little gentler, at least in summer.',
            ),
        ],
    ),
    Plot(
        "old tree",
        cast="",
        bind={"T": "tree_word"},
        season="spring",
        beats=[
            (
                "On a hill stood an old {T}. It was so old that nobody knew who had planted it.",
                "There was once a {T} that stood alone in the middle of a field.",
            ),
            (
                "In spring it was full of birds, and in summer it gave shade.",
                "Children climbed in it, lovers cut their names into its bark, and old people rested below it.",
            ),
            ("{S.day}, a man came with an axe.", "Then a young farmer bought the land."),
            (
                '"It takes the light from my field," he said. "It must go."',
                '"The wood will bring good money," he said.',
            ),
            (
                "He lifted the axe. Then he saw a nest with {few} eggs.",
                "When he lifted the axe, a {bird} began to sing.",
            ),
            (
                '"I can wait until they have flown away," he said and went home.',
                "He let the axe sink. It could wait until tomorrow.",
            ),
            (
                "In summer, it was so hot that he ate his bread in the shade of the tree. He could wait until autumn.",
                "At noon he was tired, and he lay down between its roots.",
            ),
            (
                "In autumn, his children came home with their pockets full.",
                "In autumn, a storm came, and the tree kept the wind from his house.",
            ),
            (
                "In winter, he had time to think.",
                "When the first snow fell, he leaned the axe against the wall and looked at the tree.",
            ),
            (
                "It is still standing there today.",
                '"You were here before me," he said, "and you shall be here after me."',
            ),
            (
                (
                    "The man is old now, too. In the evening he sits below it and tells his grandchildren about the "
                    "day when he came with an axe."
                ),
                "And every spring, there is a nest in it.",
                "The axe is rusty now, and beans grow up its handle.",
            ),
        ],
    ),
    Plot(
        "dream city",
        cast="folk",
        beats=[
            "@open",
            (
                "{A} had the same dream three times: under the bridge of the capital, there lay a treasure.",
                "Three nights in a row, {A} dreamed of a pot of gold under a bridge in the capital.",
            ),
            ('"Dreams are foam," said the neighbours.', "{A} tried to forget it, but {A.he} could not."),
            ("So {A} packed some bread and walked to the capital.", "{S.day}, {A} locked the door and set off."),
            "@walk",
            (
                "The capital was so large that {A} asked {few} times for the way.",
                "The capital had towers and wide streets, and there were more people than {A} had ever seen.",
            ),
            (
                "There was the bridge, just as in the dream, but a soldier was standing on it.",
                "For {days}, {A} walked up and down on the bridge and found nothing.",
            ),
            (
                '"What are you looking for?" {asked} the soldier. {A} told him the dream.',
                '"Have you lost something?" {asked} an old soldier. {A} told him everything.',
            ),
            (
                (
                    'The soldier laughed. "If I believed in dreams, I would have to walk to a village, to the house '
                    'of a {A.kind}, and dig behind the stove. I dreamed of that. But I am not so foolish!"'
                ),
                (
                    '"A dream!" laughed the soldier. "I dreamed of a treasure, too, behind the stove of a {A.kind} in '
                    'some village. But did I go there? No!"'
                ),
            ),
            (
                "{A} thanked him and {ran} home as fast as {A.he} could.",
                "{A} bowed politely, turned around, and walked home.",
            ),
            (
                "{A.he} pulled the stove from the wall and dug, and there was the pot of gold.",
                "Behind {A.his} own stove, under a loose stone, lay the treasure.",
            ),
            (
                "{A} built a new bridge with it, and over it {A.he} wrote: Do not laugh at your dreams.",
                "And half of it {A.he} sent to the soldier, with greetings.",
                "Sometimes one has to go far away to learn what lies at home.",
            ),
        ],
    ),
)

"""Plots about animals and nature: fables among animals, children who help an animal, a seed, a nest."""

from .story import Plot

PLOTS = (
    Plot(
        "wounded animal",
        cast="child",
        bind={"Y": "patient", "P": "wild_place"},
        weight=2,
        beats=[
            "@open",
            (
                "{S.day}, {A} found a {Y} {P.in}. It {Y.hurt}.",
                "{S.day}, {A} heard a faint sound. {P.spot}, there was a {Y} that {Y.hurt}.",
                '^{S.day}, {B} came running. "Come quickly!" {B.he} {cried}. A {Y} {Y.hurt}.',
            ),
            (
                "It looked at {A.him} with [dark|wide|round] eyes.",
                "It did not even try to run away.",
                "{A} knelt down and did not move, so as not to frighten it.",
            ),
            (
                '"Do not be afraid," {A} {whispered}. "I will help you."',
                "{A.he} took off {A.his} jacket and wrapped it up carefully.",
                "{A} carried it home under {A.his} coat, and {A.he} could feel its heart beat.",
            ),
            (
                "^{C} [found|fetched] a box and lined it with [hay|an old towel|soft wool].",
                '"We can keep it until it is well," {said} {C}, "but it must be free again."',
                "^{C} knew what to do.",
            ),
            (
                "{A} fed it with {Y.food}.",
                "Every few hours, {A} gave it {Y.food}.",
                "At first it ate nothing. Then it took a little, {Y.food}, from {A.his} hand.",
            ),
            (
                "{A.he} got up at night to look after it.",
                (
                    "{A} gave it no name, for {A.he} knew that it would leave. Or perhaps {A.he} did give it one, in "
                    "secret."
                ),
                "In the evening, {A} sat beside the box and read aloud.",
            ),
            ("It grew stronger day by day.", "After {days}, it was well again.", "Slowly it got better."),
            (
                "Then the time had come to say goodbye.",
                '"It is time," {said} {C}.',
                "{S.day}, {A} carried the box back to the place where it belonged: {Y.home}.",
            ),
            (
                "{A.he} opened the box, and the little animal {Y.free}.",
                "The lid was opened. The little one waited, and then it {Y.free}.",
            ),
            (
                "{A} was sad and glad at the same time.",
                "{A} waved until there was nothing more to see.",
                '"It did not even say thank you," {said} {A}. "Oh yes, it did," {said} {C}. "It is alive."',
            ),
            ("@end.kind", "@end.ever", "@end.home"),
        ],
    ),
    Plot(
        "seed",
        cast="child",
        bind={"Z": "seed"},
        season="spring",
        weight=2,
        beats=[
            "@open",
            (
                "{S.day}, {A} got a {Z} from {C}.",
                "{S.day}, {C} put a {Z} into {A.his} hand.",
                "{S.day}, {A} found a {Z} in the pocket of an old coat.",
            ),
            (
                '"That is all?" {asked} {A}. "Wait and see," {said} {C}.',
                '"A {Z.plant} is sleeping in there," {said} {C}.',
                "It did not look like much.",
            ),
            (
                "{A} dug a hole, laid it in, and covered it with earth.",
                "{A.he} planted it [beside the wall|behind the house|in a big pot], where the sun shone all day.",
            ),
            (
                "{A.he} watered it every day.",
                (
                    "When it was dry, {A} carried water from the [well|stream]. When it was cold, {A.he} covered it "
                    "with straw."
                ),
                "{A.he} pulled out the weeds and drove away the snails.",
            ),
            (
                "Nothing happened.",
                "The first week, nothing happened, and the second week nothing happened either.",
                "Every morning {A} looked, and every morning there was only earth.",
            ),
            (
                '"It is dead," {said} {A}. "It is only working where you cannot see it," {said} {C}.',
                "{A} wanted to dig it up to see what it was doing, but {C} held {A.him} back.",
                "@courage",
            ),
            (
                "Then, after a warm rain, a green tip looked out of the earth.",
                (
                    "One morning, there was a tiny green hook in the earth, and {A} shouted so loud that the hens ran "
                    "away."
                ),
            ),
            (
                "It grew and grew: first two leaves, then four, then too many to count.",
                "Week by week it grew taller, and soon it was taller than {A}.",
                "A storm bent it down, but {A} tied it to a stick.",
            ),
            (
                "{at_last}, there they were: {Z.fruit}.",
                "When the summer was nearly over, it brought {Z.fruit}.",
                "And what did it bring? It brought {Z.fruit}.",
            ),
            (
                "{A} gave some of it to [every neighbour|{B}|{C}].",
                "{A} kept one seed for the next year.",
                "People stopped at the fence to look.",
            ),
            "@end.patience",
        ],
    ),
    Plot(
        "mouse helps bear",
        cast="animal",
        beats=[
            "@open",
            (
                "{S.day}, {A} ran across the paws of a sleeping bear.",
                "{S.day}, by mistake, {A} woke a great brown bear.",
            ),
            (
                '"Who dares to wake me?" growled the bear and held {A.him} fast.',
                "The bear lifted {A.him} up and opened its huge mouth.",
            ),
            "@afraid",
            (
                '"Please let me go," {cried} {A}. "One day I will help you."',
                '"I am only a mouthful," {said} {A}, "but I could be a friend."',
            ),
            (
                (
                    'The bear laughed so loud that the {tree} shook. "You? Help me?" But it was in a good mood and '
                    'let {A.him} go.'
                ),
                "The bear was amused and opened its paw.",
            ),
            (
                "{days} later, a loud roar was heard in the forest.",
                "{S.day}, there was a great noise, and all the animals ran together.",
            ),
            (
                "The bear hung in a net of strong ropes. The more it pulled, the tighter the net became.",
                "The bear had been caught in a net, and it could not get free.",
            ),
            (
                "The big animals [stood around and did not know what to do|ran away in fear].",
                '"Nobody can help me," groaned the bear.',
            ),
            ('Then {A} came. "Keep still," {A.he} {said}.', '"I can," {said} a small voice. It was {A}.'),
            (
                (
                    "{A.he} called all {A.his} brothers and sisters, and they pulled at the knots, the whole night "
                    "through."
                ),
                "{A.he} loosened one knot after another, {slowly}, until the morning came.",
            ),
            ("At sunrise, the bear was free.", "Then the last rope fell, and the bear could stand up."),
            (
                '"I laughed at you," {said} the bear. "I will never do that again."',
                "The bear bowed down, so low that its nose touched the ground.",
            ),
            (
                "{from_then}, the largest and the smallest animal of the forest were friends.",
                "Even the smallest can be a great help to the greatest.",
            ),
        ],
    ),
    Plot(
        "greedy store",
        cast="animal",
        season="autumn",
        beats=[
            "@open",
            (
                "{S.day}, all the animals gathered food for the winter.",
                "Autumn had come, and everyone was collecting nuts and seeds.",
            ),
            (
                "{A} worked from morning to night, until {A.his} store was full to the roof.",
                "Nobody gathered more than {A}.",
            ),
            (
                "{B} the {B.kind} lay in the sun and sang.",
                "But {B} the {B.kind} told stories to the little ones and forgot the time.",
            ),
            (
                '"You should work too," {said} {A}. "Tomorrow," {said} {B}.',
                '"What will you eat in winter?" {asked} {A}. {B} only laughed.',
            ),
            (
                "Then the snow came. It lay so deep that nothing could be found under it.",
                "The first frost came early, and the ground was hard as stone.",
            ),
            (
                "{B} knocked at {A}'s door. {B.he} was thin and cold.",
                "One night, there was a soft knock at the door. Outside stood {B}, trembling.",
            ),
            (
                '"I told you so," {said} {A} and wanted to shut the door.',
                '"Why should I share?" {asked} {A}. "I have worked for it."',
            ),
            (
                "But {A} looked around. The store was full, and the room was silent.",
                "But then {A} saw the snow on {B}'s back and was ashamed.",
            ),
            (
                '"Come in," {A.he} {said} {at_last}. "There is enough for two."',
                "So {A.he} stepped aside and let {B.him} in.",
            ),
            (
                "All winter long, {A} gave of {A.his} food, and {B} told stories and sang.",
                "{B} could not give any nuts, but {B.he} could sing, and the long nights were not so long any more.",
            ),
            (
                '"I never knew how quiet it was here before," {said} {A}.',
                "In spring, they went out together, and {B} learned to work, and {A} learned to rest.",
                "The next autumn, they filled the store together, and sang.",
            ),
        ],
    ),
    Plot(
        "boaster",
        cast="animal",
        season="summer",
        beats=[
            "@open",
            (
                '{A} was always boasting. "I am the [fastest|cleverest|strongest] of all!" {A.he} {cried}.',
                "There was one thing {A} could not do: be silent about {A.himself}.",
            ),
            ("The others were tired of it.", '"Yes, yes," said the others and turned away.'),
            (
                '{S.day}, {C} said, "Let us have a [race|contest]. {B} will run against you."',
                '"Then show us," {said} {B}, who was small and slow. "Let us run to the old {tree}."',
            ),
            ("{A} laughed until {A.his} belly hurt.", '"Against {B.him}?" {cried} {A}. "I could win in my sleep."'),
            ("All the animals came to see it.", "{C} gave the sign, and they started."),
            (
                (
                    "{A} shot ahead like an arrow. Halfway there, {A.he} stopped to [tell the {bird} about it|look at "
                    "{A.himself} in a puddle|eat some berries]."
                ),
                "Soon {A} was so far ahead that {A.he} lay down under a bush.",
            ),
            ("The sun was warm, and {A.his} eyes fell shut.", "{A.he} talked and talked and did not notice the time."),
            ("{B} walked on, step by step, and did not look to the left or to the right.", "But {B} never stopped."),
            (
                "When {A} heard the shouting, it was too late.",
                "{A} jumped up and ran as never before, but it was too late.",
            ),
            ("{B} was already standing under the tree.", "{B} had won, by a nose."),
            (
                '"I was foolish," {said} {A} quietly.',
                "{A} wanted to be angry, but then {A.he} had to laugh at {A.himself}.",
            ),
            (
                "{from_then}, {A} spoke less and listened more.",
                '"It does not matter how fast you are if you do not go on," {said} {C}.',
                "@end.friends",
            ),
        ],
    ),
    Plot(
        "fox and hen",
        cast="",
        beats=[
            ("Once upon a time, a hungry fox came to a farm.", "There was once a fox who had not eaten for {days}."),
            ("On the highest beam of the barn sat an old hen.", "In the {tree} sat a hen, and she did not come down."),
            (
                '"{greet}, dear friend," said the fox. "Come down and let me shake your wing."',
                '"How lovely you sing!" said the fox. "Come nearer, so that I can hear you better."',
            ),
            (
                '"I can hear you very well from here," said the hen.',
                '"I would like to," said the hen, "but my feet hurt today."',
            ),
            (
                (
                    '"Have you not heard the news?" asked the fox. "There is peace among all the animals! Nobody eats '
                    'anybody any more."'
                ),
                '"I have become a good animal," said the fox. "I eat only grass now."',
            ),
            (
                '"How wonderful," said the hen and stretched her neck. She looked into the distance.',
                '"That is good news," said the hen. "Then we can tell the others at once."',
            ),
            (
                (
                    '"What do you see there?" asked the fox. "Oh, just two big dogs," said the hen. "They are coming '
                    'this way. They will be glad to hear of it, too."'
                ),
                (
                    "\"The farmer's dogs are just coming through the gate,\" said the hen. \"You must tell them "
                    "yourself.\""
                ),
            ),
            ("The fox turned and ran.", "At once, the fox was in a great hurry."),
            (
                '"Why are you running?" called the hen. "There is peace!"',
                '"Stay!" cried the hen. "I thought we were all friends now."',
            ),
            (
                '"Perhaps the dogs have not heard about it yet," cried the fox, and was gone.',
                "But the fox was already behind the hill.",
            ),
            (
                "The hen laughed and put her head under her wing. There had been no dogs at all.",
                "And so the trickster had been tricked.",
                "Those who trust every sweet word are soon eaten, thought the hen.",
            ),
        ],
    ),
    Plot(
        "moon in the pond",
        cast="animal",
        beats=[
            "@open",
            ("One night, {A} went to the pond to drink.", "{S.day}, when it was already dark, {A} came past the pond."),
            ("There was the moon, in the middle of the water.", "Something round and white was floating in it."),
            ('"The moon has fallen into the pond!" {cried} {A}.', '"A cheese!" thought {A}. "A whole round cheese!"'),
            ("{A.he} ran to {B} and woke {B.him}.", "{A} {ran} through the night and called all the others."),
            (
                '"We must get it out," {said} {B}.',
                (
                    "They took a [net|rope|long branch] and pulled. The moon broke into a hundred pieces, and when "
                    "the water was calm, it was whole again."
                ),
            ),
            (
                "They fished for it until they were wet and tired.",
                "{A} leaned forward, and then a little more, and fell into the pond with a splash.",
            ),
            (
                "When {A} came up again and shook {A.himself}, {A.he} looked up.",
                'Then {C} came along. "What are you doing there?" asked {C}. "Look up!"',
            ),
            (
                "There was the moon, high in the sky, where it had always been.",
                '"Oh," {said} {A}. There it hung, over the {tree}, round and bright.',
            ),
            (
                '"We saved it!" {cried} {B}. "We pulled so hard that it flew back up."',
                "They all looked at each other, and then they laughed until the frogs complained.",
            ),
            (
                "{A} did not argue.",
                "{A} was wet, but {A.he} was {glad}, too.",
                "{from_then}, {A} looked twice before {A.he} shouted.",
            ),
        ],
    ),
    Plot(
        "first flight",
        cast="",
        bind={"T": "tree_word"},
        season="spring",
        beats=[
            (
                "In a nest high up in a {T} sat [three|four|five] young [swallows|robins|sparrows|thrushes].",
                "Once there were [three|four|five] young birds in a nest in an old {T}.",
            ),
            (
                "The smallest of them was named Pip.",
                "The last one out of the egg was called Tuck, and it was half as big as the others.",
            ),
            ("{S.sky}.", "The days grew warmer, and the nest became too small."),
            (
                '"Today you will fly," said the mother.',
                '"The air will carry you," said the mother. "You only have to trust it."',
            ),
            (
                "The first one jumped and flew. The second one fell a little and then flew, too.",
                "One after another, they hopped onto the edge, spread their wings, and were gone.",
            ),
            ("Only the smallest did not move.", "Only the smallest held fast to the nest."),
            (
                '"It is too high," it said. "My wings are too short."',
                '"I will fly tomorrow," it said. But it had said so yesterday, too.',
            ),
            (
                "The mother did not scold. She sat down on a branch with a fat worm in her beak and waited.",
                "The others called from the next tree.",
            ),
            (
                "Then a gust of wind shook the {T}.",
                "Hunger is a good teacher. The little bird leaned forward, and then a bit more.",
            ),
            (
                "The little bird slipped, fell, and in its fright it opened its wings.",
                "And suddenly there was nothing under its feet but air.",
            ),
            (
                "It did not fall any more. It flew!",
                "It beat its wings, once, twice, and the ground stayed where it was.",
            ),
            (
                "It made a large circle around the tree and landed, not very well, but on both feet.",
                "It flew over the meadow, over the roof, and back again.",
            ),
            (
                '"That was easy," it said. And the mother said nothing, as mothers sometimes do.',
                "In the evening, the nest was empty, and the sky was full of birds.",
                '"Again!" it cried. And it flew until the sun went down.',
            ),
        ],
    ),
)

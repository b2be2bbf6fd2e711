"""Plots about children: things lost and found, skills, fears, friends, gifts."""

from .story import Beat, Plot

LEARN: list[Beat] = [
    "@open",
    (
        "{A} {wanted} to {K}.",
        "More than anything else, {A} wanted to learn {K.ing}.",
        "All the other children could {K}, but {A} could not.",
        '"When I am big, I will {K} better than anyone," {A} liked to say. But {A.he} had never tried.',
    ),
    (
        "{S.day}, {A.he} made up {A.his} mind.",
        '{S.day}, {C} said, "Today we will try it."',
        "{S.day}, {A.he} {began} to practise {K.place}.",
    ),
    (
        "{A} {K.attempt}, but {K.fail}.",
        "{A.he} {K.attempt}. At first, {K.fail}.",
        "Full of hope, {A.he} {K.attempt}. It did not go well: {K.fail}.",
    ),
    ("@sad", "@angry", "Someone laughed. {A} turned red.", '"I will never learn it!" {cried} {A}.'),
    (
        '"How long did it take you?" {A.he} {asked}. "A whole [summer|winter|year]," {said} {C}.',
        "@courage",
        '"{K.ing} is hard for everyone at first," {said} {C}.',
        "That evening, {B} came and showed {A.him} how {B.he} did it.",
    ),
    (
        "So {A} tried again, and again, and once more after that.",
        "The next day {A.he} tried again, and the day after that, too.",
        "{A} practised {often}. Some days were good, and some were not.",
        "{A.he} took a deep breath and began anew.",
    ),
    (
        "Then, one [morning|evening], it [happened|worked].",
        "And then, when {A.he} no longer thought about it, it worked.",
        "{days} later, something was different.",
    ),
    ("{A} {K.succeed}.", "{A.he} {K.attempt}, and this time {A.he} {K.succeed}."),
    ("@praise", "@glad", '"Did you see that?" {A.he} {cried}.'),
    (
        "@end.patience",
        "Now it was {A} who taught the little ones.",
        '"{K.ing} is easy," {said} {A} [proudly|with a grin]. Then {A.he} remembered, and {A.he} {smiled}.',
    ),
]

PLOTS = (
    Plot(
        "lost thing",
        cast="child",
        bind={"X": "thing", "P": "place"},
        beats=[
            "@open",
            (
                (
                    "{A} had a {X}. [{X.shine}|{A.he} had got it from {A.his} aunt|It was not worth much], and {A.he} "
                    "took it everywhere."
                ),
                "Of all the things {A.he} owned, {A} loved {A.his} {X} the most.",
                "{A}'s greatest treasure was a {X}. {X.shine}.",
            ),
            (
                "{S.day}, the {X.plain} was gone.",
                "{S.day}, {A} reached for the {X.plain}, but it was not there.",
                "Then, {S.day_low}, {A.he} could not find it.",
            ),
            "@search",
            ("", "@search"),
            ("@sad", "@think"),
            (
                '"Where did you have it last?" {asked} {C}.',
                '"Think back," {said} {C}. "Where were you yesterday?"',
                (
                    '^{C} [sat down beside {A.him}|put down the newspaper]. "Let us walk through your day again," '
                    '{C.he} said.'
                ),
            ),
            (
                '{A} thought [hard|for a moment]. "I was {P.in}," {A.he} {said}.',
                (
                    "{A} closed {A.his} eyes and saw it all again: {A.he} had been {P.in}, and {A.he} had sat down to "
                    "rest."
                ),
            ),
            (
                "So they went {P.to}.",
                "They put on their coats and went back {P.to}.",
                "{A} {ran} {P.to}, and {C} came after.",
            ),
            ("{P.sight}.", ""),
            (
                "And there, {P.spot}, lay the {X.plain}.",
                "{A} looked [everywhere|left and right], and {at_last} {A.he} saw it: {P.spot} lay the {X.plain}.",
                "Something gleamed {P.spot}. It was the {X.plain}!",
            ),
            ("@glad", "{A} {picked_up} and pressed it to {A.his} heart."),
            (
                "{from_then}, {A} always [looked back|checked {A.his} pockets] before {A.he} left a place.",
                '"Things do not run away," {said} {C}. "They only wait where we left them."',
                "@end.home",
            ),
        ],
    ),
    Plot(
        "found thing",
        cast="child",
        bind={"X": "thing", "P": "place"},
        beats=[
            "@open",
            (
                "{S.day}, {A} found a {X} {P.in}. It lay {P.spot}.",
                "{S.day}, {A.he} went {P.to}, and there, {P.spot}, lay a {X}.",
                "{S.day}, when {A} was {P.in}, {A.he} nearly stepped on a {X}.",
            ),
            ("Nobody was near.", "{A} looked around, but {A.he} saw no one.", "{X.shine}."),
            (
                "{A.he} would have liked to keep it, {X.use}.",
                "How nice it would be {X.use}!",
                '"It could be mine now," {A.he} {thought}.',
            ),
            (
                "But it had to belong to somebody.",
                "But then {A.he} thought of the one who had lost it.",
                '"Somebody is looking for it," {said} {C}. "What would you wish if you were that person?"',
            ),
            (
                "So {A} wrote a note and pinned it to the [fence|old {tree}|door of the shop].",
                "{A} went from house to house and asked.",
                "So {A.he} carried it through the whole [village|street] and asked everyone.",
            ),
            (
                "At the last house, {D} opened the door.",
                "Towards evening, {D} came along the road, looking at the ground.",
                "The next day, {D} knocked at the door.",
            ),
            (
                '"That is mine!" {cried} {D.the}. "My [sister|brother|father] gave it to me many years ago."',
                '"You found it!" {cried} {D.the}. "I thought that it was gone for ever."',
            ),
            (
                "{A} gave the {X.plain} back, and [it was easier than {A.he} had thought|{A.he} was not even sad].",
                "{A} held it out with both hands.",
            ),
            (
                (
                    "As a reward, {A} got [a bag of cherries|a story about the sea|a silver coin|a warm bun], but the "
                    "best of it was {D.the}'s smile."
                ),
                '"Few people are so honest," {said} {D.the}. "Come and visit me."',
                "^{D.the} shook {A.his} hand for a long time.",
            ),
            ("@end.honest", "@end.ever", "@end.kind"),
        ],
    ),
    Plot(
        "learn",
        cast="child",
        bind={"K": "skill"},
        weight=2,
        beats=LEARN,
    ),
    Plot(
        "learn in summer",
        cast="child",
        bind={"K": "summer_skill"},
        season="summer",
        beats=LEARN,
    ),
    Plot(
        "learn in winter",
        cast="child",
        bind={"K": "winter_skill"},
        season="winter",
        beats=LEARN,
    ),
    Plot(
        "fear",
        cast="child",
        bind={"F": "fear"},
        weight=2,
        beats=[
            "@open",
            (
                "{A} was afraid of {F}, because {F.reason}.",
                "There was only one thing that {A} feared, and that was {F}. {F.reason}.",
                "Nobody knew that {A} was afraid of {F}. {F.reason}, and that was enough for {A.him}.",
            ),
            (
                "{A.he} never spoke about it.",
                "The others laughed at {A.him} for it.",
                "Whenever {A.he} could, {A.he} {ran} away from it.",
            ),
            (
                "{S.day}, {A} told {C} about it.",
                "{S.day}, {C} saw how {A} trembled.",
                (
                    '"What is the matter?" {asked} {C} one evening. For a long time {A} said nothing, but then {A.he} '
                    'told everything.'
                ),
            ),
            (
                '^{C} did not laugh. "When I was small, I was afraid too," {C.he} said. "But {F.calm}."',
                '"Do you know what I think?" {said} {C}. "I think that {F.calm}."',
                '"I know that feeling," {said} {C} and took {A.his} hand. "Remember that {F.calm}."',
            ),
            ("{A} was not so sure.", "{A} thought about these words for {days}.", "It sounded easy, but it was not."),
            (
                "{A.he} took one small step, and the next day another one.",
                "First {A.he} only looked, from far away.",
                '"I will try it, but only if you stay near," {said} {A}.',
            ),
            (
                "Then, one {bright} day, {A.he} {F.act}.",
                "{at_last}, {A.he} took a deep breath and {F.act}.",
                "A week later, {A} {F.act}.",
            ),
            (
                "^{A.his} heart [beat like a drum|jumped], but nothing bad happened.",
                "And nothing happened, nothing at all.",
                "It was not half as bad as {A.he} had thought.",
            ),
            ("@praise", "@glad"),
            "@end.courage",
        ],
    ),
    Plot(
        "broken",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, {A} was playing in the house, although {C} had told {A.him} not to.",
                "{S.day}, {A} chased the cat through the kitchen.",
                "{S.day}, {A} was alone at home and threw {A.his} ball against the wall.",
            ),
            (
                (
                    "There was a crash. The [blue vase|big white bowl|old clock|green jug] lay on the floor in a "
                    "[dozen|hundred] pieces."
                ),
                (
                    "It happened very fast: a bump, a crash, and the [blue vase|best teapot|window|painted plate] was "
                    "broken."
                ),
            ),
            "@afraid",
            (
                '"I could say that it was the cat," {A} {thought}.',
                "{A} swept up the pieces and hid them under the [bed|stairs].",
                "Nobody had seen it. {A.he} could simply be silent.",
            ),
            (
                "But {A.he} could not eat, and the evening was very long.",
                "But the secret lay in {A.his} stomach like a stone.",
                "But when {C} came home and {smiled} at {A.him}, {A.he} could not look up.",
            ),
            (
                '"It was me," {A} {whispered} {at_last}. "I am so sorry."',
                '"I have to tell you something," {said} {A}, and then it all came out.',
                "{at_last}, {A} brought the pieces and told the truth.",
            ),
            ("^{C} was silent {moment}.", "^{C} looked at the pieces, and then at {A}.", "^{C} sighed."),
            (
                '"I am sad about it," {C.he} {said}, "but I am glad that you told me."',
                '"Things can be mended," {said} {C}. "It is harder to mend a lie."',
                '"Thank you for telling me," {said} {C}. "Now fetch the glue."',
            ),
            (
                (
                    "Together they glued the pieces until it was late. One could still see the cracks, but {A} liked "
                    "it even more now."
                ),
                "{A} worked in the garden for {days} to pay for it.",
                "They swept the floor, and {C} told {A.him} what {C.he} had broken as a child. It was a long list.",
            ),
            "@end.honest",
        ],
    ),
    Plot(
        "quarrel",
        cast="child",
        bind={"X": "thing"},
        beats=[
            "@open",
            (
                "^{A.his} best friend was {B}, who lived next door.",
                "{A} and {B} were friends, and they met {often}.",
                "Where {A} was, {B} was not far away.",
            ),
            (
                "But {S.day_low}, they quarrelled over a {X}.",
                "But {S.day_low}, both of them wanted the same {X}.",
                "Then, {S.day_low}, {A} broke {B}'s {X}. {A.he} had not meant to.",
            ),
            (
                '"It is mine!" {cried} {A}. "No, mine!" {cried} {B}.',
                '"You always want everything for yourself!" {cried} {B}.',
                '"I do not want to be your friend any more!" {cried} {B}.',
            ),
            (
                "{B} ran home and slammed the door.",
                "They turned their backs to each other and went home.",
                "For {days}, they did not speak a word.",
            ),
            (
                "{A} played alone, but it was dull.",
                (
                    "The house was quiet. {A} looked out of the window and saw {B}, who was looking out of the "
                    "window, too."
                ),
                "{A} told {A.himself} that {A.he} did not care, but it was not true.",
            ),
            (
                '"Who was right?" {asked} {C}. {A} no longer knew.',
                '"It takes only one to make peace," {said} {C}.',
                '"A friend is worth more than a {X.plain}," {said} {C}.',
            ),
            (
                "So {A} took the {X.plain} and carried it over to {B}.",
                "{A} drew a picture of two friends on a hill and pushed it under {B}'s door.",
                "So {A} took half of {A.his} cake and knocked at {B}'s door.",
            ),
            (
                '"I am sorry," {said} {A}. "I am sorry, too," {said} {B}.',
                "The door opened at once, as if {B} had been waiting behind it.",
                '{B} was already standing there. "I was just coming to you," {B.he} said.',
            ),
            ("Then they both had to laugh.", "They sat on the wall until supper and had a lot to tell each other."),
            "@end.friends",
        ],
    ),
    Plot(
        "new child",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, a new {B.child} came to the school. ^{B.his} name was {B}.",
                "{S.day}, a family moved into the empty house across the street. They had a {B.child} named {B}.",
            ),
            (
                "{B} did not speak to anyone.",
                "{B} sat alone in the last row.",
                "{B} stood at the fence and watched the others play.",
                "{B} spoke another language and knew only {few} words of theirs.",
            ),
            (
                '"{B.he} is strange," some of the children said.',
                '"Leave {B.him} alone," the others said. "{B.he} does not want to play."',
                "Nobody asked {B.him} to join in.",
            ),
            (
                "But {A} remembered how it feels to be [new|alone].",
                "{A} saw that {B} was not proud but shy.",
                "{A} noticed that {B} was drawing a {wild} in a notebook, and it was a very good one.",
            ),
            (
                '"{greet}," {said} {A}. "Do you want half of my [apple|bun|sandwich]?"',
                '{A} sat down beside {B.him}. "Can you show me how you do that?" {A.he} {asked}.',
                "{A} did not say anything. {A.he} just rolled the ball to {B}, and {B} rolled it back.",
            ),
            (
                "{B} looked up and {smiled}.",
                '"{yes}," {said} {B} after a while.',
                "{moment}, {B} did not move. Then {B.he} nodded.",
            ),
            (
                (
                    "It turned out that {B} could [do handstands|tell funny stories|fold boats out of paper|imitate "
                    "every bird]."
                ),
                "{B} knew games that nobody had heard of.",
                (
                    "{B} came from a [city with towers|land where it never snows|ship on the river] and could tell of "
                    "it for hours."
                ),
            ),
            (
                "Soon the other children came, too.",
                "The next day, there were five of them, and the day after that ten.",
                "By summer, nobody remembered that {B} had once been new.",
            ),
            "@end.friends",
        ],
    ),
    Plot(
        "visit journey",
        cast="child",
        beats=[
            "@open",
            (
                "{S.day}, {A} was allowed to travel alone for the first time.",
                "{S.day}, {A} went to visit {C}, who lived far away.",
                "A letter had come: {C} wanted to see {A.him}.",
            ),
            (
                "{A.he} packed a [shirt|jumper], a book and {snack}.",
                "{A.he} had a small suitcase and a ticket, which {A.he} held very tight.",
                "^{A.his} suitcase was so heavy that {A.he} had to carry it with both hands.",
            ),
            (
                "The [train|bus|boat] left on time.",
                "The train was full, but {A} found a seat by the window.",
                "With a whistle, the train began to move.",
            ),
            (
                "Fields and villages flew past.",
                (
                    "{A} saw [cows|horses|a castle|a wide river] and [a boy who waved|a man on a ladder|a bridge with "
                    "seven arches]."
                ),
                "They passed through a tunnel, and for a moment everything was black.",
            ),
            ("Opposite sat {D}.", "At the next stop, {D} got in and sat down opposite {A.him}."),
            (
                '"Where are you going?" {asked} {D.the}. "To see my family," {said} {A}.',
                '"Are you not afraid, all alone?" {asked} {D.the}. "A little," {said} {A}.',
            ),
            (
                (
                    "They shared {snack}, and {D.the} told a story about [a storm at sea|a bear that could dance|a "
                    "town under the snow]."
                ),
                "Then they played cards, and {A} won twice.",
                "^{D.the} knew the name of every hill they passed.",
            ),
            ("{soon}, the train stopped.", "The time went by so quickly that {A} almost missed {A.his} station."),
            (
                "^{C} was standing on the platform and waved with both arms.",
                "At first {A.he} saw nobody. Then {A.he} heard {C} call {A.his} name.",
            ),
            (
                '"You have grown," {said} {C}.',
                '"And were you afraid?" {asked} {C}. "Only until the first bridge," {said} {A}.',
                "{A} ran and fell into {C}'s arms.",
            ),
            "@eat",
            ("@end.home", "@end.ever"),
        ],
    ),
    Plot(
        "birthday gift",
        cast="child",
        bind={"G": "gift"},
        weight=2,
        beats=[
            "@open",
            (
                "^{C} was going to have a birthday, and {A} had no money.",
                "In {few} days, it was {C}'s birthday.",
                '"What shall I give {C.my} for {C.his} birthday?" {A} {asked} {B}.',
            ),
            "@think",
            (
                "{A.he} went from shop to shop, but everything was too dear.",
                "A bought gift was too dear for {A.him}.",
                '"The best gifts are not bought," {said} {B}. "Make something."',
            ),
            "@idea",
            (
                "{A.he} would make {G}!",
                "{A.he} took {G.with} and {began} to make {G}.",
                "{A.he} found {G.with}. That was all {A.he} needed for {G}.",
            ),
            (
                "Every evening, in secret, {A.he} {G.made}.",
                "{A.he} {G.made}, and {A.his} tongue stuck out between {A.his} teeth.",
                "{A.he} sat down and {G.made}. The first try went wrong, but the second was better.",
            ),
            (
                "When {C} came in, {A.he} quickly hid it under the [bed|pillow|table].",
                '"What are you doing in there?" {asked} {C}. "Nothing," {said} {A}.',
                "",
            ),
            ("Then the day came.", "On the morning of the birthday, {A} was the first to wake up."),
            ("^{C} untied the string and was silent.", "^{C} held it in both hands and looked at it from all sides."),
            (
                '"You made this yourself?" {C.he} {asked}. {A} nodded.',
                '"It is not perfect," {said} {A}. "It is better than perfect," {said} {C}. "It is from you."',
            ),
            (
                "Of all the gifts, it was given the best place in the house.",
                "^{C} kept it for [ever|many years].",
                "@glad",
            ),
            ("@end.kind", "@end.home", "@end.patience"),
        ],
    ),
    Plot(
        "rain umbrella",
        cast="child",
        season="autumn",
        beats=[
            "@open",
            (
                "{S.day}, it began to rain on the way home from school.",
                "{S.day}, dark clouds came up, and soon the rain was pouring down.",
            ),
            ("{A} had an umbrella. It was large and [red|blue].", "Luckily, {A} had taken {C}'s big umbrella."),
            (
                "Under a tree stood {B}, who was wet to the skin.",
                "At the corner, {A} saw {B}, who had no umbrella and no hat.",
            ),
            (
                "They were not friends. {B} had once [laughed at {A.him}|pushed {A.him} into a puddle].",
                "They had never spoken to each other, although they had sat in the same class for a year.",
            ),
            ("{A} walked on for a few steps. Then {A.he} turned around.", "{moment}, {A} hesitated."),
            (
                '"Come under," {said} {A}. "There is room for two."',
                '"Do you want to share?" {asked} {A} and held the umbrella higher.',
            ),
            ("{B} looked {surprised}. Then {B.he} came.", '"{thanks}," {said} {B} and turned a little red.'),
            (
                "They walked side by side, and the rain drummed over their heads.",
                "Each of them had one wet shoulder.",
                "At first they were silent, but by the bridge they were talking about [books|dogs|the sea|ghosts].",
            ),
            (
                '"I was mean to you," {said} {B} at {B.his} door. "I am sorry."',
                '"It was nice to walk with you," {said} {B} at the door.',
            ),
            (
                "The next day the sun shone, but they walked home together all the same.",
                "The next morning, {B} had kept a seat for {A.him}.",
            ),
            "@end.friends",
        ],
    ),
)

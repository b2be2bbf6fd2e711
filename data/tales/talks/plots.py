"""The plots of stories in conversations. Slots: {A} the hero, {B} the friend, {T} the thing, {CT} with its colour,
{P} the place, {home}, {W} the weather, {part} of the day, {N} a number, {F} food. A beat is a tuple of alternatives;
"?" in front of a beat means that the story may go without it."""

from dataclasses import dataclass

Beat = tuple[str, ...]


@dataclass(frozen=True)
class Plot:
    """verb: past and present of what the hero did with the thing. problem, why, end, lesson: answers to questions."""

    name: str
    verb: tuple[str, str]
    beats: tuple[Beat, ...]
    problem: Beat
    end: Beat
    lesson: Beat
    weight: int = 1


OUT: Beat = (
    "one {W} {part}, {A} went to {P}.",
    "one {W} {part} in {S}, {A} walked to {P}.",
    "it was a {W} {part}, and {A} was on the way to {P}.",
    "one {part}, {A} went to {P}. It was {W}.",
    "on a {W} {part} in {S}, {A.he} set out for {P}.",
)
HOME: Beat = ("?", "{A.he} lived {home}.", "{A} lived {home}.")
EAT: Beat = (
    "?",
    "in the evening, they ate {F} together.",
    "then they shared {F}.",
    "afterwards, they had {F}.",
    "{B} had brought {F}, and they shared it.",
)
MEET: Beat = (
    "there {A.he} met {B}, {B.a}.",
    "on the way, {A.he} met {B.a} named {B}.",
    "a friend came along: {B}, {B.a}.",
    "just then, {B.a} called {B} came by.",
)
FRIENDS: Beat = (
    "?",
    "from that day on, {A} and {B} were friends.",
    "since then, they have been the best of friends.",
    "they promised to meet again soon.",
    "and they laughed about it for a long time.",
)

PLOTS: tuple[Plot, ...] = (
    Plot(
        "find",
        ("found", "find"),
        (
            HOME,
            OUT,
            ("there, {A.he} found {CTa}.", "between the stones, {A.he} found {CTa}.",
             "suddenly, {A} found {CTa} there."),
            ('"Whose {T} is this?" {A.he} asked.', '"Who has lost this?" said {A}.', "{A} wondered whose it was."),
            MEET,
            (
                '"That is my {T}!" said {B}. "I looked for it everywhere."',
                '{B} cried for joy. "My {T}! I lost it yesterday."',
                "the {T} belonged to {B}, who had looked for it for {N} days.",
            ),
            ("{A} gave it back at once.", "{A} gave the {T} back to {B}.", "of course, {A} gave it back."),
            EAT,
            FRIENDS,
        ),
        ("{B} had lost the {T}.", "The {T} belonged to {B}, who had lost it."),
        ("{A} gave the {T} back to {B}.", "{A} gave the {T} back to {B}, and they were friends."),
        ("What you find may be missed by someone.", "Honest people make friends."),
        5,
    ),
    Plot(
        "treasure",
        ("found", "find"),
        (
            HOME,
            ("{A} had an old map.", "{A.his} uncle had left {A.him} a map.", "one {W} {part}, {A} got an old map."),
            ("it showed the way to {P}.", "on the map, there was a cross at {P}.", "the map led to {P}."),
            ('"Will you come with me?" {A.he} asked {B}, {B.a}.', "{A.he} took a friend along: {B}, {B.a}."),
            ("they dug for {N} hours.", "they dug {N} holes.", "they walked for {N} hours and dug a deep hole."),
            ("the ground was hard, and they were tired.", "it was {W}, and they nearly gave up.", "nothing was there."),
            ("at last, they found {CTa}.", "then {A} found {CTa} under a stone.", "under a root, {A.he} found {CTa}."),
            EAT,
            ("they put it on a shelf, where both could see it.", "{A} and {B} shared it fairly.",
             "they gave it to a poor child."),
        ),
        ("They dug for a long time and found nothing at first.", "The ground was hard, and they nearly gave up."),
        ("They found the {T} and were happy.", "{A} and {B} found the {T} in the end."),
        ("Do not give up too early.", "Good things take time."),
        3,
    ),
    Plot(
        "lost",
        ("lost", "lose"),
        (
            HOME,
            ("{A.he} had {CTa} and loved it very much.", "{A.his} greatest joy was {CTa}.",
             "{A.he} always carried {CTa}."),
            ("one {W} {part}, {A} lost the {T}.", "but one {part} in {S}, the {T} was gone. {A} had lost it.",
             "on a {W} {part}, {A.he} lost it."),
            ("{A.he} looked everywhere, but it was not there.", "{A.he} searched for {N} hours.",
             "{A.he} was very sad."),
            MEET,
            ('"I will help you," said {B}.', '"Do not cry," said {B}. "We will look for it."'),
            ("they went to {P}, and there it was.", "they looked in {N} places, and then at {P}. There it lay.",
             "at {P}, {B} saw something shine. It was the {T}!"),
            ("{A} was so glad that {A.he} danced.", '"Thank you!" said {A}.', "{A} hugged {B}."),
            EAT,
            FRIENDS,
        ),
        ("{A} had lost the {T}.", "The {T} was gone."),
        ("{B} helped, and they found the {T} at {P}.", "They found the {T} again at {P}."),
        ("It is good to have a friend who helps.", "Two find more than one."),
        3,
    ),
    Plot(
        "build",
        ("made", "make"),
        (
            HOME,
            ("{A.he} wanted to make {a_T}.", "{A.his} dream was to make {a_T} with {A.his} own hands."),
            OUT,
            ("there {A.he} worked for {N} days.", "{A.he} tried it {N} times.", "it took {A.him} {N} days."),
            ("but it broke again and again.", "but something was always wrong with it.",
             "but the wind broke it to pieces."),
            MEET,
            ('"Let me help," said {B}. "I know how to do it."', "{B} showed {A.him} how to do it.",
             "{B} held one end."),
            ("together, they made {CTa}.", "and in the {part2}, {A} had made {CTa}.",
             "so {A} made {CTa}, and it did not break."),
            EAT,
            ("{A} was proud of it.", "everyone came to look at it.", "it was the finest {T} of all."),
        ),
        ("The {T} broke again and again.", "The {T} always broke."),
        ("{B} helped, and {A} made a fine {T}.", "Together, they made the {T}, and it did not break."),
        ("With help, hard things get easy.", "Keep trying, and ask for help."),
        2,
    ),
    Plot(
        "gift",
        ("brought", "bring"),
        (
            HOME,
            ("{A.his} best friend was {B}, {B.a}.", "{A.he} had a friend named {B}, {B.a}."),
            ("it was the birthday of {B}, and {A} had no present.",
             "{B} was ill in bed, and {A} wanted to bring a present."),
            OUT,
            ("{A.he} looked for {N} hours and found nothing good.",
             "{A.he} looked at {N} things, and all cost too much."),
            ("then {A} saw {CTa}.", "then someone sold {A.him} {CTa} for a song.",
             "there an old woman gave {A.him} {CTa}."),
            ("{A} brought the {T} to {B}.", "{A} ran and brought the {T} to {B}."),
            ('"This is the best present of all," said {B}.', "{B} was so happy that {B.he} cried."),
            EAT,
            FRIENDS,
        ),
        ("{A} had no present for {B}.", "{A} could not find a present for {B}."),
        ("{A} brought the {T} to {B}, and {B} was happy.", "{B} was happy about the {T}."),
        ("A present need not be big.", "It is nice to make a friend happy."),
        2,
    ),
    Plot(
        "dark",
        ("carried", "carry"),
        (
            HOME,
            ("{A.he} was afraid of the dark.", "at night, {A} was always afraid."),
            OUT,
            ("it got dark, and {A} lost the way.", "soon it was night, and {A} did not know the way home.",
             "{A.he} lost {A.his} way and called for help {N} times."),
            ("then {A.he} heard a noise in the bushes.", "two eyes shone between the trees.",
             "something moved behind {A.him}."),
            ("it was only {B}, {B.a}. {B.he} carried {CTa}.", "but it was {B.a} named {B}, who carried {CTa}."),
            ('"Come with me," said {B}. "I know the way."', '"Do not be afraid," said {B}.'),
            ("together, they walked home.", "{B} brought {A.him} home.", "hand in hand, they went home."),
            EAT,
            ("since then, {A} has not been afraid of the dark.", "that night, {A} slept very well."),
        ),
        ("{A} was afraid of the dark and lost the way.", "It got dark, and {A} lost the way."),
        ("{B} brought {A} home.", "{A} and {B} walked home together."),
        ("There is no need to be afraid with a friend.", "The dark is not so bad when you are not alone."),
        2,
    ),
    Plot(
        "stuck",
        ("used", "use"),
        (
            HOME,
            OUT,
            ("there sat {B}, {B.a}, who was stuck in the mud.",
             "there {A.he} heard {B}, {B.a}, who had fallen into a hole.",
             "{B}, {B.a}, was stuck there between two stones."),
            ('"Help me!" cried {B}.', '"I have been here for {N} hours," said {B}.', "{B} was cold and afraid."),
            ("{A} pulled, but it was no use.", "{A.he} was not strong enough.",
             "{A} pulled {N} times, but {B} did not move."),
            ("then {A.he} used {CTa}, and it worked.", "{A.he} ran home for {CTa} and used it to pull {B} out.",
             "so {A} used {CTa}, and {B} was free."),
            ('"You saved me," said {B}.', '"Thank you," said {B}.', "{B} was very thankful."),
            EAT,
            FRIENDS,
        ),
        ("{B} was stuck and needed help.", "{B} could not get out."),
        ("{A} saved {B}.", "{A} used the {T}, and {B} was free again."),
        ("Help others when you can.", "A clever idea is better than strong arms."),
        2,
    ),
    Plot(
        "race",
        ("won", "win"),
        (
            HOME,
            ("there was a race to {P} every {S}.", "every {S}, there was a race to {P}."),
            ("whoever was first would get {CTa}.", "the prize was {CTa}."),
            ("{A} wanted to win, and so did {B}, {B.a}.", "{B}, {B.a}, was much faster than {A}."),
            ("it was a {W} {part}, and {N} runners came.", "{N} runners stood at the start. It was {W}."),
            ("halfway, {B} fell and hurt {B.his} foot.", "{B} was first, but then {B.he} fell."),
            ("{A} stopped and helped {B} up.", "{A} turned back and helped {B.him}."),
            ("they came in last, but together.", "they were the last, and everyone clapped."),
            ("and {A} won the {T} all the same, for being kind.",
             "in the end, {A} won the {T} for {A.his} good heart."),
            EAT,
        ),
        ("{B} fell and hurt {B.his} foot.", "During the race, {B} fell."),
        ("{A} helped {B} and won the {T} for being kind.", "They came in last, but {A} won the {T}."),
        ("Being kind is more than being first.", "Winning is not everything."),
        2,
    ),
    Plot(
        "storm",
        ("saw", "see"),
        (
            HOME,
            OUT,
            ("then a storm began.", "suddenly, there was thunder.", "the wind grew stronger and stronger."),
            ("{A} was wet and cold.", "{A.he} could not go on.",
             "{A.he} walked for {N} hours and could not see the way."),
            ("at last, {A.he} saw {CTa} in front of a door.", "then {A} saw {CTa} in a window, and a light."),
            ("there lived {B}, {B.a}.", "it was the house of {B}, {B.a}.", "{B}, {B.a}, opened the door."),
            ('"Come in," said {B}. "Here it is warm."', '"You can stay here," said {B}.'),
            EAT,
            ("when the storm was over, {A} went home.", "in the morning, the sun shone again.",
             "{A} stayed until the storm was over."),
            FRIENDS,
        ),
        ("There was a storm.", "A storm came, and {A} could not go on."),
        ("{A} stayed with {B} until the storm was over.", "{B} let {A} in, and the storm went by."),
        ("An open door is worth more than gold.", "Be kind to strangers."),
        2,
    ),
    Plot(
        "learn",
        ("got", "get"),
        (
            HOME,
            ("{A.he} wanted to learn to {skill}.", "{A.his} dream was to {skill}."),
            OUT,
            MEET,
            ('"I can teach you to {skill}," said {B}.', '{B} could {skill} very well. "Watch me," said {B.he}.'),
            ("{A} fell {N} times.", "{A} tried it {N} times, and it went wrong.",
             "the first {N} times, it did not work."),
            ('"I will never learn it," said {A}.', '"Once more," said {B}.'),
            ("then, all at once, {A} could {skill}.", "and suddenly it worked: {A} could {skill}!"),
            ("for that, {A} got {CTa} from {B}.", "{B} was proud, and {A} got {CTa} as a prize."),
            EAT,
        ),
        ("{A} could not {skill}.", "{A} wanted to {skill}, and it went wrong."),
        ("{A} learned to {skill}.", "In the end, {A} could {skill}."),
        ("Practice helps.", "Nobody can do it the first time."),
        2,
    ),
    Plot(
        "quarrel",
        ("wanted", "want"),
        (
            HOME,
            ("{A.he} had a neighbour named {B}, {B.a}.", "next door lived {B}, {B.a}."),
            OUT,
            ("there lay {CTa}, and {A} wanted it. {B} wanted it too.", "both of them wanted {CTa} that lay there."),
            ('"It is mine!" said {A}. "No, mine!" said {B}.', "they pulled at it and shouted."),
            ("for {N} days, they did not speak.", "they were angry for {N} days."),
            ("then {A} said, \"I am sorry. You may have it.\"", "then {B} came and said, \"I am sorry.\"",
             "but {A} was lonely and said that {A.he} was sorry."),
            ("now they share the {T}, one day each.", "so they shared the {T}.",
             "they put the {T} between their houses."),
            EAT,
        ),
        ("{A} and {B} both wanted the {T}.", "They quarrelled about the {T}."),
        ("They said sorry and shared the {T}.", "In the end, they shared the {T}."),
        ("It is better to share than to quarrel.", "A friend is worth more than a thing."),
        2,
    ),
)

OPENINGS: Beat = (
    "once upon a time, there was {A.ta} named {A}.",
    "once upon a time, there was {A.ta} called {A}.",
    "there once was {A.ta} named {A}.",
    "long ago, there lived {A.ta} called {A}.",
    "{A} was {A.ta}.",
    "this is the story of {A}, {A.ta}.",
)
OPENINGS_OF_NAME: Beat = (
    "once upon a time, there was someone called {A}.",
    "this is the story of {A}.",
    "long ago, there lived someone named {A}.",
    "there once was a child named {A}.",
)
OPENINGS_OF_TWO: Beat = (
    "once upon a time, there were two {ks} named {A} and {B}.",
    "there once were two {ks}, {A} and {B}.",
    "{A} and {B} were two {ks}.",
)
GO_ON: tuple[Beat, ...] = (
    (
        "the next morning, {A} woke up early and thought of {B}. {A.he} ran to see {B.him}, and they laughed about the "
        "[{part}|day] before.",
        "the next day, {A} went back to {P}, and {B} came along. They sat there and talked until the sun went down.",
        "a week later, {A} and {B} met again. They walked to {P} and told each other stories.",
        "after that, {A} could not sleep. {A.he} looked at the stars and thought of the {T}. "
        "Then {A.he} smiled and slept.",
        "the next day, it rained. {A} and {B} sat at the window, drank tea and looked at the {T}.",
        "some days later, {B} came to visit {A}. They played until it got dark, and {B} stayed for the night.",
    ),
    (
        "and when winter came, {A} and {B} still met every day.",
        "later, {A} told everyone about the {T}, and nobody believed a word. But {B} knew that it was true.",
        "one year later, they went to {P} once more. It looked smaller than before, but they were just as happy.",
        "when {A} was old, {A.he} often told this story, and {B} sat beside {A.him} and nodded.",
    ),
)
NO_MORE: Beat = (
    "That is really the end of this story. [Shall I tell|Would you like] another one?",
    "There is no more to tell about {A}. Would you like a new story?",
    "And there the story ends. Shall I tell another one?",
)
SHORT: tuple[Beat, ...] = (
    ("one {W} {part}, {A.he} {verb} {CTa} at {P}.", "one {part} in {S}, {A.he} {verb} {CTa} near {P}.",
     "at {P}, {A.he} {verb} {CTa}."),
    ("{A.his} friend {B}, {B.a}, was happy about it too.", "{B}, {B.a}, helped {A.him}.",
     "{B}, {B.a}, came to see it."),
    ("then they ate {F} and went to sleep.", "they ate {F}, and that was all.", "and then they both went home.",
     "they have been friends ever since."),
)
SKILLS = ("swim", "sing", "dance", "climb", "read", "whistle", "skate", "ride", "draw", "juggle", "bake", "write",
    "paint")

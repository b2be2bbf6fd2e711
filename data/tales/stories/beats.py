"""Beats that many plots share: openings, weather, feelings, talk, endings. A plot names them with '@'."""

from .story import Beat
from .template import lines

SHARED: dict[str, Beat] = {
    "open": ["@opening", ("", "", "@about")],
    # openings, one kind for each cast; they name A and where A lives
    "opening.child": lines("""
        Once upon a time, there [was|lived] a {trait} {A.kind} named {A} {home.in}.
        Once upon a time, {home.in}, there lived a {A.kind} named {A}.
        Once there was a {trait} little {A.kind} named {A}, and {A.he} lived {home.in}.
        {A} lived with {C} {home.in}.
        {A} was a {trait} {A.kind} who lived {home.in}.
        ^{home.in} lived a {A.kind} [called|named|by the name of] {A}, who was {trait} and {trait}.
        There was once a {A.kind} named {A}. {A.he} was {trait}, and {A.he} lived {home.in}.
        {A} was {few} years older than {A.his} [brother|sister|cousin], and everyone said that {A.he} was a {trait} \
            {A.kind}.
        Everyone [in the village|in the street] knew {A}, the {trait} {A.kind} with the [red cap|long scarf|muddy \
            shoes|loud laugh].
        [Not so long ago|Some years ago|When the roads were still made of sand], a {A.kind} named {A} lived {home.in}.
        A {trait} {A.kind} named {A} lived {home.in}. {A.he} had [a dog|a cat|a hen|a pony|many books|two sisters] and \
            {number} [freckles on {A.his} nose|good friends|secret places].
    """),
    "opening.adult": lines("""
        Once upon a time, there was a {trait} {trade} named {A}, who lived {home.in}.
        {A} was a {trade} {home.in}. From morning to evening, {A.he} {trade.work}.
        There was once a {trade} named {A}, who {trade.work} and was {glad} with that.
        ^{home.in} lived a {trait} {trade} by the name of {A}.
        For many years, {A} had worked as a {trade}. People came from [far away|three villages] for {A.his} \
            {trade.makes}.
        Every morning, before the sun was up, {A} the {trade} went to {trade.place}. {A.he} {trade.work}, and {A.he} \
            sang while {A.he} worked.
        {A} was the best {trade} [in the valley|on the coast|in the whole town], but {A.he} never spoke of it.
    """),
    "opening.animal": lines("""
        Once upon a time, there lived a {trait} {A.kind} named {A} {home.in}.
        Once there was a {A.kind} named {A}. {A.he} lived {home.in} and was as {trait} as a {A.kind} can be.
        ^{home.in} lived a {trait} {A.kind} called {A}.
        {A} was a {A.kind}, and {A.he} lived {home.in}. [All the animals knew {A.him}|{A.he} was small, even for a \
            {A.kind}|{A.he} liked the early morning best].
        Long ago, when the animals could still speak, a {trait} {A.kind} named {A} lived {home.in}.
        There was once a young {A.kind} who lived {home.in}. {A.his} name was {A}, and {A.he} was {trait}.
        {A} the {A.kind} had [a warm bed of leaves|a store full of nuts|a fine view of the stars], and {A.he} lived \
            {home.in}.
    """),
    "opening.folk": lines("""
        Once upon a time, in a [land|kingdom] beyond the [mountains|sea|great forest], there lived a {trait} {A.kind} \
            named {A}.
        Long ago, there was a {trait} {A.kind} whose name was {A}.
        Once upon a time, there was a {A.kind} named {A}, who was [poor but|young and|known to be] {trait}.
        In the days when [wishes still came true|stones could still speak|every hill had its giant], there lived a \
            {A.kind} named {A}.
        Many hundred years ago, a {trait} {A.kind} lived [in a castle by the sea|near the edge of a great forest|in a \
            country of lakes]. {A.his} name was {A}.
        There once was a {A.kind} named {A}, and the people said that nobody was more {trait}.
    """),
    # more about A
    "about.child": lines("""
        {A.he} had [red|dark|fair|curly|short] hair and a gap between the front teeth.
        {A} could whistle louder than anyone else in the street.
        In {A.his} pockets there was always something useful: string, a pencil, a nut.
        {A} liked questions more than answers.
        {A.he} had learned to read early, and {A.he} read everything, even the labels on jars.
        When {A} laughed, one could hear it [in the next house|on the other side of the street].
        {A} collected [feathers|stones|stamps|buttons|words], and there were already {number} boxes of them under \
            {A.his} bed.
        {A.his} hands were [often dirty|never still|quick], and {A.his} knees were always scratched.
        {A} did not speak much, but {A.he} saw everything.
        On Sundays, {A} was allowed to ring the church bell.
        {A} knew every [tree|dog|cat|corner] [in the village|in the neighbourhood] by name.
        Sometimes {A} was so deep in thought that {A.he} did not hear {A.his} own name.
        {A} wanted to be [a captain|an inventor|a doctor|a painter|a baker] one day, or all of these at once.
        {A}'s room was under the roof, and at night {A.he} could see the stars.
        There was no fence that {A} had not climbed.
        {A} sang when {A.he} was happy, and {A.he} hummed when {A.he} was sad.
        {A.his} favourite month was {month}, because {A.his} birthday was in it.
        If there was a puddle somewhere, {A} was sure to find it.
    """),
    "about.adult": lines("""
        {A} had strong hands and a quiet voice.
        {A.he} was not young any more, but {A.he} was not old either.
        In the window stood a pot with a red flower, which {A.he} watered every day.
        {A} knew many stories, but {A.he} told them only when it rained.
        A grey cat kept {A.him} company.
        {A.he} wore the same brown jacket in summer and in winter.
        Children liked to stop at {A.his} window, and {A} let them look.
        {A} rose early, drank a cup of tea, and listened to the birds.
    """),
    "about.animal": lines("""
        {A.his} best friend was the wind, or so {A.he} said.
        {A} could run fast, but {A.he} liked it better to sit and look.
        {A.he} knew every stone and every root for miles around.
        In the evening, {A} sat in front of {A.his} door and counted the stars, up to seven.
        {A} had {few} brothers and {few} sisters, and all of them talked at once.
        Nothing made {A} happier than a [warm|sunny|quiet] day with nothing to do.
        {A} had only one fault: {A.he} could not keep a secret.
        The others sometimes laughed at {A.him}, but they came to {A.him} when they needed help.
    """),
    "about.folk": lines("""
        {A.he} owned nothing but a [coat|horse|knife|fiddle] and a good heart.
        People said that {A.he} had been born on a night when the stars were falling.
        {A} was not tall, and {A} was not strong, but {A.he} had good ears.
        {A.he} never passed a beggar without stopping.
        {A} could speak with the birds, or at least {A.he} tried to.
        There was not much to eat in those days, but there was always enough to share.
    """),
    # the day
    "sky": lines("""
        {S.sky}.
        {S.sky}, and the whole [world|country|place] seemed [new|asleep|to be waiting].
        All around there were {S.plant}.
        One could see {S.plant} [everywhere|along the path|behind every fence].
    """),
    "walk": lines("""
        On the way, {A.he} met [a {wild}|the postman|a woman with a goat|two children on a cart|nobody at all].
        The path led [past|behind|along] [a row of {tree} trees|a white fence|a field of {flowers}|an old stone wall] \
            and over a [narrow|wooden] bridge.
        {A.he} walked [slowly|fast], because [the path was stony|there was so much to see|{A.he} had much to think \
            about].
        It was a long way, but {A.he} sang a song [about a {bird}|about the sea|without words] and did not [mind|get \
            tired].
        While {A.he} walked, a {bird} [sang in the bushes|followed {A.him} from tree to tree].
        {A.he} counted {A.his} steps, but somewhere after [two hundred|a thousand] {A.he} forgot the number.
    """),
    # feelings of A
    "glad": lines("""
        {A} was {glad}.
        {A} felt {glad}.
        {A.he} was so {glad} that {A.he} [jumped into the air|danced around the room|laughed out loud|could not stand \
            still].
        {A}'s face lit up.
        A smile spread over {A}'s face.
        {A.he} had not been so {glad} for a long time.
    """),
    "sad": lines("""
        {A} was {sad}.
        {A} felt {sad} and did not want to [eat|talk|play].
        {A.he} sat down {by_the_door} and said nothing.
        Tears ran down {A}'s cheeks.
        {A.he} went to bed early, but {A.he} could not sleep.
        {A} hung {A.his} head.
    """),
    "angry": lines("""
        {A} was {angry}.
        {A} stamped {A.his} foot.
        {A.he} was angry with {A.himself}, and with the whole world.
        "That is not fair!" {cried} {A}.
    """),
    "afraid": lines("""
        {A} was {afraid}.
        {A}'s heart beat fast.
        {A.his} knees [shook|trembled], and {A.his} hands were cold.
        {A.he} held {A.his} breath and listened.
        {A} wanted to run away, but {A.his} legs would not move.
        {A.he} felt {afraid}, although {A.he} did not say so.
    """),
    "tired": lines("""
        By then, {A} was {tired}.
        {A.his} legs were heavy and {A.his} eyes [nearly fell shut|burned].
        {A} was so {tired} that {A.he} sat down to rest.
        {A.he} was {tired}, but {A.he} did not want to stop.
    """),
    "think": lines("""
        {A} thought about it {moment}.
        {A} scratched {A.his} [head|ear] and thought.
        {A.he} did not know what to do.
        What was {A.he} to do now?
        {A.he} looked [at the sky|at {A.his} feet|out over the land] and thought hard.
        {A} thought about it all [evening|day|the way home].
    """),
    "idea": lines("""
        {suddenly}, {A.he} had an idea.
        Then {A} had an idea.
        Then a thought came to {A.him}.
        After {moment_of} thinking, {A.he} knew what to do.
        All at once, {A} knew what {A.he} had to do.
    """),
    "search": lines("""
        {A} looked [under the bed|behind the stove|in every drawer|under the stairs], but {A.he} found only [dust|an \
            old button|a spider|a dry leaf].
        {A.he} searched {all_around}, but it was not there.
        {A.he} looked once, and {A.he} looked twice, but there was nothing.
        {A.he} asked [the neighbours|everyone {A.he} met], but nobody had seen it.
    """),
    "eat": lines("""
        Then they sat down together and ate {meal}.
        There was {meal} for supper, and nobody [spoke until the plates were empty|was hungry afterwards].
        They shared {meal} and drank {drink}.
        ^{C} put {meal} on the table and poured some {drink}.
    """),
    "time": lines("""
        The [hours|days] went by.
        Time passed.
        {days} went by.
        It took {days}.
        The sun went down and came up again.
        So it went on for {days}.
    """),
    # endings
    "end.home": lines("""
        When {A} came home, [the lamp was already burning in the window|supper was on the table|the first stars were \
            out].
        That evening, {A} told {whom} the whole story, from the beginning to the end.
        {A} went to bed {tired_glad}, and {A.he} slept until the [sun was high|birds woke {A.him}].
        That night, {A} dreamed of [the sea|green hills|a white horse|music|nothing at all], and it was a good dream.
        It had been a long day, and it had been a good one.
    """),
    "end.ever": lines("""
        {from_then}, nothing was quite the same {home.in}.
        And if you [go there|pass by] today, you can still [hear people tell of it|see the place].
        {A} never forgot that day.
        Years later, {A.he} still [told the story|spoke of it|smiled when {A.he} thought of it].
        And that is how it [was|happened], and not otherwise.
        They all lived [happily|in peace] [for many years|until the end of their days].
    """),
    "end.friends": lines("""
        {from_then}, {A} and {B} were the best of friends.
        {from_then}, they [met|played together|helped each other] {often}.
        {A} and {B} [walked home side by side|laughed about it for a long time|shook hands on it].
        "I am glad that I met you," {said} {A}, and {B} {smiled}.
        Since that day, where one of them was, the other was never far away.
    """),
    "end.kind": lines("""
        A kind deed is never lost, {A} {thought}.
        {A} had [learned|seen] that [those who give are not poorer for it|a small kindness can go a long way].
        So one good turn led to another.
        "Kindness costs nothing," {C} liked to say, and now {A} knew that it was true.
    """),
    "end.patience": lines("""
        {A} had learned that [good things take time|those who wait are not always losing time|patience is stronger \
            than haste].
        "You see," {said} {C}, "[good things need time|slow steps also lead to the top|nothing grows faster when you \
            pull at it]."
        It had taken a long time, but that made it all the better.
        Now {A} knew that [a mistake is only the first half of learning|trying again is half of the secret].
    """),
    "end.courage": lines("""
        {A} had learned that being brave does not mean [never being afraid|having no fear].
        "I was afraid," {said} {A}, "but I did it anyway." "That is what courage is," {said} {C}.
        {from_then}, {A} was not so easily frightened.
        The fear had not gone away, but {A} had become [bigger|stronger] than the fear.
    """),
    "end.honest": lines("""
        The truth had been [hard to say|bitter for a moment], but now {A}'s heart was light.
        {A} had learned that the truth is [easier to carry|lighter] than a secret.
        {from_then}, when something went wrong, {A} said so at once.
        "Everyone makes mistakes," {said} {C}, "but not everyone has the courage to say so."
    """),
    "end.work": lines("""
        "Haste is a bad master," {A} liked to say.
        What is made well lasts, and what lasts is cheap.
        And whenever someone was in a hurry, {A} pointed to the old saying above the door: good things take time.
        {A} went back to work, and in the window the lamp burned until late.
    """),
    "end.together": lines("""
        What one could not do alone, they had done together.
        "Many hands make light work," {said} {C}.
        {from_then}, they did all the hard things together.
        Alone, {A} would never have done it, and {A.he} knew that very well.
    """),
    "pause": lines("""
        {B} lay on {B.his} back and looked at the clouds.
        {B} threw a stone into the water and watched the rings.
        {B} thought about it {moment}.
        For a while, they listened to the wind.
    """),
    # what others say
    "praise": lines("""
        "{praise}!" {said} {C}.
        "{praise}," {said} {C} and {smiled}.
        ^{C} put a hand on {A.his} shoulder. "{praise}," {C.he} said.
        "{praise}!" {cried} {B}.
    """),
    "courage": lines("""
        "{courage}," {said} {C}.
        "{courage}!" {cried} {B}.
        "{courage}," {A} told {A.himself}.
    """),
}

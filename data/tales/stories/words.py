"""Pools of words and phrases, by what they say; a slot {name} takes one of the pool of that name."""

from .template import words

POOLS: dict[str, tuple[str, ...]] = {
    # feelings, after "was" or "felt"
    "glad": words(
        "glad, happy, delighted, cheerful, content, very pleased, full of joy"
    ),
    "sad": words("sad, unhappy, downcast, close to tears, heavy-hearted, miserable, sorry, disappointed"),
    "afraid": words("afraid, frightened, scared, uneasy, nervous, anxious, full of worry"),
    "tired": words("tired, weary, worn out, sleepy, exhausted, out of breath, footsore"),
    "angry": words("angry, cross, annoyed, furious, very angry, quite cross"),
    "proud": words("proud, very proud, quietly proud, proud and happy, pleased and proud"),
    "surprised": words("surprised, astonished, amazed, puzzled, startled, taken aback"),
    "hungry": words("hungry, very hungry, cold and hungry, as hungry as a wolf"),
    # traits, before a noun; all may stand for a person or an animal
    "trait": words(
        "kind, curious, clever, brave, gentle, shy, patient, cheerful, quiet, lively, thoughtful, stubborn, playful, "
        "honest,"
        "friendly, careful, bright, merry, sensible, quick, dreamy, lonely, proud, modest, hopeful, generous, restless"
    ),
    # plain adjectives
    "small": words("small, little, tiny, narrow, low, neat"),
    "large": words("large, big, great, huge, broad, enormous"),
    "old": words("old, very old, bent, tired, grey, friendly"),
    "fine": words("fine, lovely, beautiful, splendid, handsome, pretty, wonderful, pleasant"),
    "bright": words("bright, clear, golden, shining, brilliant, silver, warm"),
    "dark": words("dark, gloomy, shadowy, dim"),
    "quiet": words("quiet, still, silent, calm, peaceful, hushed"),
    "cold": words("cold, icy, chilly, bitter, frosty, raw"),
    "colour": words("red, blue, green, yellow, white, brown, grey, black, purple, orange, pink, golden"),
    "strange": words("strange, odd, curious, unusual, mysterious, peculiar"),
    "hard": words("hard, difficult, long and hard, tiring"),
    # manner
    "slowly": words("slowly, carefully, step by step, bit by bit, little by little, steadily, patiently"),
    "quickly": words("quickly, at once, right away, in a hurry, without delay, straight away, as fast as {A.he} could"),
    "suddenly": words("suddenly, all of a sudden, all at once, just then, at that moment, in that very moment"),
    "often": words(
        "often, every day, almost every day, again and again, each morning, every evening, whenever there was time"
    ),
    # verbs of the past tense
    "said": words("said"),
    "asked": words("asked"),
    "cried": words("cried, cried, called, shouted, exclaimed"),
    "whispered": words("whispered, whispered, murmured"),
    "ran": words("ran, hurried, rushed, raced, dashed, sped"),
    "smiled": words("smiled, laughed, grinned, beamed, chuckled"),
    "thought": words("thought, thought to {A.himself}, told {A.himself}, said to {A.himself}"),
    "wanted": words("wanted, wished, longed, hoped, meant"),
    "began": words("began, started"),
    # time
    "soon": words("soon, before long, in no time, after a short while, a little later, not long after that"),
    "later": words(
        "later, a while later, after some time, an hour later, that afternoon, towards evening, before the day was over"
    ),
    "at_last": words("at last, finally, in the end, after a long time, at long last"),
    "next_day": words(
        "the next day, the next morning, the following day, early the next morning, on the following morning"
    ),
    "that_night": words(
        "that night, that evening, when night fell, as the stars came out, when the moon rose, at bedtime"
    ),
    "moment": words("for a moment, for a while, for a little while, for a minute or two"),
    "from_then": words(
        "from that day on, ever since that day, from then on, after that day, since that time, in the weeks that "
        "followed"
    ),
    "days": words("two days, three days, four days, a week, two weeks, many days, several days"),
    "number": words("two, three, four, five, six, seven, eight, nine, ten, twelve"),
    "few": words("two, three, four, five, six"),
    # places of the house and the street
    "by_the_door": words(
        "by the door, at the window, beside the stove, at the kitchen table, on the bench, on the doorstep"
    ),
    "all_around": words("all around, everywhere, far and wide, high and low, in every corner"),
    "far_off": words(
        "far away, in the distance, somewhere behind the trees, beyond the hill, at the end of the valley"
    ),
    # food and drink
    "meal": words(
        "a bowl of soup, a plate of pancakes, bread and cheese, a warm stew, porridge with honey, a slice of apple pie,"
        "fresh bread with butter, baked potatoes, a pot of beans, noodles with butter, an omelette, roasted chestnuts"
    ),
    "snack": words(
        "an apple, a pear, a piece of bread, a bun, some cheese, a handful of nuts, a biscuit, a few plums, a carrot"
    ),
    "drink": words("hot milk, tea, warm cocoa, apple juice, mint tea, cold water from the well, lemonade"),
    "fruits": words("apples, pears, plums, cherries, berries, peaches, grapes, apricots"),
    "vegetables": words("carrots, onions, beans, peas, potatoes, cabbages, tomatoes, turnips, leeks, pumpkins"),
    # growing and living things
    "tree": words(
        "oak, birch, pine, willow, maple, elm, apple tree, chestnut tree, beech, ash, lime tree, cherry tree"
    ),
    "flowers": words(
        "daisies, poppies, roses, violets, tulips, bluebells, cornflowers, lilies, buttercups, sunflowers"
    ),
    "bird": words("robin, blackbird, sparrow, thrush, lark, swallow, finch, magpie, wren, cuckoo"),
    "wild": words("fox, badger, hare, squirrel, hedgehog, deer, otter, owl, weasel, frog"),
    "farm_animal": words("cow, goat, donkey, pony, hen, goose, sheep, duck, pig, horse"),
    "farm_animals": words("cows, goats, donkeys, ponies, hens, geese, sheep, ducks, pigs, horses"),
    # talk
    "yes": words("Yes, Of course, Certainly, Gladly, With pleasure, All right, Very well"),
    "thanks": words("Thank you, Thank you so much, Many thanks, How kind of you, I am so grateful"),
    "exclaim": words("Oh, Look, Goodness, My word"),
    "greet": words("Hello, Good morning, Good day, Welcome, Hello there"),
    "praise": words(
        "Well done, How clever of you, That was good work, I am proud of you, You did that very well, What a fine idea"
    ),
    "courage": words(
        "Do not give up, Try once more, You can do it, Take your time, Have courage, Nobody learns it in a day, Step "
        "by step"
    ),
}

POOLS |= {
    "moment_of": words("a moment of, a long time of, some minutes of"),
    "goal": words("station, harbour, market, library, old mill, park, bakery, hospital, town hall, bridge, lake"),
    "month": words("January, February, March, April, May, June, July, August, September, October, November, December"),
    "whom": words("{A.his} family, {C}, {B}"),
    "tired_glad": words("tired and happy, tired but content, early, with a light heart"),
}
POOLS["picked_up"] = words("picked it up, lifted it up carefully, took it in both hands, wiped it clean")
POOLS |= {
    "number_old": words("seven, eight, nine, ten, eleven, twelve"),
    "gladly": words("gladly, at once, with a smile, without a word, very carefully"),
    "smile": words("smile, laugh, wink, sigh"),
}

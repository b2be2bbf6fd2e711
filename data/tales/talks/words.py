"""Word lists of the conversations: beings, things, places, names. No word of a HELD_OUT list is in another list."""


def words(text: str) -> tuple[str, ...]:
    """The words or phrases of a text between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


ANIMALS = words(
    "fox, bear, wolf, rabbit, hare, mouse, cat, dog, kitten, puppy, duck, goose, hen, rooster, owl, sparrow, robin,"
    "crow,"
    "raven, magpie, swan, stork, heron, eagle, hawk, falcon, pigeon, parrot, penguin, seal, whale, dolphin, shark,"
    "fish,"
    "salmon, goldfish, octopus, crab, snail, turtle, tortoise, frog, toad, lizard, snake, crocodile, dragon, dinosaur,"
    "unicorn, horse, pony, donkey, cow, calf, bull, sheep, lamb, goat, pig, piglet, hedgehog, badger, squirrel, beaver,"
    "otter, mole, weasel, deer, elk, lion, tiger, leopard, panther, elephant, monkey, gorilla, zebra, camel, kangaroo,"
    "koala, panda, bat, bee, butterfly, ant, spider, ladybird, grasshopper, cricket, worm, firefly, moth, dragonfly,"
    "raccoon, chipmunk, hamster, rat, bird, chick, duckling, cub, fawn, colt, foal, cuckoo, woodpecker, swallow, lark,"
    "peacock, turkey, ostrich, seagull, gecko, chameleon, jellyfish, starfish, snowy owl, polar bear, sea horse,"
    "wild boar, mountain goat, field mouse, grey cat, black dog, white horse, baby elephant, little bird, old wolf"
)
PEOPLE = words(
    "girl, boy, child, woman, man, king, queen, prince, princess, knight, farmer, baker, miller, tailor, sailor,"
    "pirate,"
    "captain, fisherman, hunter, shepherd, gardener, teacher, doctor, nurse, painter, singer, dancer, musician, clown,"
    "magician, wizard, witch, fairy, elf, dwarf, giant, ghost, robot, alien, astronaut, pilot, driver, soldier, guard,"
    "thief, detective, inventor, scientist, writer, poet, cook, shoemaker, carpenter, blacksmith, clockmaker, potter,"
    "weaver, postman, policeman, fireman, judge, mayor, monk, merchant, student, grandmother, grandfather, mother,"
    "father, sister, brother, aunt, uncle, baby, friend, neighbour, twin, hero, goblin, troll, mermaid, snowman,"
    "scarecrow, old woman, old man, little girl, little boy, brave knight, sad clown, young witch, lonely giant,"
    "lighthouse keeper, train driver, beekeeper, night watchman, ice skater, bus driver, ferryman, chimney sweep"
)
THINGS = words(
    "boat, ship, key, ring, crown, sword, shield, lamp, lantern, candle, clock, watch, book, letter, map, box, chest,"
    "basket, bag, hat, coat, scarf, shoe, boot, glove, sock, button, needle, mirror, comb, cup, bowl, spoon, knife,"
    "pot,"
    "kite, ball, doll, drum, flute, bell, whistle, violin, balloon, bicycle, cart, wagon, train, car, bus, sledge,"
    "raft,"
    "umbrella, ladder, rope, wheel, door, window, chair, table, bed, blanket, pillow, flag, feather, stone, pebble,"
    "shell,"
    "pearl, diamond, coin, star, moon, cloud, rainbow, snowflake, flower, rose, tree, leaf, seed, apple, pear, pumpkin,"
    "cake, egg, nest, bottle, brush, pencil, picture, puzzle, stick, statue, telescope, teapot, jar, ribbon, chain,"
    "nut,"
    "magic lamp, golden key, old clock, red balloon, toy train, paper boat, treasure, music box, wooden horse, bridge,"
    "rocket, submarine, tractor, carrot, tomato, hammer, bench, fountain, swing, snow globe"
)
PLACES = words(
    "forest, wood, meadow, hill, mountain, valley, river, lake, pond, sea, beach, island, harbour, village, town, city,"
    "castle, tower, palace, cave, garden, orchard, park, farm, barn, mill, market, bakery, school, library, station,"
    "lighthouse, bridge, road, desert, jungle, swamp, cellar, attic, kitchen, church, museum, old mill, dark forest,"
    "deep lake, high mountain, big city, frozen river, empty house, small island, old harbour, green valley, waterfall"
)
TOPICS = words(
    "friendship, love, courage, winter, summer, spring, autumn, snow, rain, the wind, the night, the sun, the stars,"
    "space, magic, kindness, luck, hope, sleep, dreams, time, music, food, honey, soup, Christmas, a birthday, a party,"
    "a picnic, a journey, a long walk, a storm, a race, a secret, a mistake, a promise, going home, being alone,"
    "being brave, school, holidays, a lost ring, growing up, sharing, patience, something nice, something funny,"
    "anything, nothing, a good deed, a bad day, the weather, friends, animals, the first snow, a rainy day, bedtime"
)

WOMEN = words(
    "Mila, Anna, Rosa, Lena, Nora, Ida, Ella, Clara, Emma, Lily, Ruby, Maja, Greta, Hanna, Iris, Julia, Kara, Lucy,"
    "Martha, Nina, Olga, Paula, Sofia, Tilda, Vera, Wilma, Alma, Bella, Daisy, Edith, Flora, Gina, Hazel, Ivy, Jenny,"
    "Lotte, Mara, Nelly, Olive, Pia, Rita, Sara, Tina, Zoe, Amelia, Betty, Carla, Dora, Elsa, Frida, Heidi, Mia, Susie"
)
MEN = words(
    "Otto, Tom, Max, Ben, Emil, Finn, Karl, Leo, Nils, Oscar, Paul, Rolf, Sam, Theo, Viktor, Willi, Anton, Bruno,"
    "Caspar,"
    "David, Erik, Felix, Georg, Hugo, Ivan, Jakob, Kurt, Lars, Milo, Noah, Oliver, Peter, Robin, Simon, Tim, Valentin,"
    "Adam, Bill, Charlie, Dan, Eddie, Frank, Gus, Henry, Jack, Joe, Kilian, Luke, Martin, Ned, Pip, Rudi, Toby, Walter"
)
SYLLABLES_BEGIN = words(
    "b, bl, br, c, ch, d, dr, f, fl, g, gl, gr, h, j, k, l, m, n, p, pl, qu, r, s, sh, sn, st, t, tr, v, w, z, , th, sk"
)
SYLLABLES_MIDDLE = words("a, e, i, o, u, ai, ea, ee, oo, ou, a, e, i, o, u, y")
SYLLABLES_END = words(
    ", b, ck, d, ff, g, l, ll, m, mp, n, nd, ng, nt, p, r, rk, rt, s, sh, st, t, tt, x, zz, , , , r, n, l, t, s"
)
NOUN_ENDS = words(
    "er, le, el, on, in, et, a, o, ow, y, ie, us, ing, ton, ster, ling, fish, bird, berry, rat, pine, man, horn, ine"
)

COLOURS = words("red, blue, green, yellow, white, black, brown, grey, golden, silver, purple, orange, pink")
NUMBERS = words("two, three, four, five, six, seven, eight, nine, ten, twelve")
FOODS = words(
    "soup, pancakes, apple pie, porridge, bread and cheese, honey cakes, hot cocoa, plum cake, cherry pie, stew,"
    "warm milk, berries, noodles, roasted nuts, potato soup, cinnamon buns, waffles, a big salad, jam and bread"
)
# what the sky does: an answer to "what was the weather like?", and the word that a question or an eval looks for
WEATHERS = words("sunny, rainy, windy, snowy, foggy, stormy, cloudy, cold, warm, hot, icy, misty")
TIMES = words("spring, summer, autumn, winter")
PARTS_OF_DAY = words("morning, afternoon, evening, night")
TRAITS = words("small, young, old, clever, shy, brave, kind, curious, lonely, cheerful, quiet, friendly, gentle, lazy")
HOMES = words(
    "in a small house, under an old oak, behind the hill, near the mill, at the end of the road, in a hollow tree,"
    "by the river, at the edge of the town, in a blue tent, above the bakery, next to the church, on a farm,"
    "in a narrow tower, beside a pond, in a red hut, under the bridge"
)

HELD_OUT_ANIMALS = words(
    "walrus, giraffe, flamingo, lobster, iguana, beetle, yak, moose, ferret, pelican, hippo, lynx, wombat, llama,"
    "puffin,"
    "jaguar, tadpole, wasp, rhino, hummingbird"
)
HELD_OUT_PEOPLE = words(
    "plumber, florist, juggler, barber, vampire, librarian, lumberjack, butcher, ninja, cowboy, ballerina, cousin,"
    "zookeeper, violinist, diver, cyclist, nanny, janitor, gnome, beggar"
)
HELD_OUT_THINGS = words(
    "trumpet, kettle, anchor, marble, hammock, cookie, pocket watch, wallet, guitar, necklace, broom, compass, helmet,"
    "skateboard, lemon, mushroom, suitcase, thimble, saddle, pinecone"
)
HELD_OUT_PLACES = words("canyon, bazaar, greenhouse, airport, vineyard, volcano, monastery, theatre, stable, glacier")
HELD_OUT_WOMEN = words("Zelda, Priya, Ottilie, Yuki, Fatima, Bridget, Wanda, Xenia, Thea, Marisol, Agnes, Noemi")
HELD_OUT_MEN = words("Boris, Dexter, Quentin, Ahmed, Fergus, Gideon, Hiro, Jasper, Ulrich, Wendell, Alfonso, Barnaby")

"""Everything a text may be: all plots, tables and pools, and how one text is made of them."""

from . import (
    facts,
    kinds,
    plain,
    plots_adventures,
    plots_home,
    plots_nature,
    plots_tales,
    plots_town,
    plots_work,
    scenes,
    world,
)
from .beats import SHARED
from .cast import company
from .rng import Rng
from .story import Plot, Story
from .template import Entity
from .words import POOLS

STORIES: tuple[Plot, ...] = (
    *plots_home.PLOTS,
    *plots_adventures.PLOTS,
    *plots_nature.PLOTS,
    *plots_work.PLOTS,
    *plots_town.PLOTS,
    *plots_tales.PLOTS,
)
OTHERS: tuple[Plot, ...] = (*scenes.PLOTS, *facts.PLOTS, *kinds.PLOTS, *plain.PLOTS)
PLOTS = STORIES + OTHERS
# Each plot as often as it weighs; stories, three times as often, are some two thirds of the words.
WEIGHTED = tuple(plot for plot in STORIES * 3 + OTHERS for _ in range(plot.weight))
TABLES: dict[str, tuple[Entity, ...]] = {
    **world.TABLES,
    **facts.TABLES,
    **kinds.TABLES,
    **plain.TABLES,
    **scenes.TABLES,
    "tree_word": tuple(Entity({"": tree}) for tree in POOLS["tree"]),
}


def seasons_of(plot: Plot) -> tuple[str, ...]:
    """The seasons in which a plot may happen: places are described without snow."""
    if plot.season:
        return (plot.season,)
    outside = {"place", "wild_place"} & set(plot.bind.values())
    return ("spring", "summer", "autumn") if outside else ("spring", "summer", "autumn", "winter")


def tell(rng: Rng, plot: Plot) -> str:
    """One text of the plot's shape: paragraphs parted by line breaks."""
    story = Story(rng, POOLS, SHARED, plot.cast)
    story.bind("S", tuple(season for season in TABLES["season"] if season.name in seasons_of(plot)))
    if plot.cast:
        for slot, who in company(rng, plot.cast).items():
            story.bind(slot, (who,))
        story.bind("home", TABLES["den" if plot.cast == "animal" else "home"])
    for slot, name in plot.bind.items():
        story.bind(slot, TABLES[name])
    story.play(plot.beats)
    return story.text()

"""The generator's own random numbers, so that a seed gives the same text under every version of Python."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
MASK = (1 << 64) - 1


class Rng:
    """SplitMix64 (Steele, Lea and Flood 2014): 64 bits of state, one addition and one mix for each number."""

    def __init__(self, seed: int) -> None:
        self.state = seed & MASK

    def bits(self) -> int:
        """The next 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """A number of 0 to n - 1; the bias is below n / 2^64."""
        return (self.bits() * n) >> 64

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, each equally likely; there must be at least one."""
        return items[self.below(len(items))]

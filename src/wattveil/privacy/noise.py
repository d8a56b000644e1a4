"""The only module that draws random numbers for a release.

Discrete Gaussian noise comes from OpenDP, whose sampler is exact: integer arithmetic, no floating
point between the random bits and the number. Its bits come from OpenSSL's generator, which the
operating system seeds. Uniform choices and Bernoulli draws take words from the operating system's
generator itself, with exact rational probabilities.

The system's noise has no seed. Tests and the replay audit install another source with `simulate`;
values drawn from it are marked, and `Released.publish` refuses them.
"""

import hmac
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidParameterError

LARGEST_SCALE = 2.0**48
"""Keeps the int64 limits, where OpenDP saturates, 2^15 scales away: below e^(-2^29) per draw."""


class NoiseSource:
    """The system's noise source: OpenDP's sampler, and random words of the operating system.

    Noise sources of tests and of the replay audit override its methods.
    """

    is_genuine = False
    """Whether all noise is the system's; draws of any other source cannot be published."""

    def discrete_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        """Draw integers k with probability proportional to exp(-k^2 / (2 scale^2))."""
        return np.asarray(_opendp_gaussian(scale)(np.zeros(size, dtype=np.int64)), dtype=np.int64)

    def add_discrete_gaussian(self, exact: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Return exact integers plus independent discrete Gaussian noise."""
        return exact + self.discrete_gaussian(scale, exact.size)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draw uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def _opendp_gaussian(scale: float) -> Callable[[NDArray[np.int64]], list[int]]:
    """Return OpenDP's mechanism; loaded when noise is drawn, since `verify` draws none."""
    from opendp import domains, measurements, metrics, mod  # noqa: PLC0415 - extra `release`

    # make_gaussian has a proof, yet OpenDP requires this flag for every constructor.
    mod.enable_features("contrib")
    integers = domains.vector_domain(domains.atom_domain(T="i64"))
    return measurements.make_gaussian(integers, metrics.l2_distance(T="i64"), scale)


_SYSTEM = NoiseSource()
_SYSTEM.is_genuine = True
_source: ContextVar[NoiseSource] = ContextVar("noise source", default=_SYSTEM)


@contextmanager
def simulate(source: NoiseSource) -> Iterator[None]:
    """Draw from another source inside the block; nothing drawn there can be published."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def is_simulated() -> bool:
    """Whether noise is drawn from a source other than the system's."""
    return not _source.get().is_genuine


def add_discrete_gaussian(exact: NDArray[np.int64], *, scale: float) -> NDArray[np.int64]:
    """Return exact integers plus independent discrete Gaussian noise of this scale, in steps.

    The sum wraps at 2^63 like any int64: still a function of the noisy sum.
    """
    noisy = _source.get().add_discrete_gaussian(exact, check_scale(scale))
    noisy.setflags(write=False)
    return noisy


def uniform_below(*, bound: int, size: int) -> NDArray[np.int64]:
    """Draw independent uniform integers in [0, bound), exactly, for bound up to 2^63."""
    bound = checks.integer("bound", bound, minimum=1, maximum=2**63)
    # Words at or above the largest multiple of bound would favour small residues: draw again.
    last_fair = np.uint64(2**64 - 2**64 % bound - 1)
    words = _source.get().words(size).copy()
    while (unfair := words > last_fair).any():
        words[unfair] = _source.get().words(int(unfair.sum()))
    return (words % np.uint64(bound)).astype(np.int64)


def keyed_below(names: Iterable[str], *, key: bytes, bound: int) -> NDArray[np.int64]:
    """Return an integer in [0, bound) for each name: the same in every call with this key.

    The last word of HMAC-SHA256 of the name, for a bound that divides 2^64: without
    the key, computationally indistinguishable from draws of `uniform_below`.
    """
    codes = [name.encode("utf-8", "surrogatepass") for name in names]
    digests = b"".join(hmac.digest(key, code, "sha256")[-8:] for code in codes)
    return (np.frombuffer(digests, dtype="<u8") % np.uint64(bound)).astype(np.int64)


def fresh_bytes(size: int) -> bytes:
    """Draw a key that authenticates a computation; it is never part of a release."""
    return os.urandom(size)


def bernoulli(*, probability: Fraction, size: int) -> NDArray[np.bool_]:
    """Draw independent Bernoulli variables with exactly this rational probability."""
    checks.integer("numerator", probability.numerator, minimum=0, maximum=probability.denominator)
    return uniform_below(bound=probability.denominator, size=size) < probability.numerator


def check_scale(scale: float) -> float:
    """Accept a scale that draws noise: 0 would publish the data, too large would saturate."""
    if not 0.0 < scale <= LARGEST_SCALE:
        raise InvalidParameterError("scale", f"above 0 and at most {LARGEST_SCALE}", scale)
    return float(scale)

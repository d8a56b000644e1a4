"""The face of the package: its names, their documentation, the examples in them, and no seed."""

import doctest
import importlib
import inspect
import pkgutil
import rlcompleter
from collections.abc import Iterator
from types import FunctionType, ModuleType

import pytest

import wattveil

MODULES = [
    "wattveil",
    *(module.name for module in pkgutil.walk_packages(wattveil.__path__, "wattveil.")),
]
SEEDS = {"seed", "random_state", "rng", "generator", "random_seed", "bit_generator"}


def test_every_public_name_is_listed() -> None:
    """`__all__` is what a user sees in the namespace, no more and no less, sorted, 25 at most."""
    visible = {
        name
        for name in dir(wattveil)
        if not name.startswith("_") and not isinstance(getattr(wattveil, name), ModuleType)
    }
    assert set(wattveil.__all__) == visible
    assert wattveil.__all__ == sorted(set(wattveil.__all__))
    assert len(wattveil.__all__) <= 25


@pytest.mark.parametrize("name", wattveil.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    """Each public name has a docstring of its own, and each public method of it has one too."""
    value = getattr(wattveil, name)
    assert (value.__doc__ or "").strip()
    for attribute, member in vars(value).items():
        if isinstance(member, FunctionType | property) and not attribute.startswith("_"):
            assert (member.__doc__ or "").strip(), attribute


def test_a_name_is_the_one_its_module_has() -> None:
    """A name loaded late is what its module calls so; what is no name is refused as usual."""
    for name in wattveil.__all__:
        assert getattr(wattveil, name).__name__ == name
    with pytest.raises(AttributeError, match="'wattveil' has no attribute 'seed'"):
        getattr(wattveil, "seed")  # noqa: B009 - mypy would refuse wattveil.seed


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    """Every example in a docstring gives what it says."""
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples() -> None:
    """The test above looks at something: package, kernel and simulator have examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {
        name
        for name in MODULES
        if any(test.examples for test in finder.find(importlib.import_module(name)))
    }
    assert {"wattveil", "wattveil.privacy.accounting", "wattveil.simulate"} <= found


def test_no_seed_reaches_the_noise() -> None:
    """No function or method of the package has a parameter through which noise could be fixed."""
    seeded = {
        f"{function.__module__}.{function.__qualname__}"
        for function in functions()
        if SEEDS & set(inspect.signature(function).parameters)
    }
    # Simulated homes; baselines and figures, which are never published.
    free = ("wattveil.simulate.", "wattveil.lab.baselines.", "wattveil.lab.reproduce.")
    assert {name for name in seeded if not name.startswith(free)} == {
        "wattveil.numerics.kmeans.lloyd._plus_plus_start",  # the starts of K-means, a public choice
        "wattveil.numerics.kmeans.lloyd.k_means",
        "wattveil.cli.attack.copy",  # who is a member, and planted outliers
        "wattveil.lab.audit.release_audit.audit_release",  # which canaries are in
        "wattveil.cli.audit.audit",  # the same
        "wattveil.lab.audit.intruder_record.intruder_record",  # who is a member
        "wattveil.lab.audit.intruder_record._copy_attacks",  # the same
        "wattveil.lab.audit.replay_audit._observe",  # a run of the audit: it cannot be published
        "wattveil.privacy.transcript.record",
        "wattveil.privacy.transcript._SeededNoise.__init__",
        "wattveil.lab.audit.replay_audit.replay_audit",
        "wattveil.lab.audit.replay_audit.replay_release",
        "wattveil.cli.audit._replay",
        "wattveil.cli.audit._show_replay",
        "wattveil.lab.seeded_draws.RandomAssignment.__init__",  # the same
        "wattveil.lab.evaluation.fidelity_comparison._RandomSplits.draw",  # random halves
        "wattveil.lab.evaluation.fidelity_comparison.evaluate_load",  # the same
        "wattveil.cli.evaluate.evaluate",  # the same
        "wattveil.lab.evaluation.load_summary.load_summary",  # bootstrap samples
        "wattveil.lab.evaluation.load_summary._quantities",
        "wattveil.lab.evaluation.load_summary._resampled",
        "wattveil.lab.seeded_draws.shuffled_rows",  # random halves
        "wattveil.lab.seeded_draws.named_generator",  # draws of figures of the paper
        "wattveil.cli.compare.compare",  # baselines are never published
        "wattveil.cli.data.simulate",  # simulated homes
        "wattveil.cli.data.write_readings",
        "wattveil.cli.evaluate.grid",  # who stands at which bus
        "wattveil.grid.placement.CustomerSampler.__init__",  # the same
        "wattveil.grid.experiment._centroids",  # the starts of K-means
        "wattveil.grid.experiment.compare_on_feeder",  # who stands at which bus
        "wattveil.products.clusters._simulated_homes",
        "wattveil.products.clusters.simulated_rows",  # simulated homes
        "wattveil.release.synthetic.LoadSynthesizer.sample",  # from what is released
        "wattveil.numerics.synthesis.population_model.SyntheticModel._cluster_batch",
        "wattveil.numerics.synthesis.population_model.SyntheticModel._draw",
        "wattveil.numerics.synthesis.population_model.SyntheticModel.batch",
        "wattveil.numerics.synthesis.population_model.SyntheticModel.batches",
        "wattveil.numerics.synthesis.population_model.SyntheticModel.sample",
        "wattveil.numerics.synthesis.population_model.known_random_state",
        "wattveil.release.synthetic.YearSynthesizer.sample",
        "wattveil.numerics.synthesis.customer_traits._scores",
        "wattveil.numerics.synthesis.customer_traits.draw_bases",
        "wattveil.numerics.synthesis.customer_traits.draw_habits",
        "wattveil.numerics.synthesis.customer_traits.draw_spreads",
        "wattveil.numerics.synthesis.customer_traits.draw_unevenness",
        "wattveil.numerics.synthesis.year_model.YearModel._draw",
        "wattveil.numerics.synthesis.year_model.YearModel.batches",
        "wattveil.numerics.synthesis.year_model.YearModel.sample",
        "wattveil.release.instance.LeaveOneOutKMeans.__init__",  # the same
        "wattveil.cli.bundles.synthesize",  # draws from a released model, as do the others
        "wattveil.bundle.customer_files.write_customers",
        "wattveil.bundle.customer_files._days_drawn",
        "wattveil.bundle.year_samples.YearSample.drawn",
        "wattveil.bundle.customer_files._origin",  # states it
    }


def functions() -> Iterator[FunctionType]:
    """Yield every function and method that the package defines."""
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            if getattr(value, "__module__", None) != name:
                continue
            if isinstance(function := getattr(value, "__wrapped__", value), FunctionType):
                yield function  # also behind a cache
            elif isinstance(value, type):
                for member in vars(value).values():
                    plain = inspect.unwrap(getattr(member, "__func__", member))
                    if isinstance(plain, FunctionType):
                        yield plain


def test_dir_shows_the_public_names_alone() -> None:
    """Tab completion offers public names, also those that are not loaded yet."""
    assert set(dir(wattveil)) == {*wattveil.__all__, *wattveil._SUBMODULES}
    for name in wattveil._SUBMODULES:
        module = getattr(wattveil, name)
        assert isinstance(module, ModuleType)
        public = getattr(module, "__all__", None) or [
            kind.__name__
            for kind in vars(module).values()
            if isinstance(kind, type) and kind.__module__ == module.__name__
        ]
        assert sorted(dir(module)) == sorted(public)
    found = rlcompleter.Completer({"wattveil": wattveil})
    assert found.complete("wattveil.load_sh", 0) == "wattveil.load_shapes("
    assert found.complete("wattveil.simulate.simulate_k", 0) == "wattveil.simulate.simulate_kwh("
    assert found.complete("wattveil.import", 0) is None

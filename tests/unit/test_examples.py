"""The worked examples in docstrings are true."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import prover.credit

MODULES = [
    "bench.household.studies",
    *sorted(module.name for module in pkgutil.iter_modules(prover.credit.__path__, "prover.credit.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_functions_on_figures_are_true(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples_to_try() -> None:
    assert sum(doctest.testmod(import_module(name)).attempted for name in MODULES) > 10

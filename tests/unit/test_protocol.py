"""Which processes may work on which analyses: every option has a first protocol."""

from dataclasses import fields

import pytest

from prover.analysis import Options
from prover.protocol import FIRST_OPTIONS, PROTOCOL, NewerAnalysis, check_protocol, later_options, needed_for


def test_every_option_is_one_of_the_first_or_has_a_protocol_of_its_own() -> None:
    names = {field.name for field in fields(Options)}
    assert names == FIRST_OPTIONS | later_options()
    assert not FIRST_OPTIONS & later_options()


def test_an_analysis_that_asks_for_nothing_new_needs_the_first_protocol() -> None:
    assert needed_for(Options()) == 1


def test_what_this_release_speaks_it_works_on_and_nothing_later() -> None:
    for needed in range(1, PROTOCOL + 1):
        check_protocol(needed)
    with pytest.raises(NewerAnalysis, match=f"needs {PROTOCOL + 1}, this process speaks {PROTOCOL}; expected"):
        check_protocol(PROTOCOL + 1)

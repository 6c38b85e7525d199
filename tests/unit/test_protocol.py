"""Which processes may work on which analyses: every option has a first protocol."""

import json
from dataclasses import fields

import pytest

from prover.analysis import Options
from prover.credit.modes import mode
from prover.protocol import FIRST_OPTIONS, PROTOCOL, NewerAnalysis, check_protocol, later_options, needed_for
from prover.store.encoding import analysis, encode


def test_every_option_is_one_of_the_first_or_has_a_protocol_of_its_own() -> None:
    names = {field.name for field in fields(Options)}
    assert names == FIRST_OPTIONS | later_options()
    assert not FIRST_OPTIONS & later_options()


def test_an_analysis_that_asks_for_nothing_new_needs_the_first_protocol() -> None:
    assert needed_for(Options()) == 1


def test_a_later_option_needs_its_protocol_only_where_it_is_not_as_always() -> None:
    assert needed_for(Options(audited_share=0.25)) == 1
    assert needed_for(Options(audited_share=0.5)) == 2
    assert PROTOCOL >= 2


def test_a_record_that_does_not_name_a_later_option_means_what_was_always_done() -> None:
    earlier = json.loads(encode("options", Options(mode="audited")))
    del earlier["audited_share"]
    record = {
        "status": "queued",
        "options": json.dumps(earlier),
        "policy_version": "v0",
        "created_at": "0",
        "updated_at": "0",
        "attempts": "0",
    }
    options = analysis("a1", record).options
    assert options == Options(mode="audited")
    assert mode("audited", audited_share=options.audited_share) == mode("audited")


def test_what_this_release_speaks_it_works_on_and_nothing_later() -> None:
    for needed in range(1, PROTOCOL + 1):
        check_protocol(needed)
    with pytest.raises(NewerAnalysis, match=f"needs {PROTOCOL + 1}, this process speaks {PROTOCOL}; expected"):
        check_protocol(PROTOCOL + 1)

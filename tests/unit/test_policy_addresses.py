"""The setting that says where policy engines are."""

import pytest

from prover.policies.addresses import parse_addresses


def test_names_and_addresses_are_read_in_order() -> None:
    text = "embedded=http://127.0.0.1:8001,vllm=https://gpu:8000/v/"
    assert list(parse_addresses(text).items()) == [
        ("embedded", "http://127.0.0.1:8001"),
        ("vllm", "https://gpu:8000/v"),
    ]


@pytest.mark.parametrize("text", ["", " , ", "http://127.0.0.1:8001", "=http://a:1", "a=ftp://b:1", "a=http://"])
def test_what_is_no_address_is_shown_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_addresses(text)


def test_a_name_may_not_stand_twice() -> None:
    with pytest.raises(ValueError, match="'a' stands twice"):
        parse_addresses("a=http://b:1,a=http://c:1")

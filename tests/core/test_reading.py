"""TOML from outside: what Python takes and could not handle is refused at the border."""

import pytest

from core.errors import SpecError
from core.reading import toml_of


def test_integers_of_64_bits_are_read() -> None:
    assert toml_of(b"a = 9223372036854775807\nb = [[-9223372036854775808]]\nc.d = 0x7f\n", "x.toml") == {
        "a": 2**63 - 1,
        "b": [[-(2**63)]],
        "c": {"d": 127},
    }


@pytest.mark.parametrize(
    "text", ["a = 9223372036854775808", "a.b = [1, {c = -9999999999999999999}]", f"[[a]]\nb = 0x{'1' * 5000}"]
)
def test_wider_ones_are_told_in_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"^x\.toml: .*an integer of more than 64 bits; mend the TOML$"):
        toml_of(text.encode(), "x.toml")

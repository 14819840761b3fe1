import pytest

from core.errors import SpecError
from systems.parts.options import choice, span_ns


@pytest.mark.parametrize(
    ("text", "least", "expected"),
    [("300ms", "1ns", 300_000_000), ("1ns", "1ns", 1), ("0s", "0", 0), ("2s", "2000ms", 2_000_000_000)],
)
def test_spans(text: str, least: str, expected: int) -> None:
    assert span_ns("leases", "refresh", text, least) == expected


@pytest.mark.parametrize(
    ("text", "least"), [("soon", "1ns"), ("soon", "0"), ("300", "1ns"), ("0s", "1ns"), ("-1s", "0"), ("1s", "2s")]
)
def test_a_bad_span_is_named_with_its_system_and_the_fix(text: str, least: str) -> None:
    with pytest.raises(SpecError, match=f"^leases: refresh = '{text}'") as caught:
        span_ns("leases", "refresh", text, least)
    assert caught.value.fix.startswith("give a span")


def test_choices() -> None:
    assert choice("leases", "share", "fair", ("fair", "equal")) == "fair"
    with pytest.raises(SpecError, match=r"^leases: share = 'fare'; did you mean 'fair'\? known: equal, fair$"):
        choice("leases", "share", "fare", iter(("fair", "equal")))

"""The numbers of the ePulsar paper that figures use are those of its digest."""

import re
from pathlib import Path

import pytest

from paper_figs.epulsar import published
from paper_figs.epulsar.published import PRINTED, Printed

DIGEST = Path(__file__).resolve().parents[2].parent / "shared" / "papers" / "epulsar.md"


def plain(text: str) -> str:
    """Without emphasis, with single spaces."""
    return " ".join(text.replace("*", "").split())


@pytest.mark.skipif(not DIGEST.is_file(), reason=f"the digest is not there: {DIGEST}")
@pytest.mark.parametrize("printed", PRINTED, ids=lambda printed: f"{printed.value:g}, {printed.where}")
def test_the_digest_has_the_words_of_each_number(printed: Printed) -> None:
    assert plain(printed.words) in plain(DIGEST.read_text(encoding="utf-8"))


@pytest.mark.parametrize("printed", PRINTED, ids=lambda printed: f"{printed.value:g}, {printed.where}")
def test_the_words_have_the_number_and_it_has_a_place(printed: Printed) -> None:
    assert printed.value in [float(number) for number in re.findall(r"\d+(?:\.\d+)?", printed.words)]
    assert re.fullmatch(r"(\d(\.\d){0,2}(, Fig\. \d[a-c]?)?|public code)", printed.where)


def test_every_number_of_the_file_is_looked_up() -> None:
    numbers = [value for name, value in vars(published).items() if name.isupper() and isinstance(value, int | float)]
    assert numbers == [printed.value for printed in PRINTED]

from pathlib import Path

import pytest

from core.errors import SpecError
from systems import SYSTEMS
from systems.loader import load_system

ROOT = Path(__file__).parents[2]


def test_registered_keys_are_the_systems_own() -> None:
    assert [load_system(key).key for key in SYSTEMS] == list(SYSTEMS)


def test_systems_are_loaded_by_key_and_by_path() -> None:
    assert load_system("lb").key == "lb"
    assert load_system(f"{ROOT}/docs/examples/weighted.py:SYSTEM").key == "weighted"
    assert load_system(f"{ROOT}/docs/examples/my_limiter.py").key == "my-limiter"


@pytest.mark.parametrize(
    ("text", "suffix", "names"),
    [
        (None, "", "No such file"),
        ("x = 1\n", "", "has no SYSTEM"),
        ("SYSTEM = 1\n", "", "is a int"),
        ("x = 1\n", ":OTHER", "has no OTHER"),
        ("x = 1\ny = = 2\n", "", r"mine.py:2: SyntaxError"),
        ("x = 1\n\nimport nothing_of_this_name\n", "", r"mine.py:3: ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\n\nf()\n", "", r"mine.py:2: ZeroDivisionError"),
    ],
)
def test_a_file_that_is_no_system_is_a_spec_error(tmp_path: Path, text: str | None, suffix: str, names: str) -> None:
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SpecError, match=names):
        load_system(f"{file}{suffix}")


def test_an_unknown_key_names_the_closest() -> None:
    with pytest.raises(SpecError, match=r"did you mean 'srtm'.*known: all-pairs, .*throttler"):
        load_system("strm")

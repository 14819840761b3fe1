"""Compiled kernels on disk, when two processes keep theirs at once."""

from pathlib import Path
from typing import Any

import pytest

from core.compiled import KernelFiles


def files(folder: Path) -> Any:
    kind: Any = KernelFiles  # of Numba's, which has no types
    return kind(str(folder), "kernel", 1)


@pytest.mark.parametrize("step", ["_load_index", "_save_index", "_save_data"])
def test_signatures_that_two_processes_keep_at_once_are_never_mixed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The second has read the index, which is empty, when the first begins; and goes on after a step of the first."""
    first, second, reader = (files(tmp_path) for _ in range(3))
    carried_out: Any = getattr(first, step)
    came: list[bool] = []
    monkeypatch.setattr(second, "_load_index", dict)

    def interrupted(*given: Any) -> Any:
        answer = carried_out(*given)
        if not came:
            came.append(True)
            second.save("floats", "code for floats")
        return answer

    monkeypatch.setattr(first, step, interrupted)
    first.save("integers", "code for integers")
    kept = {name: reader.load(name) for name in ("integers", "floats")}
    assert came and any(kept.values())
    assert all(code in (None, f"code for {name}") for name, code in kept.items())
    for name in kept:  # who does not find its code keeps it again
        first.save(name, f"code for {name}")
    assert {name: reader.load(name) for name in kept} == {name: f"code for {name}" for name in kept}

"""What runs took beside what was foreseen."""

from benchmarks.paces import compared


def test_figures_and_all_runs_are_compared():
    runs = {"a": (1.0, 2.0), "b": (3.0, 2.0), "c": (0.0, 0.0)}
    head, *rows = (line.split() for line in compared(runs, {"one": ["a"], "both": ["a", "b"], "none": ["c"]}))
    assert head[:2] == ["figure", "runs"]
    assert rows[0] == ["one", "1", "1", "s", "2", "s", "0.50"] and rows[1][-1] == "1.00"
    assert rows[2] == ["none", "1", "0", "s", "0", "s"], "nothing is divided by nothing"
    assert rows[3] == ["all", "runs", "3", "4", "s", "4", "s", "1.00"]

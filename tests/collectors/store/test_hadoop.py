"""Paths of Hadoop's file systems: which text is one, and what of it Hadoop is asked."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.packs import RunPacks
from collectors.store.hadoop import HadoopPath, place_of
from core.errors import MachineError, SpecError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("hdfs://node:8020/ratebed", "hdfs://node:8020/ratebed"),
        ("hdfs://node:8020/ratebed//", "hdfs://node:8020/ratebed"),
        ("hdfs://node:8020/", "hdfs://node:8020"),
        ("s3a://bucket", "s3a://bucket"),
        ("hdfs:///ratebed/", "hdfs:///ratebed"),  # on the host of fs.defaultFS
        ("file:///tmp/x", "file:///tmp/x"),
    ],
)
def test_urls(text: str, url: str) -> None:
    place = place_of(text, {"b": "2", "a": "1"})
    assert isinstance(place, HadoopPath) and place.url == url and place.settings == (("a", "1"), ("b", "2"))
    assert str(place / "packs") == f"{url}/packs" and (place / "packs").parent == place


@pytest.mark.parametrize("text", ["out", "/shared/out/", "./hdfs:/ratebed", "a/b:c", "2026-11-25T10:00", "x/hdfs://y"])
def test_paths(text: str) -> None:
    assert place_of(text) == Path(text).absolute()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hdfs:/ratebed", "no // after hdfs:; write hdfs://HOST/PATH, or hdfs:///PATH for the host of fs.defaultFS; a"),
        ("hdfs:/ratebed", r"a folder here is \./hdfs:/ratebed$"),
        ("hdfs:ratebed", "no // after hdfs:"),
        ("s3a:/bucket/ratebed", "no // after s3a:"),
        ("file:/tmp", "no // after file:; write file:///PATH; a"),
        ("hdfs:", "no // after hdfs:"),
        ("hdfs://", "names no folder; write hdfs://HOST/PATH"),
        ("hdfs:///", "names no folder; write hdfs://HOST/PATH"),
    ],
)
def test_slips_are_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as told:
        place_of(text)
    assert str(told.value).startswith(f"{text}: ")


@given(st.text(st.sampled_from("hdfs3a:/.\n-1 é"), max_size=20) | st.text(max_size=20))
def test_any_text_is_a_path_or_a_url_that_can_be_taken_apart_or_refused(text: str) -> None:
    try:
        place = place_of(text)
    except SpecError:
        return
    inside = place / "log" / "00000000.json"
    assert inside.name == "00000000.json" and inside.parent.parent == place
    if isinstance(place, HadoopPath):
        assert place._authority() == text.split("/")[2]


@pytest.mark.slow
def test_a_url_without_a_host_is_on_that_of_the_default_file_system_or_is_one_line() -> None:
    settings = {"ipc.client.connect.max.retries": "0"}
    with pytest.raises(MachineError, match=r"hdfs:///out\S*: \w+: Incomplete HDFS URI, no host"):
        RunPacks(place_of("hdfs:///out", settings)).state()
    there = place_of("hdfs:///out", {**settings, "fs.defaultFS": "hdfs://127.0.0.1:9"})
    with pytest.raises(MachineError, match=r"hdfs:///out\S*: ConnectException"):
        RunPacks(there).state()


@pytest.mark.slow
def test_beside_spark_an_error_is_that_of_hadoop_s_java(spark: Any, tmp_path: Path) -> None:
    """PySpark reads the errors of every Java as if they were Spark's: the numbers of its own objects, here."""
    there = [spark._jvm.java.lang.Object() for _ in range(300)]
    there += [spark._jvm.java.lang.IllegalArgumentException() for _ in range(300)]
    place = HadoopPath(f"file://{tmp_path}")
    for _ in range(20):
        with pytest.raises(FileNotFoundError):
            (place / "nothing").stat()
        assert not list((place / "nothing").glob("*"))
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        (place / "file").open("xb")
    assert len(there) == 600

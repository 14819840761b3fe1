"""Spark's own settings file, read as Java and Spark read it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark_defaults import FILE, properties_of, spark_defaults
from collectors.store import hadoop
from core.errors import SpecError
from ratebed.options import hadoop_place

SETTINGS = r"""# what a site gives
spark.hadoop.fs.s3a.endpoint   http://s3:9000
spark.hadoop.fs.defaultFS=hdfs://node:8020
  ! an old one:
spark.executor.memory : 2g

spark.hadoop.fs.s3a.secret.key a\=b\\c==d
spark.hadoop.fs.s3a.path.style.access
spark.jars a.jar,\
    b.jar
"""
HAVE = {
    "spark.hadoop.fs.s3a.endpoint": "http://s3:9000",
    "spark.hadoop.fs.defaultFS": "hdfs://node:8020",
    "spark.executor.memory": "2g",
    "spark.hadoop.fs.s3a.secret.key": r"a=b\c==d",
    "spark.hadoop.fs.s3a.path.style.access": "",
    "spark.jars": "a.jar,b.jar",
}


def test_settings_are_read() -> None:
    assert properties_of(SETTINGS) == properties_of(SETTINGS.replace("\n", "\r\n")) == HAVE


@given(st.text())
def test_any_text_has_settings(text: str) -> None:
    assert all(isinstance(value, str) for value in properties_of(text).values())


@pytest.mark.slow
def test_java_reads_the_same() -> None:
    java = hadoop._gateway().jvm.java
    for text in (SETTINGS, r"\ta\ b\u0041=\u00e9\n", "a\\\n\nb c", "a=b\\", ": x", "=", "a\\\\\nb", "a\fb \t"):
        properties = java.util.Properties()
        properties.load(java.io.StringReader(text))
        has = {name: properties.getProperty(name).strip(" \t\f") for name in properties.stringPropertyNames()}
        assert properties_of(text) == has, text


def test_hadoop_has_the_settings_of_the_file_and_those_of_the_command_stand_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / FILE).write_text(SETTINGS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    place = hadoop_place("s3a://bucket", {"spark.hadoop.fs.s3a.endpoint": "http://other:9000"})
    assert isinstance(place, hadoop.HadoopPath)
    given_there = {key.removeprefix("spark.hadoop."): value for key, value in HAVE.items() if ".hadoop." in key}
    assert dict(place.settings) == {**given_there, "fs.s3a.endpoint": "http://other:9000"}


def test_where_there_is_no_file_there_are_no_settings_and_one_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert spark_defaults() == {}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_defaults() == {}
    (tmp_path / FILE).write_bytes(b"spark.a \xff\n")
    with pytest.raises(SpecError, match=f"{FILE}: .*; mend it, or SPARK_CONF_DIR"):
        spark_defaults()

"""Where runs are executed, on which cluster and with which settings: what is taken, and what is refused in a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark import THIS_MACHINE, check_master, session
from core.errors import SpecError
from ratebed.options import make_request, spark_settings
from tests.command import ratebed

KEYS = st.from_regex(r"spark(\.[a-zA-Z][\w-]{0,9}(/arch)?){1,4}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=30)


def request(**words):
    return make_request(["srtm-fig5"], False, "tiny", 2, words.pop("jobs", 0), Path("out"), [], **words)


@given(st.dictionaries(KEYS, VALUES).filter(lambda found: not found.keys() & {"spark.master"}))
def test_settings_are_what_was_written(settings):
    assert spark_settings([f"{key}={value}" for key, value in settings.items()]) == settings


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["spark.executor.memory"], r"'spark\.executor\.memory'; write KEY=VALUE"),
        (["spark.executor.memory="], "write KEY=VALUE"),
        (["executor.memory=1g"], "write KEY=VALUE"),
        (["=1g"], "write KEY=VALUE"),
        (["spark.master=yarn"], "use --spark-master"),
        (["spark.submit.deployMode=cluster"], "the command is the driver"),
        (["spark.cores.max=1", "spark.cores.max=2"], "spark.cores.max: 1 and 2; give one of them"),
    ],
)
def test_what_is_no_setting_is_refused(texts, said):
    with pytest.raises(SpecError, match=said):
        request(spark_conf=texts)


@pytest.mark.parametrize("words", [("compare",), ("diff", ".", "."), ("store", "--build")], ids=lambda words: words[0])
def test_whoever_starts_spark_takes_settings(words, tmp_path):
    done = ratebed(*words, "--out", str(tmp_path), "--spark-conf", "executor.memory=1g")
    assert done.returncode == 2 and "write KEY=VALUE" in done.stderr


@pytest.mark.parametrize(
    "master",
    ["local", "local[2]", "local[*, 4]", "yarn", "spark://a:7077", "spark://a:7077,b:7077", "k8s://https://a:1"],
)
def test_masters(master):
    check_master(master)
    assert request(spark_master=master, executor="spark").master == master


def test_spark_connect_is_refused_for_what_it_lacks():
    for ask in (lambda master: request(spark_master=master), session):
        with pytest.raises(
            SpecError, match=r"sc://a:15002: Spark Connect has no SparkContext.*; give the cluster"
        ) as told:
            ask("sc://a:15002")
        assert "Java" not in str(told.value)


@pytest.mark.parametrize("master", ["a:7077", "http://a:1", "spark://a", "mesos://a:1", "localhost"])
def test_what_is_no_master_is_refused_before_java_starts(master):
    with pytest.raises(SpecError, match="no Spark master"):
        request(spark_master=master)


def test_executors():
    assert request().executor == "local" and request().master == THIS_MACHINE
    assert request(executor="spark").master == THIS_MACHINE
    with pytest.raises(SpecError, match="unknown executor 'sprak'; did you mean 'spark'"):
        request(executor="sprak")
    with pytest.raises(SpecError, match="--jobs belongs to the executor local"):
        request(executor="spark", jobs=2)


@pytest.mark.parametrize("url", ["hdfs:/ratebed", "hdfs://", "s3a:bucket"])
def test_where_packs_are_wanted_is_looked_at_before_anything_runs(url):
    with pytest.raises(SpecError, match=f"{url}: .*; write "):
        request(executor="spark", packs=url)


@pytest.mark.parametrize("url", ["hdfs://node:8020/ratebed/", "hdfs:///ratebed", "s3a://bucket/"])
def test_the_store_is_beside_the_packs(url):
    assert str(request(executor="spark", packs=url).store.root) == f"{url.rstrip('/')}/store"


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_one_line(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ratebed", "run", "--system", "lb", "--workload", "poisson"),
            *("--executor", "spark", "--spark-master", "spark://127.0.0.1:1", "--out", str(tmp_path)),
        ],
        capture_output=True, text=True, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "spark://127.0.0.1:1: Connection refused; start the cluster" in done.stderr
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".code"]

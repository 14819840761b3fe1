"""The archive of the code: the same files give the same bytes, and it has all that runs need."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.code_version import ROOT, SHIPPED, code_hash, commit, files_of, id_of
from harness.executors.shipping import packed, shipped_files
from harness.executors.task import contents, differing, digest_of_tree, versions_of
from harness.run import LIBRARIES
from tests.harness.common import small

LIMITER = small(study="limiting", system="crdt-queue", workload="data-set", workload_options={}, topology="wan",
                study_options={})  # fmt: skip


def test_the_same_files_give_the_same_bytes(tmp_path):
    files = shipped_files()
    archives = []
    for name, order in (("one", files.items()), ("two", reversed(files.items()))):
        (tmp_path / name).mkdir()
        archives.append(packed(dict(order), tmp_path / name))
    one, two = archives
    assert one.path.read_bytes() == two.path.read_bytes() and one[1:] == two[1:]
    assert one.name == f"ratebed-{one.digest[:16]}"
    with ZipFile(one.path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == files


@given(st.dictionaries(st.text("abc/", min_size=1), st.binary(max_size=9), min_size=1), st.data())
def test_any_byte_and_any_name_count(files, data):
    name = data.draw(st.sampled_from(sorted(files)))
    whole = digest_of_tree(files)
    assert digest_of_tree({**files, name: files[name] + b"#"}) != whole
    assert digest_of_tree({key: value for key, value in files.items() if key != name}) != whole
    assert digest_of_tree({**files, f"{name}!": b""}) != whole


@pytest.mark.parametrize("spec", [small(), LIMITER])
def test_the_archive_has_what_makes_a_run(spec, tmp_path):
    files = shipped_files()
    needed = {path.as_posix() for path in files_of(spec) if not path.is_absolute()}
    assert len(needed) > 20 and needed <= files.keys()
    assert not [name for name in needed if "executors" in name], "who executes a run does not change it"
    assert not [name for name in files if "__pycache__" in name or name.startswith(("tests/", ".numba"))]
    with ZipFile(packed(files, tmp_path).path) as archive:
        archive.extractall(tmp_path / "there")
    assert code_hash(spec, tmp_path / "there") == code_hash(spec)


def test_a_run_has_the_same_id_and_commit_in_an_unpacked_archive(tmp_path):
    with ZipFile(packed(shipped_files(), tmp_path).path) as archive:
        archive.extractall(tmp_path / "there")
    code = (
        "from harness.code_version import ROOT, commit, id_of; from studies.spec import RunSpec; import msgspec, sys;"
        "print(ROOT, commit(), id_of(msgspec.json.decode(sys.stdin.buffer.read(), type=RunSpec)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], input=small().to_json(), capture_output=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "there")},
    )  # fmt: skip
    assert done.stdout.decode().split() == [str(tmp_path / "there"), commit(), id_of(small())], done.stderr
    assert (tmp_path / "there" / SHIPPED).read_text() == commit()


def test_what_differs_is_one_line_with_both_sides(tmp_path):
    (tmp_path / "core").mkdir()
    shutil.copy(ROOT / "core" / "units.py", tmp_path / "core")
    order = {"digest": digest_of_tree(contents(tmp_path)), "versions": versions_of(LIBRARIES)}
    assert differing(tmp_path, order) == ""
    (tmp_path / "core" / "__pycache__").mkdir()
    (tmp_path / "core" / "__pycache__" / "units.pyc").write_bytes(b"made there")
    (tmp_path / ".numba").mkdir()
    assert differing(tmp_path, order) == ""

    other = {**order, "versions": {**order["versions"], "numpy": "0.1", "python": "2.7.18", "machine": "m68k"}}
    said = differing(tmp_path, other)
    assert all(
        word in said for word in (order["versions"]["numpy"], "0.1", order["versions"]["python"], "2.7.18", "m68k")
    )
    assert "numba" not in said
    assert "no-such-package none, here it is 1.0" in differing(
        tmp_path, {**order, "versions": {"python": order["versions"]["python"], "no-such-package": "1.0"}}
    )
    (tmp_path / "core" / "units.py").open("a").write("# a comment\n")
    there = digest_of_tree(contents(tmp_path))
    assert differing(tmp_path, order) == f"the code there has the hash {there[:16]}, here it is {order['digest'][:16]}"


def test_modules_that_are_sent_by_value_import_nothing_of_ours():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import harness.executors.task;"
        "print([n for n in sys.modules if n.partition('.')[0] in "
        "('core', 'systems', 'workloads', 'testbed', 'studies', 'collectors')])"
    )
    assert subprocess.check_output([sys.executable, "-P", "-c", code, str(Path(ROOT))], text=True) == "[]\n"

import gzip
from pathlib import Path

import numpy as np
import pytest

from core.errors import SpecError
from workloads.towers import generated, read_towers

DATA = Path(__file__).parents[3] / "shared/data"
NEW_YORK = DATA / "radiocells-us-lte-2017/new-york-city.csv"
MELBOURNE = DATA / "acma-melbourne-optus"
HEADER = "id,Latitude,LONGITUDE\n"


def test_a_generated_city_depends_on_its_number_only() -> None:
    few, many = generated(1, 50, 20.0), generated(1, 500, 20.0)
    np.testing.assert_array_equal(few.km, many.km[:50])
    assert many.km.shape == (500, 2) and many.km.min() >= 0 and many.km.max() <= 20 and not many.skipped
    middle = (np.abs(many.km - 10) < 3).all(axis=1).mean()
    assert middle > 0.3  # a tenth of the area
    assert not np.array_equal(generated(2, 50, 20.0).km, few.km)
    np.testing.assert_allclose(generated(1, 50, 10.0).km * 2, few.km)


def test_degrees_become_kilometres(tmp_path: Path) -> None:
    path = tmp_path / "towers.csv"
    path.write_text(HEADER + "1,60,10\n2,61,10\n3,60,11\n\n")
    km = read_towers(str(path), {}).km
    scale = 6371.0088 * np.pi / 180
    np.testing.assert_allclose(km, [[0, 0], [0, scale], [scale * np.cos(np.radians(60.5)), 0]])
    packed = tmp_path / "towers.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_towers(str(packed), {}).km, km)


def test_columns_go_by_name_or_number(tmp_path: Path) -> None:
    path = tmp_path / "towers.csv"
    path.write_text('Y,name,X\n60,"a, b",10\n60.5,c,10\n')
    for columns in ({"latitude": "y", "longitude": "X"}, {"latitude": 0, "longitude": "2"}):
        assert len(read_towers(str(path), columns).km) == 2
    with pytest.raises(SpecError, match="no column 'latitude'"):
        read_towers(str(path), {"longitude": "x"})


@pytest.mark.parametrize(
    ("line", "what", "reason"),
    [
        ("7,60", "line 3: 2 fields, the first line has 3", "number of fields"),
        ("7,sixty,10", "line 3: latitude: 'sixty'", "latitude"),
        ("7,,10", "line 3: latitude: ''", "latitude"),
        ("7,91,10", "line 3: latitude: '91'", "latitude"),
        ("7,60,nan", "line 3: longitude: 'nan'", "longitude"),
        ("7,60,-181", "line 3: longitude: '-181'", "longitude"),
        ('7,60,"10', "line 3: a quote that does not end", "open quote"),
    ],
)
def test_a_broken_row_is_an_error_or_counted(tmp_path: Path, line: str, what: str, reason: str) -> None:
    path = tmp_path / "towers.csv"
    path.write_text(f"{HEADER}1,60,10\n{line}\n2,61,10\n")
    with pytest.raises(SpecError, match=f"towers.csv, {what}.*skip_bad"):
        read_towers(str(path), {})
    towers = read_towers(str(path), {}, skip_bad=True)
    assert len(towers.km) == 2 and towers.skipped == {reason: 1}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no towers"),
        (HEADER, "no towers"),
        ("1,60,10\n2,61,10\n", "no column 'latitude'"),
        ('id,"latitude,longitude\n1,60,10\n', "line 1: a quote"),
    ],
)
def test_files_without_towers_are_spec_errors(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "towers.csv"
    path.write_text(text)
    for skip_bad in (False, True):
        with pytest.raises(SpecError, match=what):
            read_towers(str(path), {}, skip_bad)


def test_a_first_line_of_numbers_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "towers.csv"
    path.write_text("60,10\n61,10\n")
    with pytest.raises(SpecError, match="line 1: no header"):
        read_towers(str(path), {"latitude": 0, "longitude": 1})


def test_missing_and_damaged_files_are_spec_errors(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        read_towers(str(tmp_path / "none.csv"), {})
    path = tmp_path / "towers.csv.gz"
    path.write_bytes(gzip.compress(HEADER.encode() + b"1,60,10\n" * 1000)[:-9])
    with pytest.raises(SpecError, match="damaged"):
        read_towers(str(path), {})


@pytest.mark.skipif(not NEW_YORK.exists(), reason="needs radiocells.org's towers of New York beside the checkout")
def test_towers_of_new_york_are_read() -> None:
    towers = read_towers(str(NEW_YORK), {})
    assert towers.km.shape == (865, 2) and not towers.skipped
    assert (towers.km.max(axis=0) > 25).all() and (towers.km.max(axis=0) < [34, 45]).all()  # of the cut


@pytest.mark.skipif(not MELBOURNE.exists(), reason="needs ACMA's base stations of Melbourne beside the checkout")
@pytest.mark.parametrize(
    ("name", "count"), [("site-optus-melbCBD.csv", 125), ("optus-melbourne-metro-centres.csv", 1464)]
)
def test_base_stations_of_melbourne_are_read(name: str, count: int) -> None:
    assert len(read_towers(str(MELBOURNE / name), {}).km) == count

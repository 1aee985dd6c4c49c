"""Libraries that take files and file systems: numpy, pandas, pyarrow, zarr, fsspec, safetensors,
and the standard library.
"""

import csv
import gzip
import io
import json
import os
import shutil
import sqlite3
import tarfile
import warnings
import zipfile

import dio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("direct", ["auto", False])
def test_archives_of_the_standard_library(here, direct):
    data = os.urandom(700_000)
    with (
        dio.open(here / "a.zip", "wb", direct=direct) as file,
        zipfile.ZipFile(file, "w") as archive,
    ):
        archive.writestr("one", data)
        archive.writestr("two", data[:10])
    with dio.open(here / "a.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None and archive.read("one") == data
    with dio.open(here / "a.tar", "w+b") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            entry = tarfile.TarInfo("one")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            assert archive.extractfile("one").read() == data
    with dio.open(here / "a.gz", "wb") as file, gzip.open(file, "wb") as stream:
        stream.write(data)
    with dio.open(here / "a.gz") as file, gzip.open(file) as stream:
        assert stream.read() == data
    with dio.open(here / "a.gz") as source, dio.open(here / "b.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    assert (here / "a.gz").read_bytes() == (here / "b.gz").read_bytes()


def test_text_of_the_standard_library(here):
    rows = [[str(number), "ä" * (number % 7)] for number in range(5000)]
    with dio.open(here / "a.csv", "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    with dio.open(here / "a.csv", "rt", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == rows
    with dio.open(here / "a.json", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    with dio.open(here / "a.json", "r", encoding="utf-8") as file:
        assert json.load(file) == rows
    assert sqlite3.sqlite_version


shapes = st.one_of(st.just(()), st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple))
dtypes = st.sampled_from(
    ["u1", "<i4", ">i4", "f2", "f8", "c16", "?", "S5", "U3", "M8[s]", [("a", "i2"), ("b", "f8", 2)]]
)


@settings(max_examples=60)
@given(shape=shapes, dtype=dtypes, order=st.sampled_from("CF"))
def test_arrays_are_those_of_numpy(here, shape, dtype, order):
    dtype = np.dtype(dtype)
    items = int(np.prod(shape)) if shape else 1
    array = np.frombuffer(os.urandom(items * dtype.itemsize), "u1")
    # Not every number is a character or a truth.
    array = np.zeros_like(array) if dtype.kind == "U" else array % 2 if dtype.kind == "b" else array
    array = (
        array.view(dtype).reshape(shape, order=order) if items else np.zeros(shape, dtype, order)
    )
    for save, load in (
        (dio.numpy.save, np.load),
        (np.save, dio.numpy.load),
        (dio.numpy.save, dio.numpy.load),
    ):
        save(here / "a.npy", array)
        back = load(here / "a.npy")
        assert (back.shape, back.dtype) == (array.shape, array.dtype)
        assert back.tobytes() == array.tobytes()
        assert back.flags.f_contiguous == array.flags.f_contiguous
    np.save(here / "theirs.npy", array)
    dio.numpy.save(here / "ours.npy", array)
    assert (here / "theirs.npy").read_bytes() == (here / "ours.npy").read_bytes()
    dio.numpy.tofile(array, here / "a.bin")
    assert (here / "a.bin").read_bytes() == array.tobytes()
    # numpy itself fails for an offset behind the end.
    for arguments in ({}, {"count": 3}, {"offset": dtype.itemsize if items else 0}):
        ours, theirs = (
            dio.numpy.fromfile(here / "a.bin", dtype, **arguments),
            np.fromfile(here / "a.bin", dtype, **arguments),
        )
        assert ours.tobytes() == theirs.tobytes() and ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", ["x", "ä", "größe Ω", "\ud800", "x" * 70_000, "Ω" * 70_000])
def test_arrays_with_names_of_fields_in_any_script(here, name):
    array = np.array([(1, 2.5), (3, 4.5)], dtype=[(name, "i4"), ("value", "f8")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.save(here / "theirs.npy", array)
    dio.numpy.save(here / "ours.npy", array)
    # numpy leaves space for a longer axis; the rest is the same.
    assert _npy_version(here / "ours.npy") == _npy_version(here / "theirs.npy")
    for path in (here / "ours.npy", here / "theirs.npy"):
        with path.open("rb") as file:
            loaded = np.lib.format.read_array(file, max_header_size=1 << 20)
        assert loaded.dtype == array.dtype and loaded.tobytes() == array.tobytes()
    if len(name) < 1000:
        loaded = dio.numpy.load(here / "theirs.npy")
        assert loaded.dtype == array.dtype and loaded.tobytes() == array.tobytes()


def _npy_version(path):
    return path.read_bytes()[:8]


def test_an_array_that_cannot_be_saved_leaves_the_file(here, monkeypatch):
    (here / "k.npy").write_bytes(b"what was there")
    objects, scattered = np.empty(1, dtype="O"), np.zeros((4, 4))[::2, ::2]

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(np, "ascontiguousarray", no_memory)
    for write in (
        lambda array: dio.numpy.save(here / "k.npy", array),
        lambda array: dio.numpy.tofile(array, here / "k.npy"),
    ):
        with pytest.raises(TypeError):
            write(objects)
        with pytest.raises(MemoryError):
            write(scattered)
    assert (here / "k.npy").read_bytes() == b"what was there"


def test_files_given_to_numpy(here):
    array = np.random.default_rng(1).random((100, 1000))
    with dio.open(here / "a.npy", "w+b") as file:
        np.save(file, array)
        np.save(file, array[:3])
        file.seek(0)
        assert np.array_equal(np.load(file), array) and np.array_equal(
            dio.numpy.load(file), array[:3]
        )
        assert file.read() == b""
    with dio.open(here / "a.npz", "wb") as file:
        np.savez(file, one=array, two=array[0])
    loaded = dio.numpy.load(here / "a.npz")
    assert sorted(loaded) == ["one", "two"] and np.array_equal(loaded["one"], array)
    (here / "cut.npy").write_bytes((here / "a.npy").read_bytes()[:5000])
    with pytest.raises(ValueError, match="cut off"):
        dio.numpy.load(here / "cut.npy")
    for refused in (dio.numpy.save, lambda name, array: dio.numpy.tofile(array, name)):
        with pytest.raises(TypeError, match="Python objects"):
            refused(here / "b", np.array([object()]))
    np.save(here / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="not loaded"):
        dio.numpy.load(here / "o.npy")
    with dio.open(here / "a.txt", "w", encoding="utf-8") as file:
        np.savetxt(file, array[:5])
    with dio.open(here / "a.txt", "r", encoding="utf-8") as file:
        assert np.allclose(np.loadtxt(file), array[:5])


def test_loading_leaves_no_pages_and_makes_no_copy(here):
    array = np.arange(1 << 20, dtype="f8")
    np.save(here / "a.npy", array)
    dio.cache(here / "a.npy").evict()
    with dio.open(here / "a.npy") as file:
        back = dio.numpy.load(file)
        receipt = file.receipt()
    assert np.array_equal(back, array) and back.ctypes.data % 4096 == 0
    assert receipt["resident_pages"] == 0 and receipt["read"]["cached"] == 0
    dio.numpy.tofile(array, here / "a.bin")
    dio.cache(here / "a.bin").evict()
    with dio.open(here / "a.bin", buffering=0) as file:
        assert np.array_equal(dio.numpy.fromfile(file, "f8"), array)
        assert file.receipt()["read"] == {
            "direct": 8 << 20,
            "bounced": 0,
            "uncached": 0,
            "cached": 0,
        }


@pytest.mark.parametrize("alignment", [0, 1000])
def test_tensors_are_those_of_safetensors(everywhere, alignment):
    safetensors = pytest.importorskip("safetensors.numpy")
    random = np.random.default_rng(2)
    tensors = {
        "x" * alignment + str(number): random.random(number * 1000 + 1).astype("f4")
        for number in range(20)
    }
    tensors |= {
        "empty": np.zeros((0, 3), "f2"),
        "scalar": np.array(7, "i8"),
        "matrix": random.random((300, 301)),
    }
    tensors |= {"flags": random.random(77) < 0.5, "bytes": np.arange(255, dtype="u1")}
    safetensors.save_file(tensors, everywhere / "a.safetensors", metadata={"format": "test"})
    safetensors.save_file({"other": np.arange(5)}, everywhere / "b.safetensors")
    loaded = dio.safetensors.load_file(everywhere / "a.safetensors")
    theirs = safetensors.load_file(everywhere / "a.safetensors")
    assert loaded.keys() == theirs.keys()
    for name, array in theirs.items():
        assert loaded[name].dtype == array.dtype and np.array_equal(loaded[name], array)
    assert dio.safetensors.metadata(everywhere / "a.safetensors") == {"format": "test"}
    both = dio.safetensors.load_file(
        [everywhere / "a.safetensors", everywhere / "b.safetensors"], names=["other", "scalar"]
    )
    assert (
        sorted(both) == ["other", "scalar"]
        and both["other"].tolist() == [0, 1, 2, 3, 4]
        and both["scalar"] == 7
    )
    with pytest.raises(KeyError, match="nothing"):
        dio.safetensors.load_file(everywhere / "a.safetensors", names=["nothing"])


def header(entries, data=b"", length=None):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"1234567",
        header(b"", length=1 << 60),
        header(b"{", b"x"),
        header(b"[]"),
        header({"a": 1}),
        header({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(8)),
        header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(3)),
        header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, bytes(8)),
        header({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, bytes(8)),
        header({"a": {"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]}}, bytes(8)),
    ],
)
def test_damaged_safetensors_are_refused(here, contents):
    (here / "bad").write_bytes(contents)
    with pytest.raises(dio.safetensors.SafetensorError, match="no safetensors file"):
        dio.safetensors.load_file(here / "bad")


def test_frames_of_pandas_and_tables_of_pyarrow(here):
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    import pyarrow.dataset
    import pyarrow.feather
    import pyarrow.fs
    import pyarrow.parquet

    frame = pandas.DataFrame(
        {"a": range(20_000), "b": np.random.default_rng(3).random(20_000), "c": ["text"] * 20_000}
    )
    for write, read in (
        (lambda name: frame.to_parquet(name), pandas.read_parquet),
        (lambda name: frame.to_csv(name, index=False), pandas.read_csv),
        (lambda name: frame.to_feather(name), pandas.read_feather),
        (lambda name: frame.to_json(name, orient="records"), pandas.read_json),
    ):
        name = f"dio://{here}/frame"
        write(name)
        pandas.testing.assert_frame_equal(read(name), frame, check_dtype=False)
        with dio.open(here / "frame") as file:
            pandas.testing.assert_frame_equal(read(file), frame, check_dtype=False)
    table = arrow.Table.from_pandas(frame)
    with dio.open(here / "t.parquet", "wb") as file:
        arrow.parquet.write_table(table, file, row_group_size=3000)
    with dio.open(here / "t.parquet") as file:
        assert arrow.parquet.read_table(file).equals(table)
        assert arrow.parquet.ParquetFile(file).read_row_group(2).num_rows == 3000
    with dio.open(here / "t.arrow", "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with dio.open(here / "t.arrow") as file:
        assert arrow.ipc.open_file(file).read_all().equals(table)
    import fsspec

    system = arrow.fs.PyFileSystem(arrow.fs.FSSpecHandler(fsspec.filesystem("dio")))
    arrow.dataset.write_dataset(
        table, f"{here}/set", format="parquet", filesystem=system, partitioning=["c"]
    )
    assert (
        arrow.dataset.dataset(f"{here}/set", filesystem=system, partitioning=["c"]).count_rows()
        == 20_000
    )


def test_arrays_of_zarr(here):
    zarr = pytest.importorskip("zarr")
    data = np.random.default_rng(4).integers(0, 1 << 30, (300, 400))
    store = f"dio://{here}/array.zarr"
    array = zarr.create_array(
        store,
        shape=data.shape,
        chunks=(64, 64),
        dtype=data.dtype,
        storage_options={"auto_mkdir": True},
    )
    array[:] = data
    again = zarr.open_array(store, mode="r+", storage_options={"auto_mkdir": True})
    assert np.array_equal(again[:], data)
    again[10:20, 5:300] = 7
    data[10:20, 5:300] = 7
    assert np.array_equal(zarr.open_array(store, mode="r")[:], data)


def test_the_file_system_is_registered(here):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open(f"dio://{here}/file", "wb") as file:
        assert isinstance(file, dio.BufferedWriter)
        file.write(b"0123456789")
    with fsspec.open(f"dio://{here}/file", "rt", encoding="utf-8") as file:
        assert file.read() == "0123456789"
    system = fsspec.filesystem("dio")
    assert system.unstrip_protocol(f"{here}/file") == f"dio://{here}/file"
    ranges = [
        (f"{here}/file", 2, 5),
        (f"{here}/file", None, -7),
        (f"{here}/absent", 0, 1),
        (f"{here}/file", -3, None),
    ]
    results = system.cat_ranges(*map(list, zip(*ranges)))
    assert (
        results[:2] == [b"234", b"012"]
        and isinstance(results[2], FileNotFoundError)
        and results[3] == b"789"
    )
    with pytest.raises(FileNotFoundError):
        system.cat_ranges(*map(list, zip(*ranges)), on_error="raise")
    with system.transaction:
        with system.open(f"{here}/later", "wb") as file:
            file.write(b"x")
        assert not system.exists(f"{here}/later")
    assert system.cat(f"{here}/later") == b"x"


def test_striped_files_of_the_file_system(here):
    fsspec = pytest.importorskip("fsspec")
    (here / "a").mkdir()
    (here / "b").mkdir()
    dio.stripe.create(here / "striped", [here / "a", here / "b"])
    system = fsspec.filesystem("dio")
    with system.open(f"{here}/striped", "r+b") as file:
        file.write(b"x" * 3_000_000)
    assert system.size(f"{here}/striped") == 3_000_000
    system.cp(f"{here}/striped", f"{here}/plain")
    assert os.path.getsize(here / "plain") == 3_000_000
    system.rm(f"{here}/striped")
    assert not list((here / "a").iterdir()) and not system.exists(f"{here}/striped")


def entry(dtype="U8", shape=(4,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


TWICE = ('{"a":%s,"a":%s}' % (json.dumps(entry()), json.dumps(entry(offsets=(4, 8))))).encode()
REFUSED = {
    "overlap": header({"a": entry(), "b": entry(offsets=(2, 6))}, bytes(6)),
    "identical": header({"a": entry(), "b": entry()}, bytes(4)),
    "gap": header({"a": entry(), "b": entry(offsets=(6, 10))}, bytes(10)),
    "hole before": header({"a": entry(offsets=(2, 6))}, bytes(6)),
    "trailing": header({"a": entry()}, bytes(7)),
    "twice": header(TWICE, bytes(8)),
    "utf-16": header(json.dumps({"a": entry()}).encode("utf-16"), bytes(4)),
    "mark": header(b"\xef\xbb\xbf{}"),
    "no utf-8": header(b'{"\xff":' + json.dumps(entry()).encode() + b"}", bytes(4)),
    "metadata": header({"__metadata__": {"a": 1}, "a": entry()}, bytes(4)),
    "metadata list": header({"__metadata__": [1], "a": entry()}, bytes(4)),
    "deep": header(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
    "dtype": header({"a": {**entry(), "dtype": ["U8"]}}, bytes(4)),
    "nan": header(b'{"a":NaN}'),
    "huge": header({"a": entry(shape=(1 << 63, 1 << 63, 0), offsets=(0, 0))}),
    "product": header({"a": entry(shape=(1 << 32, 1 << 32), offsets=(0, 0))}),
    "text": header({"a": {**entry(), "shape": "4"}}, bytes(4)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_safetensors_refuses_is_refused(here, name):
    safetensors = pytest.importorskip("safetensors")
    import safetensors.numpy

    (here / "bad").write_bytes(REFUSED[name])
    with pytest.raises(safetensors.SafetensorError):
        safetensors.numpy.load_file(here / "bad")
    with pytest.raises(dio.safetensors.SafetensorError, match="no safetensors file"):
        dio.safetensors.load_file(here / "bad")


def test_more_of_safetensors(here):
    (here / "many").write_bytes(header({"a": entry(shape=[1] * 70 + [4])}, bytes(4)))
    with pytest.raises(dio.safetensors.SafetensorError, match="the shape of 'a'"):
        dio.safetensors.load_file(here / "many")
    array = np.array([1 + 2j], "c8")
    (here / "complex").write_bytes(header({"a": entry("C64", [1], [0, 8])}, array.tobytes()))
    loaded = dio.safetensors.load_file(here / "complex")["a"]
    assert loaded.dtype == array.dtype and loaded == array
    # Empty tensors may lie anywhere between others.
    several = {
        "b": entry(),
        "a": entry(shape=[0], offsets=(4, 4)),
        "c": entry(shape=[0], offsets=(0, 0)),
    }
    (here / "empty").write_bytes(header(several, b"1234"))
    assert bytes(dio.safetensors.load_file(here / "empty")["b"]) == b"1234"


def test_some_tensors_of_a_file_by_name(here):
    theirs = pytest.importorskip("safetensors.numpy")
    path = here / "file.safetensors"
    theirs.save_file({name: np.arange(4) for name in ("t1", "t2", "t3")}, path)
    for names in (["t1", "t3"], ("t1", "t3"), {"t1": 0, "t3": 0}):
        for given in (names, iter(names)):
            assert set(dio.safetensors.load_file(path, names=given)) == {"t1", "t3"}
    assert dio.safetensors.load_file(path, names=[]) == {}
    with pytest.raises(KeyError, match="absent"):
        dio.safetensors.load_file(path, names=iter(["t1", "absent"]))
    with pytest.raises(TypeError, match="several"):
        dio.safetensors.load_file(path, names="t1")


def test_arrays_without_bytes_and_with_masks(here):
    for dtype in ("V0", "S0"):
        array = np.zeros(3, dtype)
        dio.numpy.tofile(array, here / "a.bin")
        assert (here / "a.bin").stat().st_size == array.nbytes
        np.save(here / "a.npy", array)
        dio.numpy.save(here / "b.npy", array)
        assert (here / "a.npy").read_bytes() == (here / "b.npy").read_bytes()
        assert dio.numpy.load(here / "a.npy").shape == (3,)
    with pytest.raises(ValueError, match="have no bytes"):
        dio.numpy.fromfile(here / "a.bin", "V0")
    assert dio.numpy.fromfile(here / "a.bin", "V0", 3).shape == (3,)
    (here / "kept.npy").write_bytes(b"kept")
    for refused in (dio.numpy.save, lambda name, array: dio.numpy.tofile(array, name)):
        with pytest.raises(NotImplementedError, match="mask"):
            refused(here / "kept.npy", np.ma.array([1, 2], mask=[0, 1]))
    assert (here / "kept.npy").read_bytes() == b"kept"


@pytest.mark.parametrize("shape", [(-1,), (1 << 61,), (1 << 40, 1 << 40), (10**12,)])
def test_a_damaged_header_of_numpy_is_refused(here, shape):
    text = b"{'descr': '<i8', 'fortran_order': False, 'shape': %s, }" % str(shape).encode()
    (here / "d.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"x" * 100
    )
    with pytest.raises(ValueError, match="cut off|damaged"):
        dio.numpy.load(here / "d.npy")


def test_durable_arrays_in_open_files(here):
    for write in (dio.numpy.save, lambda file, array, **how: dio.numpy.tofile(array, file, **how)):
        for buffering in (-1, 0):
            with dio.open(here / "a", "wb", buffering) as file:
                write(file, np.arange(1000), durable=True)
                assert file.receipt()["requests"]["sync"] == 1
            with open(here / "b", "wb", buffering) as file:
                write(file, np.arange(1000), durable=True)
                assert (here / "b").read_bytes() == (here / "a").read_bytes()
        memory = io.BytesIO()
        with pytest.raises(ValueError, match="cannot be made durable"):
            write(memory, np.arange(3), durable=True)
        assert memory.getvalue() == b""


def test_the_file_system_does_what_the_local_one_does(here):
    fsspec = pytest.importorskip("fsspec")
    ours, local = fsspec.filesystem("dio"), fsspec.filesystem("file")
    (here / "file").write_bytes(bytes(range(20)))
    places = [None, -25, -20, -5, 0, 3, 20, 25]
    for start in places:
        for end in places:
            try:
                expected = local.cat_file(f"{here}/file", start, end)
            except ValueError:
                with pytest.raises(ValueError, match="ends before it begins"):
                    ours.cat_file(f"{here}/file", start, end)
                assert isinstance(ours.cat_ranges([f"{here}/file"], [start], [end])[0], ValueError)
                continue
            assert ours.cat_file(f"{here}/file", start, end) == expected, (start, end)
            assert ours.cat_ranges([f"{here}/file"], [start], [end]) == [expected], (start, end)
    with open("/proc/version", "rb") as file:
        version = file.read()
    assert ours.cat_file("/proc/version") == version != b""
    ours.get_file("/proc/version", f"{here}/version")
    assert (here / "version").read_bytes() == version
    for system in (ours, local):
        with pytest.raises(shutil.SameFileError):
            system.cp_file(f"{here}/file", f"{here}/file")
        with pytest.raises(IsADirectoryError):
            system.open(str(here), "rb")
    assert (here / "file").read_bytes() == bytes(range(20))


def test_open_files_of_the_file_system_have_a_size(here):
    fsspec = pytest.importorskip("fsspec")
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    path = str(here / "lines")
    systems = [fsspec.filesystem(name) for name in ("dio", "file")]
    for system in systems:
        with system.open(path, "wb") as file:
            file.write(lines)
    ours, theirs = systems
    for offset, length, delimiter in (
        (0, None, None),
        (0, 100, b"\n"),
        (3, 100, b"\n"),
        (8000, 10_000, None),
        (5, None, b"\n"),
    ):
        block = ours.read_block(path, offset, length, delimiter)
        assert block == theirs.read_block(path, offset, length, delimiter)
    for mode in ("rb", "r+b", "ab"):
        with ours.open(path, mode) as file:
            # fsspec's attribute, and the method of dio's files.
            assert file.size == file.size() == len(lines) and type(file.size()) is int
            assert file.mode == dio.open(path, mode).mode
    np.save(here / "array.npy", np.arange(10))
    with ours.open(str(here / "array.npy"), "rb") as file:
        assert (dio.numpy.load(file) == np.arange(10)).all()
    with ours.transaction, ours.open(path, "wb") as file:
        file.write(b"ab")
        assert file.size == 2


def test_a_copy_onto_a_file_keeps_its_mode(here):
    fsspec = pytest.importorskip("fsspec")
    (here / "source").write_bytes(b"source")
    (here / "source").chmod(0o600)
    for mode in (0o644, 0o666, 0o640, 0o4755):
        for name in ("dio", "file"):
            path = here / name
            path.write_bytes(b"old")
            path.chmod(mode)
            fsspec.filesystem(name).cp_file(str(here / "source"), str(path))
            assert path.read_bytes() == b"source"
        # The new contents are not those that somebody trusted as another user.
        assert (here / "dio").stat().st_mode & 0o7777 == mode & 0o777


def test_transactions_that_append_and_create(here):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("dio")
    (here / "log").write_bytes(b"old")
    with system.transaction:
        for name, mode in (("log", "ab"), ("new", "xb"), ("added", "ab")):
            with system.open(f"{here}/{name}", mode) as file:
                file.write(b"more")
        with pytest.raises(FileExistsError):
            system.open(f"{here}/log", "xb")
        assert (here / "log").read_bytes() == b"old" and not (here / "new").exists()
    assert {path.name: path.read_bytes() for path in here.iterdir()} == {
        "log": b"oldmore",
        "new": b"more",
        "added": b"more",
    }
    with pytest.raises(KeyError), system.transaction:
        with system.open(f"{here}/log", "ab") as file:
            file.write(b"lost")
        raise KeyError
    assert (here / "log").read_bytes() == b"oldmore" and len(list(here.iterdir())) == 3

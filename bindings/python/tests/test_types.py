"""What type checkers say of programs that use dio."""

import subprocess
import sys

import pytest

GOOD = """
import dio, dio.aio, dio.fsspec, dio.numpy, dio.safetensors

with (
    dio.open("a") as reader,
    dio.open("b", "wb", direct=True) as writer,
    dio.open("c", "r+b", 0) as raw,
):
    reveal_type(reader)
    reveal_type(writer)
    reveal_type(raw)
    reveal_type(dio.read_ranges([(reader, 0, 4096)]))
    reveal_type(dio.read_ranges([(raw, 0, dio.alloc(4096))]))
    writer.write(reader.read_at(100, 7))
    writer.sync()
reveal_type(dio.digest("a"))
reveal_type(dio.digest(["a", "b"], ["md5"]))
with dio.Wal("log") as log:
    log.commit(log.append(b"x"))
"""
BAD = """
import dio

dio.open("a", direct="perhaps")
dio.alloc("x")
dio.open("a").write_at(5, 5)
"""


def test_types(here):
    pytest.importorskip("mypy")
    (here / "good.py").write_text(GOOD)
    (here / "bad.py").write_text(BAD)
    options = [
        "--cache-dir",
        here / "cache",
        "--no-color-output",
        "--no-error-summary",
        "--strict",
        "--no-warn-unused-ignores",
    ]
    good = subprocess.run(
        [sys.executable, "-m", "mypy", *options, here / "good.py"], capture_output=True, text=True
    )
    assert good.returncode == 0, good.stdout
    revealed = [line.split('"')[1] for line in good.stdout.splitlines() if "Revealed" in line]
    assert [name.rpartition("dio.")[2] for name in revealed[:3]] == [
        "BufferedReader",
        "BufferedWriter",
        "File",
    ]
    assert "memoryview" in revealed[3] and "int" in revealed[4]
    assert revealed[5].endswith("str") and "list" in revealed[6]
    bad = subprocess.run(
        [sys.executable, "-m", "mypy", *options, here / "bad.py"], capture_output=True, text=True
    )
    assert bad.stdout.count("error:") == 3, bad.stdout


def test_every_public_name_is_typed_and_there():
    import pathlib

    import dio

    stub = (pathlib.Path(dio.__file__).parent / "__init__.pyi").read_text()
    for name in dio.__all__:
        assert getattr(dio, name) is not None
        assert name in stub, name

"""The cases that fsspec has for every file system, run for `dio://`."""

import os

import pytest

pytest.importorskip("fsspec")
from fsspec.implementations.local import make_path_posix
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests

from dio.fsspec import DioFileSystem


class Fixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return DioFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, tmp_path):
        return make_path_posix(os.fspath(tmp_path))

    @pytest.fixture
    def supports_empty_directories(self):
        return True


class TestCopy(AbstractCopyTests, Fixtures):
    pass


class TestGet(AbstractGetTests, Fixtures):
    pass


class TestPut(AbstractPutTests, Fixtures):
    pass


class TestOpen(AbstractOpenTests, Fixtures):
    pass


class TestPipe(AbstractPipeTests, Fixtures):
    pass

"""Directories on every file system, and skips that are counted.

`cargo xtask test` mounts file systems and names them in DIO_TEST_FS as name=path:name=path. Without
it the tests run in a temporary directory only.
"""

import os
import pathlib
import tempfile

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "dio",
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("dio")

HAS_DIRECT = {"ext4", "xfs", "btrfs"}


def file_systems():
    named = [part.partition("=") for part in os.environ.get("DIO_TEST_FS", "").split(":") if part]
    return {name: pathlib.Path(path) for name, _, path in named} or {"host": scratch()}


def scratch():
    return pathlib.Path(os.environ.get("DIO_TEST_DIR", "/var/tmp"))


@pytest.fixture(params=sorted(file_systems()))
def everywhere(request):
    """An empty directory on each file system."""
    with tempfile.TemporaryDirectory(dir=file_systems()[request.param]) as path:
        yield pathlib.Path(path)


@pytest.fixture
def here():
    """An empty directory on a file system with direct I/O."""
    systems = file_systems()
    with tempfile.TemporaryDirectory(dir=systems.get("ext4", scratch())) as path:
        yield pathlib.Path(path)


@pytest.fixture
def on_tmpfs():
    with tempfile.TemporaryDirectory(dir=file_systems().get("tmpfs", "/dev/shm")) as path:
        yield pathlib.Path(path)


def pytest_runtest_logreport(report):
    log = os.environ.get("DIO_SKIP_LOG")
    if report.skipped and log:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with open(log, "a") as file:
            file.write(f"{report.nodeid}: {reason}\n".replace("\n", " ").strip() + "\n")

"""Fixtures of all Python tests. Everything runs on the release build (TENON_BUILD=build/asan for another one)."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import pytest  # noqa: E402

from support import paths  # noqa: E402

# Nothing of a user's settings or cache may change a result here.
for name in [n for n in os.environ if n.startswith("TENON_") and n != "TENON_BUILD"]:
    del os.environ[name]


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the long form of tests that have one (10,000 runs, every byte)")


def pytest_configure(config):
    if not paths.TENON.exists():
        pytest.exit(f"{paths.TENON} is missing; build first: scripts/test, or cmake --preset release && ninja -C build/release", 2)


@pytest.fixture(scope="session")
def long_mode(request):
    return request.config.getoption("--long")


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory):
    """The cache of compiled models lives for one session of tests."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))

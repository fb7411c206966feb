"""The launcher, with a stand-in for the driver."""

from pathlib import Path

import pytest
from exchange import StandInDriver, set_stream
from launcher_products import Product

from tilewright.runtime import launcher
from tilewright.runtime.host_compiler import find_compiler


@pytest.fixture(scope="session")
def driver_library(tmp_path_factory):
    path = tmp_path_factory.mktemp("driver") / "libdriver.so"
    source = Path(__file__).with_name("stand_in_driver.cpp")
    find_compiler().run(["-std=c++17", "-O1", "-fPIC", "-shared", str(source), "-o", str(path)])
    return StandInDriver(path)


@pytest.fixture
def driver(driver_library):
    driver_library.reset()
    set_stream(0)
    yield driver_library
    driver_library.reset()


@pytest.fixture
def launcher_module():
    return launcher.load()


@pytest.fixture
def product(driver, launcher_module):
    """Remembers and calls products, with all that a test does not name as usual."""
    return Product(launcher_module.Launcher(driver.path), launcher_module.MISS, driver)

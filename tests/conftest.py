"""What all tests share: the CPU, hypothesis without deadlines, a typed key, both precisions."""

import gc
import html
import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest
from hypothesis import settings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of the time goes to compiling, and most of that is compiled more than once: in both workers,
# in new functions of the same operations, in processes that tests start, in the next run. All share
# what is compiled by the environment, which workers and those processes inherit; JAX tells by the
# program, the options and the version what is the same. CDP_VIEWS_TESTS_CACHE says where it is
# kept for the next run, which then compiles little; else whoever made the folder removes it.
_SHARED = None
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _kept = os.environ.get("CDP_VIEWS_TESTS_CACHE")
    if _kept is None:
        _kept = _SHARED = tempfile.mkdtemp(prefix="cdp_views-tests-")
    _kept = os.path.abspath(_kept)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{_kept}/jax"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    # Without bytecode a process takes 15 s to read all modules instead of 3.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", f"{_kept}/bytecode")

# JAX makes many small objects: by default 3 to 9 % of the time goes to looking for garbage.
gc.set_threshold(10_000, 10, 10)

_MOST_MAPS = 20_000  # of a worker, after which it gives back what it compiled

# A first call compiles, so its time says nothing; a failure must come back on the next run.
settings.register_profile("house", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("house")


def pytest_unconfigure():
    if _SHARED is not None:
        shutil.rmtree(_SHARED, ignore_errors=True)


@pytest.fixture(autouse=True)
def precision_is_left_as_found():
    """A test that changed JAX's precision for good would decide how later ones end."""
    import sys

    jax = sys.modules.get("jax")
    before = jax is not None and jax.config.read("jax_enable_x64")
    yield
    jax = sys.modules.get("jax")
    after = jax is not None and jax.config.read("jax_enable_x64")
    assert after == before, "This test leaves JAX in another precision."


@pytest.fixture(autouse=True, scope="module")
def maps_are_given_back():
    """Every compiled function holds some maps of memory, of which Linux gives a process 65,530.

    A worker that runs half of all tests would come to that number, and is then ended in the middle
    of a compilation. What is compiled again comes from the shared cache.
    """
    import sys

    yield
    jax = sys.modules.get("jax")
    try:
        with open("/proc/self/maps", "rb") as maps:
            many = sum(1 for _ in maps) > _MOST_MAPS
    except OSError:
        return  # another system
    if jax is not None and many:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def key():
    """One fixed typed key; a test that draws twice splits it."""
    import jax

    return jax.random.key(20260729)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def precision(request):
    """Run the test in each precision; the value is the dtype JAX then uses."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(request.param):
        yield jnp.float64 if request.param else jnp.float32


@pytest.fixture(scope="module")
def lightly_compiled():
    """LLVM without its optimisations: half of the time that large programs take to compile.

    For files that ask which law draws have; rounding, which they may change, is asked elsewhere.
    """
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def in_browser(tmp_path):
    """(page, probe) ↦ what the probe, a script, leaves in the page's body as JSON."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs chromium (Debian: apt-get install chromium)")

    def run(page: str, probe: str):
        path = tmp_path / "page.html"
        path.write_text(page.replace("</head>", probe + "</head>"), encoding="utf-8")
        answer = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
             "--dump-dom", path.as_uri()],  # its own time: what a page waits for has happened
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        body = re.search(r"<body>(.*?)</body>", answer.stdout, re.S)
        assert body is not None
        return json.loads(html.unescape(body[1]))

    return run

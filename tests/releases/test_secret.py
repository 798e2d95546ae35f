"""The secret comes from the operating system, serves once, and is nowhere afterwards."""

import pickle
import secrets

import jax
import numpy as np
import pytest

from cdp_views.releases.secret import fresh_key

from .conftest import COUNTS

BYTES = bytes([0xDE, 0xAD, 0xBE, 0xEF, 0xFE, 0xED, 0xFA, 0xCE])


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda size: BYTES[:size])


def traces():
    words = np.frombuffer(BYTES, dtype=np.uint32)
    yield from (BYTES, BYTES.hex().encode(), BYTES[::-1])
    yield from (str(word).encode() for word in words)
    yield from (word.tobytes() for word in words)


def test_the_key_is_what_the_operating_system_gave(known):
    data = np.asarray(jax.random.key_data(fresh_key()))
    assert data.tobytes() == BYTES
    assert str(jax.random.key_impl(fresh_key())) == "threefry2x32"


def test_keys_differ_from_call_to_call():
    assert len({np.asarray(jax.random.key_data(fresh_key())).tobytes() for _ in range(100)}) == 100


def test_nothing_of_secret_noise_or_counts_is_kept(known, make, tmp_path, caplog, capsys):
    made = make()
    made.save(tmp_path / "r.csv")
    noise = made.released - COUNTS
    places = [pickle.dumps(made), repr(made).encode(), caplog.text.encode()]
    places += [path.read_bytes() for path in tmp_path.iterdir()]
    places += [text.encode() for text in capsys.readouterr()]
    for place in places:
        assert not any(trace in place for trace in traces())
        for number in noise:
            assert repr(float(number)).encode() not in place and number.tobytes() not in place
    # a count of four digits would stand out in the text of the files
    assert not any(b"9001" in path.read_bytes() for path in tmp_path.iterdir())


def test_the_search_finds_a_secret_that_is_there():
    assert any(trace in pickle.dumps({"key": BYTES}) for trace in traces())

"""The secret comes from the operating system, serves once, and is nowhere afterwards."""

import pickle
import secrets
import sys

import jax
import numpy as np
import pytest

import cdp_views as cdp
from cdp_views.precision.words import uniform
from cdp_views.releases.noise import aes, threefry
from cdp_views.releases.noise.cells import cell_ids, group_ids
from cdp_views.releases.noise.secret import Secret, fresh_secret

from .conftest import COUNTS

BYTES = bytes(range(0xC0, 0xE0))


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(secrets, "token_bytes", lambda size: BYTES[:size])


def traces():
    words = np.frombuffer(BYTES, dtype=np.uint64)
    yield from (BYTES, BYTES.hex().encode(), BYTES[::-1])
    yield from (str(word).encode() for word in words)
    yield from (word.tobytes() for word in words)


def test_the_secret_is_what_the_operating_system_gave(known):
    assert fresh_secret().root == BYTES


def test_secrets_differ_from_call_to_call():
    assert len({fresh_secret().root for _ in range(100)}) == 100


def test_a_secret_is_neither_shown_nor_pickled():
    secret = Secret(BYTES)
    assert not any(trace in repr(secret).encode() for trace in traces())
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)
    with pytest.raises(ValueError, match="must have 32 bytes; got 3"):
        Secret(b"abc")


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


# Random123's known answers for threefry4x64 with 20 rounds: counter, key, bits
KNOWN = [
    ("0" * 64, "0" * 64, "09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b"),
    ("f" * 64, "f" * 64, "29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168"),
    (
        "243f6a8885a308d313198a2e03707344a4093822299f31d0082efa98ec4e6c89",
        "452821e638d01377be5466cf34e90c6cbe5466cf34e90c6cc0ac29b7c97c50dd",
        "a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4",
    ),
]


def words(text):
    text = text.replace(" ", "")
    return np.array([int(text[i : i + 16], 16) for i in range(0, 64, 16)], dtype=np.uint64)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers_of_the_generator(counter, key, expected):
    found = threefry.bits(words(key).astype("<u8").tobytes(), words(counter)[:, None])
    assert np.array_equal(found[:, 0], words(expected))


def test_bits_belong_to_a_cell_whatever_stands_beside_it():
    secret, ids = Secret(BYTES), cell_ids({"cell": [str(i) for i in range(20_000)]})
    whole, part = secret.words(ids, 3, 1), secret.words(ids[:, 9_000:9_007], 3, 1)
    assert np.array_equal(whole[:, 9_000:9_007], part)
    for other in (
        secret.words(ids, 3, 2),
        secret.words(ids, 4, 1),
        Secret(BYTES[::-1]).words(ids, 3, 1),
    ):
        assert not np.any(whole == other)
    u = uniform(whole)
    assert u.min() > 0 and u.max() < 1
    # 80,000 numbers: mean and every pair of words within 5 standard errors
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * u.size)
    assert np.all(np.abs(np.corrcoef(u) - np.eye(4)) < 5 / np.sqrt(u.shape[1]))


def test_cells_of_the_same_name_have_ids_of_their_own():
    ids = cell_ids({"a": ["x", "x", "x", "y"], "b": ["1", "1", "2", "1"]})
    assert len({tuple(one) for one in ids.T.tolist()}) == 4
    apart = cell_ids({"a": ["x1", "x"], "b": ["1", "11"]})  # not by joining the labels' letters
    assert apart[:, 0].tolist() != apart[:, 1].tolist()
    groups = group_ids(ids, np.array([1, 2, 0, 1]), 2)
    assert groups[:, 0].tolist() == ids[:, 2].tolist()
    assert groups[:, 1].tolist() == (ids[:, 0] ^ ids[:, 3]).tolist()


def test_a_jax_key_of_the_secret_is_reproducible():
    one, two = Secret(BYTES).key(), Secret(BYTES).key()
    assert str(jax.random.key_impl(one)) == "threefry2x32"
    assert np.array_equal(jax.random.key_data(one), jax.random.key_data(two))
    other = jax.random.key_data(Secret(BYTES).key(1))
    assert not np.array_equal(jax.random.key_data(one), other)


def test_the_input_digest_tells_counts_and_request_and_needs_the_secret():
    secret = Secret(BYTES)
    own = secret.digest(np.arange(3.0), "r")
    assert own == secret.digest(np.arange(3.0), "r")
    others = [
        secret.digest(np.arange(3.0) + np.array([0, 0, 1]), "r"),
        secret.digest(np.arange(3.0), "s"),
        Secret(BYTES[::-1]).digest(np.arange(3.0), "r"),
    ]
    assert own not in others and len(set(others)) == 3


def test_the_cryptographic_generator_is_aes():
    """FIPS 197, appendix C.3, and CBC with a zero start by the library's own mode."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    key, plain = bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")
    known = bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")
    ids = np.frombuffer(plain, "<u8").reshape(2, 1)
    counters = np.random.default_rng(0).integers(0, 2**62, (4, 5), dtype=np.uint64)
    counters[:2, :1] = ids
    counters[2:, 0] = 0
    # E(known ⊕ 0) is the second block of the first message: decrypting gives the known answer
    back = ciphers.Cipher(ciphers.algorithms.AES256(key), ciphers.modes.ECB()).decryptor()
    first = aes.bits(key, counters)[:2, 0].astype("<u8").tobytes()
    assert back.update(first) == known
    for column, bits in zip(counters.T, aes.bits(key, counters).T, strict=True):
        a, b, c, d = (int(x) for x in column)
        for half in (0, 1):
            message = b"".join(x.to_bytes(8, "little") for x in (a, b, 2 * c + half, d))
            chain = ciphers.Cipher(ciphers.algorithms.AES256(key), ciphers.modes.CBC(bytes(16)))
            expected = chain.encryptor().update(message)[16:]
            assert bits[2 * half : 2 * half + 2].astype("<u8").tobytes() == expected


def test_a_release_says_which_generator_it_used(make, seeded, monkeypatch):
    pytest.importorskip("cryptography")
    seeded(3)
    fast, slow, again = (make(bits=bits) for bits in ("threefry", "aes256", "aes256"))
    assert np.array_equal(slow.released, again.released)
    assert not np.array_equal(fast.released, slow.released)
    assert slow.metadata["generator"] == "aes256-cbc-mac"
    assert "with aes256-cbc-mac" in slow.metadata["caveat"]
    assert "it is a cryptographic generator" in slow.metadata["caveat"]
    assert "it is not a cryptographic generator" in fast.metadata["caveat"]
    with pytest.raises(ValueError, match='`bits` must be one of "threefry", "aes256"'):
        make(bits="dice")
    overlap = cdp.linear([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0, 0]])
    unit = cdp.differences([1, -1] + [0] * 6)
    with pytest.raises(cdp.UnsupportedError, match="drawn cell by cell"):
        make(invariant=overlap, neighbours=unit, noise="laplace", delta=0.0, bits="aes256")
    with pytest.raises(cdp.UnsupportedError, match="keys hold 64 bits"):
        Secret(BYTES, "aes256").key()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ValueError, match=r"extra secure: pip install 'cdp-views\[secure\]'"):
        make(bits="aes256")

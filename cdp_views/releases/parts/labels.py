"""One public column of a part: numbered values, and the ids of these."""

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cdp_views.releases.noise.cells import text_ids

if TYPE_CHECKING:
    from hashlib import _Hash

_PREFIX = 2**12  # rows in which few values have most likely all appeared


class Labels(NamedTuple):
    """Values of a column, numbered as they first appear.

    Args:
        codes: (n,) which value, in the smallest of int8, int16 and int32 that holds their number.
        ids: (2, values) uint64, of the values as text.
    """

    codes: np.ndarray
    ids: np.ndarray

    def tell(self, seen: "_Hash") -> None:
        """Take all of it into a hash, however the file holds it; equal neighbours once."""
        fresh = self.codes[1:] != self.codes[:-1]
        few = self.codes
        if 2 * np.count_nonzero(fresh) < few.size:
            few = np.append(few[:1], few[1:][fresh])
        sizes = [self.codes.size, len(few), few.dtype.itemsize, self.ids.shape[1]]
        seen.update(json.dumps(sizes).encode())
        seen.update(np.ascontiguousarray(self.ids, dtype="<u8"))
        seen.update(np.packbits(fresh))
        seen.update(np.ascontiguousarray(few, dtype=few.dtype.newbyteorder("<")))


def labels_of(column: Any) -> Labels:
    """Of an Arrow column without missing entries.

    Equal neighbours are looked up once, and so are the entries of a dictionary: a label costs
    little where it repeats.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError: it cannot be read as text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    n = len(column)
    if not n:
        return Labels(np.zeros(0, dtype=np.int8), np.zeros((2, 0), dtype=np.uint64))
    whole = column.combine_chunks()
    whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    if pa.types.is_dictionary(whole.type):
        codes, values = _numbered(whole)
    else:
        encode = pc.run_end_encode  # pyright: ignore[reportAttributeAccessIssue]
        runs = encode(whole, run_end_type=pa.int64())
        codes, values = _distinct(runs.values)
        if len(codes) < n:
            codes = np.repeat(codes, np.diff(runs.run_ends.to_numpy(), prepend=0))
    text: Any = pc.cast(values, pa.large_string())
    ends = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset :][: len(text) + 1]
    data = np.frombuffer(text.buffers()[2] or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    return Labels(codes, text_ids(data, np.diff(ends)))


def _distinct(runs: Any) -> tuple[np.ndarray, Any]:
    """Codes and values of what neighbours share; numbers in order are all different."""
    import pyarrow as pa

    if pa.types.is_integer(runs.type):
        numbers = runs.to_numpy()
        if np.all(numbers[1:] > numbers[:-1]):
            return np.arange(numbers.size, dtype=_smallest(numbers.size)), runs
    coded = runs.dictionary_encode()
    return coded.indices.to_numpy().astype(_smallest(len(coded.dictionary))), coded.dictionary


def _numbered(whole: Any) -> tuple[np.ndarray, Any]:
    """Codes and values of a dictionary column, in which a value may stand twice or be unused."""
    import pyarrow as pa

    same = whole.dictionary.dictionary_encode()
    indices = whole.indices.to_numpy()
    used = np.bincount(indices, minlength=len(whole.dictionary)) > 0
    first = same.indices.to_numpy()[: used.size]
    wanted = np.unique(first[used])
    start = first[indices[:_PREFIX]]
    values, places = np.unique(start, return_index=True)
    if values.size < wanted.size:
        values, places = np.unique(first[indices], return_index=True)
    order = values[np.argsort(places)]
    number = np.zeros(len(same.dictionary), dtype=_smallest(order.size))
    number[order] = np.arange(order.size)
    return np.take(number[first], indices), same.dictionary.take(pa.array(order))


def _smallest(values: int) -> type[np.signedinteger]:
    """The type of codes of so many values."""
    return np.int8 if values <= 2**7 else np.int16 if values <= 2**15 else np.int32

"""The cut never changes: golden values, written down from published md5 and MurmurHash3 vectors."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.contract.buckets import HASH_NAME, HASH_VERSION, bucket_of, hash64, hash64_text, mix32, salt_of

# text, the first half of its published md5, its bucket of 16
GOLDEN = [
    ("", "d41d8cd98f00b204", 15),
    ("a", "0cc175b9c0f1b6a8", 0),
    ("42", "a1d0c6e83f027327", 15),
    ("red", "bda9643ac6601722", 6),
    ("17850", "ebdbcb5360801434", 0),
    ("00042", "fa0fe7a225b3d30d", 5),
    ("пользователь", "1075de897df42cd7", 13),
]


@pytest.mark.parametrize(("text", "md5_start", "bucket"), GOLDEN)
def test_b3_hash_and_bucket_of_a_text_are_what_they_always_were(text: str, md5_start: str, bucket: int) -> None:
    expected = int.from_bytes(bytes.fromhex(md5_start), "little")
    assert hash64_text(text) == expected
    assert hash64(pa.array([text])).tolist() == [expected]
    assert bucket_of(np.array([expected], np.uint64), 16).tolist() == [bucket]


def test_b3_a_change_of_the_hash_would_need_another_version() -> None:
    assert (HASH_NAME, HASH_VERSION) == ("md5-low64-le", 1)


def test_b5_two_processes_agree_on_every_bucket() -> None:
    program = (
        "import numpy as np, pyarrow as pa\n"
        "from resources.contract.buckets import bucket_of, hash64\n"
        "print(bucket_of(hash64(pa.array([f'user {i}' for i in range(1000)])), 16).tolist())\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert len(set(json.loads(seen.pop()))) == 16


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))))
def test_an_array_hashes_as_its_texts_do_and_null_is_zero(texts: list[str | None]) -> None:
    def reference(text: str) -> int:
        return int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "little")

    expected = [0 if text is None else reference(text) for text in texts]
    array = pa.array(texts, pa.string())
    assert hash64(array).tolist() == expected
    assert hash64(array.dictionary_encode()).tolist() == expected
    assert hash64(pa.chunked_array([array, array.slice(0, 1)])).tolist() == expected + expected[:1]


@given(st.lists(st.integers(0, 2**64 - 1)), st.integers(1, 4096))
def test_a_bucket_is_the_upper_half_modulo_their_number(hashes: list[int], num_buckets: int) -> None:
    expected = [(h >> 32) % num_buckets for h in hashes]
    assert bucket_of(np.array(hashes, np.uint64), num_buckets).tolist() == expected


def test_category_codes_are_murmur3s_finaliser_of_the_folded_hash() -> None:
    # fmix32(1) = 0x514E28B7 stands in MurmurHash3's own test vectors
    assert mix32(np.array([1], np.uint64), 0).tolist() == [0x514E28B7]
    assert mix32(np.array([1 << 32], np.uint64), 0).tolist() == [0x514E28B7]
    assert mix32(np.array([3], np.uint64), 2).tolist() == [0x514E28B7]


def test_zero_stays_free_for_missing() -> None:
    assert mix32(np.array([0, 7 << 32 | 7], np.uint64), 0).tolist() == [1, 1]


def test_two_fields_give_one_value_two_codes() -> None:
    value = np.array([hash64_text("red")], np.uint64)
    assert salt_of("brand") == hash64_text("brand") & 0xFFFFFFFF
    assert mix32(value, salt_of("brand")) != mix32(value, salt_of("category"))


def test_c9_ids_that_a_float32_would_merge_stay_two() -> None:
    hashes = hash64(pa.array(["16777216", "16777217", "9007199254740992", "9007199254740993"]))
    assert len(set(hashes.tolist())) == 4

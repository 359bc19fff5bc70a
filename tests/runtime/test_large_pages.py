"""Memory in large pages: what is in them stays what it was, and what is shared stays shared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svc.runtime.large_pages import is_full

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")

_PROGRAM = """
import ctypes
import mmap
import os
from hashlib import sha256
from svc.runtime.large_pages import LARGE, use_large_pages

ctypes.CDLL(None).prctl(41, 0, 0, 0, 0)  # PR_SET_THP_DISABLE, which a process inherits
spare = mmap.mmap(-1, 2 * LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
spare[:] = b"x" * len(spare)
begin = -(-ctypes.addressof(ctypes.c_char.from_buffer(spare)) // LARGE) * LARGE
where = ctypes.c_void_p(begin), ctypes.c_size_t(LARGE)
print(ctypes.CDLL(None).madvise(*where, 25) == 0)  # MADV_COLLAPSE

held = bytearray(os.urandom(LARGE)) * 8
before = sha256(held).digest()

def large():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))

heard, said = os.pipe()
if not os.fork():
    os.write(said, b"%d" % use_large_pages())
    os._exit(0)
shared = int(os.read(heard, 9))
os.wait()
was = large()
count = use_large_pages()
print(count, shared, (large() - was) // (LARGE // 1024), before == sha256(held).digest())
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
print(use_large_pages())
"""


class LargePagesTests(SynchronousTestCase):
    def test_in_a_process(self) -> None:
        """A process gets large pages with the same bytes in them; a forked one shares as before."""
        told = subprocess.run(
            [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True, timeout=60
        )
        can, count, shared, more, is_same, when_disabled = told.stdout.split()
        self.assertEqual(when_disabled, "0")
        self.assertEqual(is_same, "True")
        if can == "False" or "[never]" in SETTING.read_text("ascii"):
            self.assertEqual(count, "0")
            raise SkipTest("this kernel makes no large pages when it is asked to")
        self.assertGreater(int(count), 0)
        self.assertGreaterEqual(int(more), 7)
        self.assertLess(int(shared), 7)

    @given(st.integers(0, 512), st.sampled_from([0x00, 0x80, 0x40, 0xA1, 0xA0]))
    def test_enough_of_it(self, count: int, other: int) -> None:
        """Most small pages must be there: in memory, of no file, and of nobody else."""
        tops = bytes([0x81]) * count + bytes([other]) * (512 - count)
        self.assertEqual(is_full(tops), count >= 384)

#!/usr/bin/env python3
"""Prints the table of include/headred/nn/metrics/lower_case.hpp from Python's own Unicode data.

    python3 tests/oracle/write_lower_case.py
"""

import unicodedata

rows = []
for code in range(0x110000):
    lower = chr(code).lower() if not 0xD800 <= code < 0xE000 else chr(0)
    if len(lower) != 1 or lower == chr(0) or ord(lower) == code:
        continue
    delta = ord(lower) - code
    if rows and rows[-1][3] == delta and code - rows[-1][1] <= 2 and rows[-1][2] in (0, code - rows[-1][1]):
        rows[-1][1:3] = code, code - rows[-1][1]
    else:
        rows.append([code, code, 0, delta])
print(f"// Unicode {unicodedata.unidata_version}: first, last, distance, what is added")
print(",\n".join(f"{{{first:#x}, {last:#x}, {max(1, step)}, {delta}}}" for first, last, step, delta in rows))

"""No torch in it: counts words in plain Python for a minute."""

import collections
import time

text = "the quick brown fox jumps over the lazy dog " * 2000
counts = collections.Counter()
end = time.monotonic() + 60
while time.monotonic() < end:
    counts.update(text.split())
    time.sleep(0.05)
print(counts.most_common(1))

"""JSON, TOML, or lines of `key = value`, by the file's ending."""

import json
import sys
from pathlib import Path

from loop import train

path = Path(sys.argv[1])
text = path.read_text()
if path.suffix == ".json":
    found = json.loads(text)["train"]
elif path.suffix == ".toml":
    import tomllib

    found = tomllib.loads(text)["train"]
else:
    found = dict(line.split(" = ") for line in text.splitlines() if " = " in line)
train(int(found["batch_size"]), int(found["grad_accum"]))

"""Starts parity.__main__ with what Bazel built and fetched at hand.

Lies in a folder of no modules, so that nothing of the package shadows another import.
"""

import os
import sys
from pathlib import Path

RUNFILES = Path(__file__).absolute().parents[3]
FOUND = {
    "DS4_DEEPSEEK_TOKENIZER": "deepseek/tokenizer.json",
    "DS4_EMBEDDED_MODEL": "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "DS4_LIBRARY": "ds4/native/libds4.so",
    "DS4_MINI_MODEL": "ds4/models/ds4-mini/ds4-mini.gguf",
    "DS4_ORACLES": "ds4/oracles/liboracles.so",
    "DS4_VOCABS": "vocabs/models",
}

if __name__ == "__main__":
    for name, place in FOUND.items():
        os.environ.setdefault(name, str(RUNFILES / place))
    # The processes that the gate starts find the packages as this one does.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    from parity.__main__ import main

    sys.exit(main())

"""`ds4` over a fake engine and a model of a few letters, for tests of what happens at a terminal.

The model answers with letters that follow from all tokens before, one each STEP_S seconds, until the context is full;
it never ends by itself. Run as `python -m support.fake_chat ARGUMENTS`; write_model makes the file.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ds4.cli.main import main
from ds4.core import model
from ds4.sys.descriptors import SessionDesc
from support.fake_native import FakeModel, FakeSession
from support.gguf_writer import STRING, tiny_llama

STEP_S = 0.02
TEMPLATE = "{% for m in messages %}{% if m.role == 'system' %}p{% endif %}{{ m.content }}{% endfor %}"


def write_model(path: Path, template: str | None = TEMPLATE) -> Path:
    """A whole model file whose vocabulary is the letters a to p."""
    writer = tiny_llama()
    writer.string("tokenizer.ggml.pre", "gpt-2")
    writer.array("tokenizer.ggml.merges", STRING, [])
    if template is not None:
        writer.string("tokenizer.chat_template", template)
    return writer.write(path)


class SlowSession(FakeSession):
    def __init__(self, fake: FakeModel, desc: SessionDesc) -> None:
        super().__init__(fake, desc)
        self.on_wait = lambda _: time.sleep(STEP_S)


if __name__ == "__main__":
    vars(model).update(NativeModel=FakeModel, NativeSession=SlowSession)
    sys.exit(main())

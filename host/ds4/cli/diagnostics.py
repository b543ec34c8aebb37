"""Looking at a model file without the engine: identify, inventory, validate, layout, bind plan, tokenize.

Nothing here imports `ds4.sys.native`: these work where no engine is built, and on files that no engine should touch.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ds4.cli.arguments import BIND_PLAN, IDENTIFY, INVENTORY, JSON, LAYOUT, SPECIAL, TOKENIZE, VALIDATE
from ds4.core import bind, expert_tables, inventory, qualified, render
from ds4.core.components import table
from ds4.core.exits import Exit
from ds4.core.families import deepseek4
from ds4.core.identify import identify_inventory
from ds4.core.inventory import Inventory
from ds4.core.options import MTP
from ds4.core.settings import Settings
from ds4.errors import ModelFileError


def run(settings: Settings, path: Path, text: str | None) -> int:
    """Prints every diagnostic that was asked for. text: what --tokenize is about. Raises ModelFileError."""
    loaded = inventory.load(path)
    drafting = settings[MTP]
    if drafting is not None:
        loaded = deepseek4.attach(loaded, inventory.load(drafting))
    reports: dict[str, tuple[Any, str]] = {}
    if settings[IDENTIFY]:
        identity = identify_inventory(loaded)
        known = qualified.of_model(identity, loaded)
        reports["identity"] = render.identity_dict(identity, known), render.render_identity(identity, known)
    if settings[INVENTORY]:
        reports["inventory"] = render.inventory_dict(loaded), render.render_inventory(loaded)
    if settings[LAYOUT]:
        layout = bind.layout(loaded)
        reports["layout"] = render.layout_dict(layout), render.render_layout(layout)
    if settings[BIND_PLAN]:
        plan = bind.plan(loaded)
        reports["bind_plan"] = render.plan_dict(plan), render.render_plan(plan)
    if settings[VALIDATE]:
        reports["validate"] = _validate(loaded)
    if text is not None:
        reports["tokenize"] = _tokenize(loaded, text, special=settings[SPECIAL])
    if settings[JSON]:
        # One report stands by itself; several are keyed.
        values = {name: value for name, (value, _) in reports.items()}
        show(json.dumps(values if len(values) > 1 else next(iter(values.values())), indent=2, ensure_ascii=False))
    else:
        show("\n\n".join(human for _, human in reports.values()))
    return Exit.OK


def components(settings: Settings) -> int:
    """Prints the promotion ledger as this process honours it."""
    rows = table()
    if settings[JSON]:
        show(json.dumps([asdict(row) for row in rows], indent=2))
        return Exit.OK
    cells = [("component", "state", "decides", "why"), *((r.name, r.state, r.side, r.why) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    show("\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells))
    return Exit.OK


def wanted(settings: Settings) -> bool:
    """Whether the command line asks for any of them."""
    return settings[TOKENIZE] is not None or any(
        settings[option] for option in (IDENTIFY, INVENTORY, VALIDATE, LAYOUT, BIND_PLAN)
    )


def show(text: str) -> None:
    """Prints a line or more."""
    # A name in a file may be no valid Unicode; it must not stop the report.
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def _validate(loaded: Inventory) -> tuple[Any, str]:
    """Every check the host can make by itself, in the order of loading; the first failure is raised."""
    # Here and not above: the tokenizer and the template engine are slow to import.
    from ds4.core.chat_template import TemplateChat
    from ds4.core.dialects import dialect
    from ds4.core.tokenizer import Tokenizer

    loaded.metadata.check()
    plan = bind.plan(loaded)
    expert_tables.check(plan)
    tokenizer = Tokenizer.from_metadata(loaded.metadata)
    if tokenizer.n_vocab > plan.hparams.n_vocab:
        raise ModelFileError(
            "more tokens than the model has logits",
            subject="tokenizer.ggml.tokens",
            expected=f"at most {plan.hparams.n_vocab}",
            found=tokenizer.n_vocab,
        )
    chat = dialect(loaded.metadata, tokenizer)
    template = isinstance(chat, TemplateChat)
    if chat is None:
        line = "none: prompts are used as they are"
    else:
        line = "compiles" if template else "not used: the family has a chat encoding of its own"
    value = {
        "valid": True,
        "metadata_keys": len(loaded.metadata),
        "tensors": len(loaded.tensors),
        "slots": len(plan.slots),
        "vocabulary": tokenizer.n_vocab,
        "chat_template": template,
        "notes": list(plan.notes),
    }
    lines = [
        f"metadata   {len(loaded.metadata)} keys",
        f"tensors    {len(loaded.tensors)} in {len(loaded.shards)} file{'s' if len(loaded.shards) > 1 else ''}",
        f"bind plan  {len(plan.slots)} slots",
        f"tokenizer  {tokenizer.n_vocab} tokens",
        f"template   {line}",
        *(f"note: {note}" for note in plan.notes),
        "valid",
    ]
    return value, "\n".join(lines)


def _tokenize(loaded: Inventory, text: str, *, special: bool) -> tuple[Any, str]:
    from ds4.core.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_metadata(loaded.metadata)
    ids = tokenizer.encode(text, special=special)
    pieces = [tokenizer.token_bytes(token).decode("utf-8", "backslashreplace") for token in ids]
    value = {"count": len(ids), "tokens": ids, "pieces": pieces}
    rows = [f"{token:>8}  {json.dumps(piece, ensure_ascii=False)}" for token, piece in zip(ids, pieces, strict=True)]
    return value, "\n".join([*rows, f"{len(ids)} token{'' if len(ids) == 1 else 's'}"])

"""ds4-mini, the deepseek4 model that comes along: the file is the one its page describes, and is read right."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from ds4.core import bind, catalog, inventory
from ds4.core.identify import identify
from ds4.core.tokenizer import Tokenizer
from ds4.errors import SettingsError
from ds4.sys.descriptors import Family, GgmlType

CHECK = json.loads((Path(__file__).parent / "data" / "ds4_mini_tokens.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model() -> Path:
    try:
        return catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))


def test_the_file_is_the_one_that_its_page_names(model: Path) -> None:
    page = Path(os.path.realpath(model)).parent / "README.md"
    if not page.is_file():
        pytest.skip("the page does not lie beside the file here")
    text = page.read_text(encoding="utf-8")
    raw = model.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    assert digest in text
    assert digest == next(one.sha256 for one in catalog.EMBEDDED if one.name == "ds4-mini"), (
        "what models verify expects"
    )
    assert f"{len(raw):,} bytes" in text


def test_it_is_identified_and_supported(model: Path) -> None:
    identity = identify(model)
    assert (identity.family, identity.supported, identity.name) == (Family.DEEPSEEK4, True, "ds4-mini")
    assert (identity.context_train, identity.n_vocab, identity.chat_template) == (8192, 4096, False)
    assert re.match(r"Q8_0 9\d%, BF16 ", identity.quant_summary)


def test_its_plan_is_its_shape(model: Path) -> None:
    plan = bind.plan(inventory.load(model))
    d = plan.hparams.dsv4
    assert d is not None and d.ratios == (0, 0, 4, 128, 4, 128)
    assert (plan.hparams.n_layer, plan.hparams.d_model) == (6, 256)
    assert (d.n_expert, d.n_expert_used, d.n_hash_layer, d.index_top_k, d.n_mtp) == (8, 2, 3, 64, 0)
    assert (len(plan.slots), plan.unknown, plan.notes, plan.ignored) == (178, (), (), ())
    kinds = {slot.type for slot in plan.slots}
    assert kinds == {GgmlType.Q8_0, GgmlType.BF16, GgmlType.F32, GgmlType.I32}


@pytest.mark.parametrize("case", CHECK["tests"], ids=range(len(CHECK["tests"])))
def test_its_ids_are_those_of_hugging_face(model: Path, case: dict[str, object]) -> None:
    tokenizer = Tokenizer.from_metadata(inventory.load(model).metadata)
    text = str(case["text"])
    assert tokenizer.encode(text, special=True) == case["ids"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_its_special_tokens_end_answers_and_cannot_be_written_by_a_user(model: Path) -> None:
    tokenizer = Tokenizer.from_metadata(inventory.load(model).metadata)
    assert {text: tokenizer.special_tokens[text] for text in CHECK["special_ids"]} == CHECK["special_ids"]
    assert tokenizer.stop_ids == {1} and not tokenizer.add_bos
    assert not set(tokenizer.encode("<｜User｜><think>")) & set(range(9))

"""The serving plan: what will be served and why so, worked out from metadata before anything is opened."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4 import __version__
from ds4.core import bind, catalog, defaults, identify, inventory, memory_plan, qualified
from ds4.core.options import BACKEND, BATCH, CTX, KV, MODEL, MODEL_DIR, NUMERIC, THREADS
from ds4.core.sampling import Sampling
from ds4.core.settings import Option, Settings
from ds4.errors import UnsupportedModelError
from ds4.server import plan_check
from ds4.server.arguments import MAX_SEQS, MEM_FLOOR, MODEL_ID
from ds4.sys.cpus import physical_cores
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc
from ds4.sys.memory import available_bytes

FALLBACK = Sampling(temperature=1.0, min_p=0.05)
"""Where neither client nor operator nor the model's file says anything: OpenAI's defaults, and a floor under noise."""


@dataclass(frozen=True)
class ServingPlan:
    settings: Settings
    path: Path
    model_id: str
    identity: identify.Identity
    inventory: inventory.Inventory
    bind: bind.BindPlan
    memory: memory_plan.MemoryPlan
    session: SessionDesc
    sampling: Sampling
    fingerprint: str

    @classmethod
    def make(cls, settings: Settings, available: int | None = None) -> ServingPlan:
        """available: bytes that may be planned with, if not all that there are. Raises SettingsError, ModelFileError,
        UnsupportedModelError, and what memory_plan has to say."""
        path = catalog.resolve(settings[MODEL], settings[MODEL_DIR])
        files = inventory.load(path)
        identity = identify.identify_inventory(files)
        if not identity.supported:
            raise UnsupportedModelError(identity.reason or "not supported", subject=str(path))
        plan = bind.plan(files)
        kv_type = GgmlType[settings[KV].upper()]
        memory = memory_plan.plan(
            plan.hparams,
            kv_type,
            identity.weight_bytes,
            available_bytes() if available is None else available,
            settings[CTX],
            settings[MAX_SEQS],
            settings[BATCH],
            settings[MEM_FLOOR],
        )
        session = SessionDesc(
            n_banks=memory.banks,
            n_ctx=memory.ctx,
            max_rows=memory_plan.step_rows(settings[BATCH], memory.ctx, memory.banks),
            max_out=memory.banks,
            n_threads=settings[THREADS] or physical_cores(),
            backend=Backend[settings[BACKEND].upper()],
            numeric=Numeric[settings[NUMERIC].upper()],
            kv_type=kv_type,
        )
        model_id = settings[MODEL_ID] or _model_id(settings, path)
        sampling = defaults.sampling(settings, files.metadata, FALLBACK)
        fingerprint = _fingerprint(files, session)
        return cls(settings, path, model_id, identity, files, plan, memory, session, sampling, fingerprint)

    def lines(self, url: str) -> list[str]:
        """The plan in a few lines for a person."""
        session, identity = self.session, self.identity
        why = "asked for" if self.settings.given(THREADS) else "one per physical core"
        return [
            f"model    {self.model_id}: {identity.architecture} {identity.size_label or ''}, {identity.quant_summary}",
            f"context  {session.n_ctx} tokens x {session.n_banks} banks, KV {session.kv_type.name.lower()}",
            *(f"         {line}" for line in self.memory.lines),
            f"threads  {session.n_threads} ({why})",
            f"verified {self.qualified.line}",
            f"address  {url}  (listening; loading the model)",
        ]

    def facts(self) -> dict[str, Any]:
        """What /v1/models tells beside the id."""
        identity = self.identity
        return {
            "architecture": identity.architecture,
            "n_params": identity.n_params,
            "size": identity.bytes,
            "quantization": identity.quant_summary,
            "context_train": identity.context_train,
            "supported_parameters": list(SUPPORTED),
        }

    @functools.cached_property
    def qualified(self) -> qualified.Standing:
        """What has been verified of this model, and what of this configuration goes beyond it."""
        session = self.session
        served = qualified.Configuration(
            session.backend.name.lower(),
            session.numeric.name.lower(),
            session.kv_type.name.lower(),
            session.n_ctx,
            session.n_banks,
        )
        return qualified.of_model(self.identity, self.inventory, served)

    def requested(self) -> dict[str, Any]:
        """What was asked for; null where the choice was left to the server."""
        return {
            option.name: _plain(self.settings[option]) if self.settings.given(option) else None for option in _ASKED
        }

    def issues(self) -> list[plan_check.Issue]:
        asked = {"ctx": self.settings[CTX], "max_seqs": self.settings[MAX_SEQS]}
        return plan_check.issues(self.memory, asked, self.bind.hparams.n_ctx_train)

    def json(self) -> str:
        return json.dumps(self.contents(), indent=2)

    def contents(self) -> dict[str, Any]:
        """The plan as --print-plan writes it."""
        session = self.session
        return {
            "version": __version__,
            "model": {"id": self.model_id, "path": str(self.path), **self.facts()},
            "requested": self.requested(),
            "effective": {
                "context": session.n_ctx,
                "banks": session.n_banks,
                "prefill_rows": session.max_rows,
                "threads": session.n_threads,
                "kv": session.kv_type.name.lower(),
                "numeric": session.numeric.name.lower(),
                "backend": session.backend.name.lower(),
            },
            "qualified": self.qualified.json(),
            "quote": plan_check.quote(self.memory).json(),
            "issues": [issue.json() for issue in self.issues()],
            "memory": list(self.memory.lines),
            "fingerprint": self.fingerprint,
            "settings": {
                option.name: {"value": _plain(self.settings.visible(option)), "source": self.settings.source(option)}
                for option in self.settings.program.options
            },
        }


_ASKED: tuple[Option[Any], ...] = (MODEL, CTX, MAX_SEQS, BATCH, THREADS, KV, NUMERIC, BACKEND, MEM_FLOOR)

SUPPORTED = (
    "frequency_penalty", "grammar", "ignore_eos", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "min_p", "n", "presence_penalty", "regex", "repetition_penalty", "response_format", "seed", "stop", "stream",
    "stream_options", "temperature", "top_k", "top_logprobs", "top_p",
)  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _model_id(settings: Settings, path: Path) -> str:
    """The catalog's name of a model that was asked for by name, else the file's name without shard and suffix."""
    if any(settings[MODEL] == model.name for model in catalog.EMBEDDED):
        return settings[MODEL]
    shard = inventory.shard_name(path.name)
    return catalog.readable(shard.stem if shard is not None else path.name.removesuffix(".gguf"))


def _fingerprint(files: inventory.Inventory, session: SessionDesc) -> str:
    """Changes when weights, numeric mode, KV type or build do: what OpenAI's system_fingerprint is for."""
    digest = hashlib.blake2b(digest_size=6)
    for name, tensor in sorted(files.tensors.items()):
        digest.update(f"{name} {tensor.dims} {tensor.type} {tensor.offset} {tensor.nbytes}\n".encode())
    digest.update(f"{session.numeric} {session.kv_type} {session.backend} {__version__}".encode())
    return f"ds4-{__version__}-{digest.hexdigest()}"

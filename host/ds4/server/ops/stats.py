"""/v1/stats: the server's state and counts for people and scripts, as JSON in sections."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ds4 import __version__
from ds4.server.metrics import Histogram, Metrics
from ds4.server.ops.account import OUTCOMES
from ds4.server.ops.banks import BankCounts, bank_map
from ds4.server.service import Service
from ds4.sys.memory import available_bytes, rss


def stats(service: Service) -> dict[str, Any]:
    """Every section is always there; what needs a loaded model is null until there is one."""
    metrics, served = service.metrics, service.served
    return {
        "object": "stats",
        "version": __version__,
        "state": service.state,
        "progress": round(service.progress, 3) if service.state == "loading" else None,
        "uptime_s": round(time.time() - metrics.started, 3),
        "model": None if served is None else served.model_id,
        "models": None if service.board is None else service.board.fleet.facts(),
        "plan": None if served is None else _plan(service),
        "requests": _requests(metrics),
        "routes": [
            {"surface": surface, "lane": lane, "reason": reason, "count": count}
            for (surface, lane, reason), count in sorted(metrics.routes.items())
        ],
        "sheds": dict(sorted(metrics.sheds.items())),
        "queue": None if served is None else _queue(service),
        "lobby": None if served is None else served.engine.lobby.facts(),
        "banks": None if served is None else _banks(service),
        "prefix": {
            "cached_tokens": metrics.cached_tokens,
            "computed_tokens": metrics.prompt_tokens - metrics.cached_tokens,
            "reuse": dict(sorted(metrics.reuses.items())),
            "misses": dict(sorted(metrics.misses.items())),
        },
        "tokens": {
            "generated": metrics.generated_tokens,
            "computed": metrics.prefill_rows,
            "cached": metrics.cached_tokens,
        },
        "speed": _speed(metrics),
        "memory": {"rss_bytes": rss(), "available_bytes": available_bytes()},
        "last_request": None if metrics.last is None else metrics.last.facts(),
    }


def _plan(service: Service) -> dict[str, Any]:
    served = service.served
    assert served is not None
    scheduler = served.engine.scheduler
    return {
        "context": served.context,
        "banks": len(scheduler.banks),
        "step_rows": scheduler.max_rows,
        "fingerprint": served.fingerprint,
        "prompt_cache": served.cache_prompt,
        **served.facts,
    }


def _requests(metrics: Metrics) -> dict[str, Any]:
    by_surface: dict[str, Counter[str]] = {}
    for (surface, outcome), count in sorted(metrics.requests.items()):
        by_surface.setdefault(surface, Counter(dict.fromkeys(OUTCOMES, 0)))[outcome] += count
    return {
        "http_open": metrics.clients,
        "by_surface": {surface: dict(counts) for surface, counts in by_surface.items()},
        "answers": dict(sorted(metrics.ends.items())),
        "cancelled": metrics.cancelled,
        "failed": metrics.failed,
    }


def _queue(service: Service) -> dict[str, Any]:
    assert service.served is not None
    running, waiting = service.served.engine.waiting()
    queued = service.served.engine.queued_bytes
    return {
        "running": running,
        "waiting": waiting,
        "bytes": queued,
        "mean_wait_ms": _mean_ms(service.metrics.queue_seconds),
    }


def _banks(service: Service) -> dict[str, Any]:
    assert service.served is not None
    banks = service.served.engine.scheduler.banks
    counts = BankCounts.of(banks)
    return {
        **counts.states(),
        "tokens": counts.tokens,
        "warm_tokens": counts.warm_tokens,
        "usage": round(counts.usage(service.served.context), 6),
        "each": bank_map(banks),
    }


def _speed(metrics: Metrics) -> dict[str, Any]:
    """Rates over the steps that only decoded and those that only read prompts: mixed ones tell neither."""
    return {
        "steps": metrics.steps,
        "decode_tok_s": _rate(metrics.pure_decode_rows, metrics.decode_ns),
        "prefill_tok_s": _rate(metrics.pure_prefill_rows, metrics.prefill_ns),
        "mean_batch": round(metrics.decode_rows / metrics.decode_steps, 3) if metrics.decode_steps else None,
        "mean_ttft_ms": _mean_ms(metrics.first_token),
        "mean_inter_token_ms": _mean_ms(metrics.between_tokens),
    }


def _rate(rows: int, ns: int) -> float | None:
    return round(rows * 1e9 / ns, 2) if ns else None


def _mean_ms(histogram: Histogram) -> float | None:
    count = histogram.count
    return round(1e3 * histogram.total / count, 3) if count else None

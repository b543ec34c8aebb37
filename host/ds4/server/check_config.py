"""What is read before anything is listened on or loaded, and --check-config, which reads all of it and tells what is
wrong: not the first thing alone, since who sets a server up would rather hear of them together."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from ds4.core import catalog
from ds4.core.exits import Exit, exit_code
from ds4.core.memory_plan import MemoryPlanError
from ds4.core.options import MODEL_DIR
from ds4.core.settings import Settings
from ds4.errors import Ds4Error, SettingsError, UnsupportedModelError
from ds4.server import arguments as args
from ds4.server import plan_check
from ds4.server.ops import logs
from ds4.server.ops.keys import Keyring
from ds4.server.ops.listen import permissions
from ds4.server.ops.tls import Tls
from ds4.server.plan import ServingPlan
from ds4.server.plan_check import Issue


def keyring(settings: Settings) -> Keyring:
    given = settings[args.API_KEY]
    return Keyring(given, settings[args.API_KEY_FILE], shared=settings[args.SHARED_CACHE])


def certificate(settings: Settings) -> Tls | None:
    return Tls.of(settings[args.TLS_CERT], settings[args.TLS_KEY], settings[args.TLS_KEY_PASSWORD_FILE])


def plan(settings: Settings) -> ServingPlan:
    """The plan, compared with the one that is expected."""
    made = ServingPlan.make(settings)
    if (expected := settings[args.EXPECT_PLAN]) is not None:
        plan_check.expected(expected, made.contents())
    return made


def check(settings: Settings) -> int:
    """Prints the plan, or all that stands in its way."""
    made: list[ServingPlan] = []

    def secured() -> None:
        if (tls := certificate(settings)) is not None:
            tls.context()

    def models() -> None:
        if settings[args.MODELS_MAX] > 1:
            catalog.entries(settings[MODEL_DIR])

    steps: tuple[Callable[[], object], ...] = (
        lambda: keyring(settings),
        secured,
        lambda: permissions(settings[args.UNIX_MODE]),
        models,
        lambda: made.append(plan(settings)),
    )
    wrong: list[Ds4Error] = []
    for step in steps:
        try:
            step()
        except Ds4Error as error:
            wrong.append(error)
    if not wrong:
        sys.stdout.write(made[0].json() + "\n")
        return Exit.OK
    found = [Issue("error", one.code, str(one)).json() for one in wrong]
    sys.stdout.write(json.dumps({"issues": found}, indent=2) + "\n")
    for one in wrong:
        logs.say(f"ds4-server: {one}")
    asked = any(isinstance(one, MemoryPlanError | UnsupportedModelError | SettingsError) for one in wrong)
    return Exit.USAGE if asked else exit_code(wrong[0])

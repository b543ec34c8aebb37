"""One trial of the mutation check, run in the copy of the tree that holds the fault: `python -m parity.trial NAME`.

Goldens, then the gate's own fuzz, up to the first difference. It is less than the gate does: hypothesis's examples and
the shrinking are left out, and the oracle, which has no fault, is not asked for goldens. So what is caught here is
caught there. Writes one line of JSON: {"golden": text, "fuzz": text}, "" for what saw nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from collections.abc import Iterator

from parity.component import Component, Run
from parity.fuzz import BY_HYPOTHESIS
from parity.runner import Case, Sides, cases, shielded

BROKEN = 3
"""Exit status when the component cannot even be imported: a fault that needs no gate to be noticed."""


def by_goldens(component: Component) -> str:
    """The first golden that the replacement does not answer as it should."""
    made: dict[str, Run] = {}
    for case in cases(component):
        if case.setup not in made:
            made[case.setup] = component.replacement(case.setup)
        if not component.equal(case.expected, shielded(made[case.setup], case.tape)):
            return _named(case)
    return ""


def _named(case: Case) -> str:
    return f"{case.golden}: {case.case}"


def by_fuzz(component: Component, examples: int, seed: int) -> str:
    """The first of the gate's examples on which the sides differ, or which the generator failed to make."""
    both = Sides(component)
    for number, data in enumerate(_seeds(component, examples, seed), start=1):
        try:
            value = component.inputs.make(data)
        except Exception as error:  # a generator that plays the replacement stops where that fails, and so does a gate
            return f"example {number}: its generator raised {type(error).__name__}: {error}"
        found = both.compare(value)
        if found is not None:
            return f"example {number}: {found.summary().strip()}"
    return ""


def _seeds(component: Component, examples: int, seed: int) -> Iterator[bytes]:
    """Those that parity.fuzz takes once hypothesis has made its own."""
    chance = random.Random(f"{seed} {component.name}")
    for _ in range(max(1, examples - BY_HYPOTHESIS)):
        yield chance.randbytes(chance.randint(component.inputs.least, component.inputs.most))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--examples", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--both", action="store_true", help="fuzz also what a golden has caught")
    args = parser.parse_args()
    try:
        component: Component = importlib.import_module(f"parity.components.{args.name}").COMPONENT
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return BROKEN
    golden = by_goldens(component)
    fuzzed = by_fuzz(component, args.examples, args.seed) if args.both or not golden else ""
    print(json.dumps({"golden": golden, "fuzz": fuzzed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

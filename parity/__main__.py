"""The gate as a command: `./dev gate [NAME ...]`, or `bazel run //parity:gate -- [NAME ...]`.

./dev gate                       proves what has changed; the table; exit status 1 when something is red
./dev gate NAME --full           proves these again, whatever is remembered
./dev gate show NAME [FILE]      both sides' outputs for a tape (or --golden FILE --case NAME), and where they part
./dev gate campaign [NAME ...]   the long fuzz and the soak; writes parity/evidence/
./dev gate promote NAME ...      lets Python decide, if the campaign is about these very files
./dev gate demote NAME ... --reason TEXT
./dev gate soak --minutes N      the live soak: a server under real HTTP clients
./dev gate load --minutes N      the load: many streams at once, hang-ups, a slow reader, long prompts
./dev gate kill --times N        a server killed at random moments serves again from its state directory
./dev gate qualify [FAMILY ...]  verifies families and model files; writes parity/qualified.toml
./dev gate mutate [NAME ...]     plants faults and counts those that the gate notices
./dev gate list                  the components
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ds4.errors import Ds4Error
from ds4.sys.tape import TapeError

from parity import campaign, gate, promotion
from parity.pending import clear as clear_pendings
from parity.pending import new_cases
from parity.pending import write as write_pending
from parity.registry import chosen
from parity.report import files as reports
from parity.report.table import table
from parity.runner import Disagreement, cases, shielded, sides

COMMANDS = ("show", "campaign", "promote", "demote", "soak", "load", "kill", "qualify", "mutate", "list")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 nothing is red; 1 something is; 2 the command itself cannot be done."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "judge"
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return VERBS[command](arguments[1:] if command != "judge" else arguments)
    except BrokenPipeError:
        return 1
    except (Ds4Error, TapeError, OSError) as error:
        say(f"gate: {error}")
        return 2
    except KeyboardInterrupt:
        say("gate: stopped")
        return 130


def _terminated(number: int, frame: object) -> None:
    """Ends as Ctrl-C does, so that what was started (a server, processes) ends too."""
    raise KeyboardInterrupt


def _parser(command: str, about: str) -> argparse.ArgumentParser:
    program = "./dev gate" + (f" {command}" if command else "")
    return argparse.ArgumentParser(program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def _count(least: int) -> Callable[[str], int]:
    """The type of a number on the command line that must not be smaller."""

    def count(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"at least {least}")
        return value

    count.__name__ = "number"
    return count


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError("minutes, 0 or more")
    return value


def _path(text: str) -> Path:
    """A path as the caller meant it: `bazel run` starts programs in another folder."""
    caller = os.environ.get("DS4_CALLER_DIR") or os.environ.get("BUILD_WORKING_DIRECTORY") or "."
    return Path(caller) / text


def _judge(arguments: Sequence[str]) -> int:
    parser = _parser("", __doc__ or "")
    parser.add_argument("names", nargs="*", metavar="NAME", help="components (default: all)")
    parser.add_argument("--full", action="store_true", help="prove everything again")
    parser.add_argument("--release", action="store_true", help="yellow is red")
    count, most = _count(0), gate.EXAMPLES
    parser.add_argument("--examples", type=count, default=most, help=f"of the fuzz (default {most:,}); 0: goldens only")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzz (default 1)")
    parser.add_argument("--no-speed", action="store_true", help="leave the performance axis out")
    parser.add_argument("--report", type=_path, metavar="DIR", help="write gate.json, gate.xml and gate.html there")
    jobs = os.cpu_count() or 1
    parser.add_argument("--jobs", type=_count(1), default=jobs, help="processes (default: one per processor)")
    args = parser.parse_args(arguments)
    plan = gate.Plan(args.full, args.examples, args.seed, not args.no_speed, args.jobs)
    findings = gate.judge(chosen(args.names), plan, say)
    sys.stdout.write(table(findings, colour=sys.stdout.isatty()))
    if args.report:
        reports.write(args.report, findings)
        say(f"report: {args.report}/gate.html")
    for finding in findings:
        clear_pendings(finding.component.name)
        for found in finding.differences:
            leave(found, finding.component.name)
    bad = {"red", "yellow"} if args.release else {"red"}
    return int(any(f.verdict in bad for f in findings))


def leave(found: Disagreement, name: str) -> None:
    """Leaves a disagreement for the review."""
    command = f"./dev gate {name} --full"
    path = write_pending(
        component=name,
        golden=found.golden or new_cases(name),
        case=found.case or f"fuzz {hashlib.sha256(found.tape).hexdigest()[:12]}",
        setup=found.setup,
        kind="tape",
        input=found.tape,
        expected=found.expected,
        found=found.replacement,
        oracle=found.oracle,
        why="mismatch at the gate" if found.golden else "fuzz, shrunk",
        command=command,
    )
    say(f"pending: {path} (./dev review)")


def _show(arguments: Sequence[str]) -> int:
    parser = _parser("show", "Prints what both sides write for one input tape. Exit status 1 when they differ.")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("file", nargs="?", metavar="FILE", help="an input tape; - or nothing: standard input")
    parser.add_argument("--golden", metavar="FILE", help="take the input of a golden case instead")
    parser.add_argument("--case", metavar="NAME")
    parser.add_argument("--setup", default="")
    args = parser.parse_args(arguments)
    component = chosen([args.name])[0]
    expected, setup = None, args.setup
    if args.golden or args.case:
        found = [
            c for c in cases(component)
            if (not args.golden or args.golden in c.golden) and (not args.case or c.case == args.case)
        ]  # fmt: skip
        if not found:
            files = sorted({c.golden for c in cases(component)})
            say(f"gate: there is no such golden case; {component.name} has {', '.join(files)}")
            return 2
        tape, setup, expected = found[0].tape, found[0].setup, found[0].expected
    elif args.file in (None, "-"):
        tape = sys.stdin.buffer.read()
    else:
        tape = _path(args.file).read_bytes()
    theirs, ours = sides(component).of(setup)
    outputs = {"oracle": theirs(tape), "python": shielded(ours, tape)}
    if expected is not None:
        outputs["golden"] = expected
    for side, out in outputs.items():
        sys.stdout.write(f"--- {side}\n{out.decode('utf-8', 'replace')}")
    first = next(iter(outputs.values()))
    same = all(component.equal(first, out) for out in outputs.values())
    if not same:
        found_one = Disagreement(component.name, setup, tape, outputs["oracle"], outputs["python"], expected)
        sys.stdout.write(f"--- they part\n{found_one.summary()}\n")
    return 0 if same else 1


def _campaign(arguments: Sequence[str]) -> int:
    parser = _parser("campaign", "The long fuzz and the soak. Writes parity/evidence/NAME.json of each that holds.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--examples", type=_count(1), default=gate.CAMPAIGN_EXAMPLES)
    parser.add_argument("--soak-minutes", type=_minutes, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and recorded")
    parser.add_argument("--jobs", type=_count(1), default=os.cpu_count() or 1)
    args = parser.parse_args(arguments)
    plan = campaign.Plan(args.examples, args.soak_minutes * 60, args.seed, args.jobs)
    results = campaign.run(chosen(args.names), plan, say)
    bad = 0
    for name, result in results.items():
        if result.evidence is None:
            bad += 1
            print(f"{name}: FAILED: {result.reason}")
            for found in result.differences[:3]:
                print(found.summary())
                leave(found, name)
            continue
        ran = result.evidence.fuzz
        assert ran is not None
        short = "" if gate.is_campaign(result.evidence) else " (too short to count: no evidence written)"
        print(f"{name}: {ran.examples:,} examples, no unexplained difference{short}")
    return int(bad > 0)


def _promote(arguments: Sequence[str]) -> int:
    parser = _parser(
        "promote", "Lets Python decide for these components. Refuses without a campaign on these very files."
    )
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--candidate", action="store_true", help="only shadow: the oracle goes on deciding")
    parser.add_argument("--reason", default="")
    args = parser.parse_args(arguments)
    for component in chosen(args.names):
        print(promotion.promote(component, "candidate" if args.candidate else "promoted", args.reason))
    return 0


def _demote(arguments: Sequence[str]) -> int:
    parser = _parser("demote", "Lets the oracle decide for these components.")
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--reason", required=True)
    args = parser.parse_args(arguments)
    for component in chosen(args.names):
        print(promotion.demote(component, args.reason))
    return 0


def _soak(arguments: Sequence[str]) -> int:
    from parity.live import soak

    return soak.main(arguments)


def _load(arguments: Sequence[str]) -> int:
    from parity.live import load

    return load.main(arguments)


def _kill(arguments: Sequence[str]) -> int:
    from parity.live import kill

    return kill.main(arguments)


def _qualify(arguments: Sequence[str]) -> int:
    from parity import qualify

    return qualify.main(arguments)


def _mutate(arguments: Sequence[str]) -> int:
    from parity import mutation

    return mutation.main(arguments)


def _list(arguments: Sequence[str]) -> int:
    _parser("list", "The components, what each is, and the axes it can affect.").parse_args(arguments)
    everything = chosen([])
    width = max(len(c.name) for c in everything)
    for component in everything:
        print(f"{component.name.ljust(width)}  {component.about}  [{' '.join(component.axes)}]")
    return 0


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "judge": _judge,
    "show": _show,
    "campaign": _campaign,
    "promote": _promote,
    "demote": _demote,
    "soak": _soak,
    "load": _load,
    "kill": _kill,
    "qualify": _qualify,
    "mutate": _mutate,
    "list": _list,
}

if __name__ == "__main__":
    sys.exit(main())

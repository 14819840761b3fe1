"""``ratebed claims``: what of the papers was reproduced."""

import json
import sys
from collections import defaultdict
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import SpecError
from paper_figs import paper_of_claims
from ratebed import options as o

if TYPE_CHECKING:
    from analysis.verdicts import Result

Record = Annotated[str, typer.Option("--record", metavar="FILE", help="keep them, with machine, commit and date")]
Adds = Annotated[bool, typer.Option("--add", help="of --record: claims that are in FILE and were not judged here stay")]
Against = Annotated[str, typer.Option("--against", metavar="FILE", help="what differs from a record, as of results/")]


def claims(
    out: o.Out = Path("out"), as_json: o.AsJson = False, record: Record = "", adds: Adds = False, against: Against = "",
    more: o.Claims = None,
) -> int:  # fmt: skip
    """The verdict on every claim, from the figures' tables; or --against a record: only what differs from it.

    The exit code: 1 = some contradicted, or judged from invalid runs alone; 3 = some undecided; else 0.  --against: 1 =
    some verdict is another one, or from invalid runs alone; else 0.
    """
    from analysis.report import claims_json
    from ratebed.judging import in_order, joint_counts, results_by_setting, summary_line
    from ratebed.pipeline import check_results

    asked = {"--record": bool(record), "--against": bool(against), "--json": as_json}
    if sum(asked.values()) > 1:
        raise SpecError(" and ".join(name for name, given in asked.items() if given), "give one of them")
    if adds and not record:
        raise SpecError("--add belongs to --record", "add --record FILE")
    check_results(out)
    results = in_order(results_by_setting(out, more or ()))
    if against:
        return _compared(against, results, out)
    if record:
        _keep(record, results, out, adds)
    elif as_json:
        print(json.dumps(claims_json(results), indent=2))
    else:
        for result in results:
            print(summary_line(result))
        for family, text in joint_counts(results).items():
            print(f"{paper_of_claims(family)}: {text}")
    return _exit_code(results, out)


def _exit_code(results: "list[Result]", out: Path) -> int:
    from analysis.verdicts import Judgement
    from ratebed.judging import counts

    judgements = {result.judgement for result in results if counts(result)}
    if _are_doubtful(results, out) or Judgement.CONTRADICTED in judgements:
        return 1
    return o.UNDECIDED if Judgement.UNDECIDED in judgements else 0


def _are_doubtful(results: "list[Result]", out: Path) -> bool:
    """Says which runs are not valid; whether a verdict that counts rests on invalid ones alone, or all there are do."""
    from ratebed.judging import counts
    from ratebed.pipeline import sections
    from ratebed.validity import standings_of, told

    runs = {run_id: each for section in sections(out).values() for run_id, each in standings_of(section).items()}
    return bool(told(runs)) or any(result.from_invalid for result in results if counts(result))


def _keep(record: str, results: "list[Result]", out: Path, adds: bool) -> None:
    from datetime import date

    from harness.code_version import commit
    from ratebed.behind import made_by
    from ratebed.judging import counts_line
    from ratebed.pipeline import sections
    from ratebed.record import MADE_BY, read_record, write_record
    from ratebed.reporting import this_machine

    here, described = _judged_here(results, out) if adds else _asked_for(results, out), sections(out).values()
    figures = {key for result in here for key in result.claim.figures}
    commits = made_by((section for section in described if section["key"] in figures), out / "runs")
    made = {"machine": this_machine(), "commit": commit(), MADE_BY: commits, "date": f"{date.today():%Y-%m-%d}"}
    before = read_record(Path(record)) if adds else None
    write_record(Path(record), here, described, made, out / "runs", before)
    print(f"{record}: {counts_line(here)}")
    if {*commits} - {commit()}:
        print(f"ratebed: made by the code of {', '.join(commits)}; judged by that of {commit()}", file=sys.stderr)


def _compared(against: str, results: "list[Result]", out: Path) -> int:
    from ratebed.judging import doubts_line
    from ratebed.record import CLAIMS, differences, read_record

    record = read_record(Path(against))
    asked = _asked_for(results, out, {claim["id"] for claim in record[CLAIMS]})
    lines, doubts = differences(record, asked), doubts_line(asked)
    print("\n".join(lines) or f"every verdict and number is as in {against}" + f" ({doubts})" * bool(doubts))
    return int(_are_doubtful(asked, out) or any(" as then" not in line for line in lines))


def _judged_here(results: "list[Result]", out: Path) -> "list[Result]":
    """Of claims all of whose figures are there, each in its setting: others are judged where they are."""
    from analysis.verdicts import Judgement
    from ratebed.pipeline import sections

    keys: dict[str, set[str]] = defaultdict(set)  # by setting; of a claim judged elsewhere, that is its testbed
    for section in sections(out).values():
        if not section["skipped"]:
            keys[section["setting"].removeprefix("@")].add(section["key"])
    judged = (each for each in results if each.judgement is not Judgement.NOT_RUN and each.claim.figures)
    return [each for each in judged if any({*each.claim.figures} <= keys[at] for at in ("", each.claim.testbed))]


def _asked_for(results: "list[Result]", out: Path, known: Set[str] = frozenset()) -> "list[Result]":
    """Without the claims of whose figures none was asked for, but for those that are ``known``."""
    from ratebed.pipeline import sections

    keys = {section["key"] for section in sections(out).values()}
    of_claims = ((each, each.claim) for each in results)
    return [each for each, claim in of_claims if not claim.figures or keys & {*claim.figures} or claim.id in known]

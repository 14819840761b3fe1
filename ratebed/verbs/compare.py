"""``ratebed compare``: virtual and emulated runs of one spec and seed, side by side."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import SpecError
from core.records import Json, Row
from ratebed import options as o

if TYPE_CHECKING:
    from analysis.fidelity import Pair


def compare(
    out: o.Out = Path("out"),
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    plot_invalid: o.PlotInvalid = False,
    as_json: o.AsJson = False,
) -> int:
    """Distances between the latencies, flipped decisions, claims with another verdict; of all pairs in --out.

    The exit code is 1 where the emulated runs of all pairs are invalid (they are left out, or --plot-invalid).
    """
    from ratebed.comparing import compared, flipped_claims, found_pairs, standings_of
    from ratebed.judging import results_by_setting
    from ratebed.validity import told

    on = o.spark_on(spark_master, spark_conf)
    pairs, left_out = found_pairs(out, plot_invalid)
    if not pairs and not left_out:
        raise SpecError(
            f"{out}: no emulated run has a virtual one of its spec and seed",
            "run a figure twice, --testbed mininet --scale small and --testbed virtual --scale small",
        )
    comparison: Json = {"pairs": [_pair(pair) for pair in pairs], "left_out": [_pair(pair) for pair in left_out]}
    comparison["invalid_count"] = len(left_out)
    comparison |= compared(out, pairs, left_out, on) if pairs else {"latencies": [], "decisions": [], "one_sided": []}
    comparison["claims"] = flipped_claims(results_by_setting(out))
    print(json.dumps(comparison, indent=2) if as_json else "\n".join(_lines(comparison)))
    return told(standings_of([*pairs, *left_out]))


def _pair(pair: "Pair") -> Json:
    names = ("virtual_run_id", "live_run_id", "testbed", "validity", "validity_reasons")
    return {name: getattr(pair, name) for name in names} | {name: pair.spec[name] for name in ("seed", "repetition")}


def _lines(comparison: Json) -> list[str]:
    kinds = Counter(pair["validity"] for pair in comparison["pairs"])
    doubts = {name: kinds[name] for name in ("degraded", "invalid")} | {
        "invalid, left out": comparison["invalid_count"]
    }
    notes = [f"{count} {what}" for what, count in doubts.items() if count]
    lines = [f"{len(comparison['pairs'])} pairs of runs" + (f" ({', '.join(notes)})" if notes else "")]
    for row in comparison["latencies"]:
        lines += [f"{_point(row)}  {row['metric']}  ({_pairs(row)})", *_latency_lines(row)]
    for row in comparison["decisions"]:
        lines += [f"{_point(row)}  decisions  ({_pairs(row)})", _decision_line(row)]
    for row in comparison["one_sided"]:
        pairs = f"{row['pair_count']} pair{'s' * (row['pair_count'] > 1)}"
        lines.append(f"{row['metric']}: the {row['only']} run alone has any in {pairs}, so nothing is compared there")
    for row in comparison["claims"]:
        doubt = "" if row["validity"] in (None, "valid") else f" (its runs are {row['validity']})"
        verdicts = f"{row['virtual_verdict']} in virtual time, {row['live_verdict']} on {row['testbed']}"
        lines.append(f"{row['claim']}: {verdicts}{doubt}")
    if not comparison["claims"]:
        lines.append("no claim that was judged on both has another verdict")
    return lines


def _point(row: Row) -> str:
    """The point's axes, and what tells it from others with these: ``slo=2ms``, options as ``brokers=2``."""
    from ratebed.comparing import AXES
    from studies.spec import RunSpec

    others = set(RunSpec.__struct_fields__) - set(AXES)
    varying = [f"{name.partition('.')[2] or name}={row[name]}" for name in row if "." in name or name in others]
    return " ".join([*(str(row[name]) for name in AXES), *varying])


def _pairs(row: Row) -> str:
    doubt = "" if row["validity"] == "valid" else f", {row['validity']}"
    return f"{row['pair_count']} pair{'s' * (row['pair_count'] > 1)}{doubt}"


def _latency_lines(row: Row) -> list[str]:
    from ratebed.comparing import AGREES_SHARE, AGREES_SLO_SHARE, APART

    parts = []
    for name in ("p50", "p95", "p99"):
        virtual, live = (row[f"{side}_{name}_ns"] / 1e6 for side in ("virtual", "live"))
        parts.append(f"{name} {virtual:.3f} -> {live:.3f} ms ({live - virtual:+.3f})")
    distance = f"Kolmogorov {row['kolmogorov_distance']:.3f}, Wasserstein {row['wasserstein_ns'] / 1e6:.3f} ms"
    slo = f" and {AGREES_SLO_SHARE:.0%} of the SLO, {row['slack_ns'] / 1e6:.3g} ms" if row["slack_ns"] else ""
    verdict = f"agrees within {AGREES_SHARE:.0%}{slo and ' or' + slo.removeprefix(' and')}"
    if not row["agrees"]:
        verdict = f"DIFFERS by more than {AGREES_SHARE:.0%}{slo}"
    lines = [f"    {'   '.join(parts)}", f"    {distance}: {verdict}"]
    return lines + [f"    {_apart(row)}"] * (row["kolmogorov_distance"] >= APART)


def _apart(row: Row) -> str:
    """What differs where two distributions hardly overlap: all by as much, or the tail more."""
    middle, tail = row["difference_p50_ns"], row["difference_p99_ns"]
    alike = abs(tail - middle) <= 0.5 * max(abs(middle), abs(tail))
    what = "all latencies moved alike" if alike else "the tail moved otherwise than the middle"
    return (
        f"they hardly overlap: {what}, {middle / 1e6:+.3f} ms at the median and {tail / 1e6:+.3f} ms at the p99; "
        "a percentile may agree and every message differ"
    )


def _decision_line(row: Row) -> str:
    ratio = row["admitted_ratio"]
    change = "" if ratio is None else f" ({ratio - 1:+.1%})"
    return (
        f"    {_flipped(row)}; admitted {row['virtual_admitted_count']:,} -> {row['live_admitted_count']:,}{change}; "
        f"lost {row['virtual_lost_count']:,} -> {row['live_lost_count']:,}"
    )


def _flipped(row: Row) -> str:
    """The share of all decisions together, and how it spreads over pairs."""
    if row["flipped_share"] is None:
        return "nothing that both decided"
    mean, low, high = (row[f"mean_flipped_share{end}"] for end in ("", "_low", "_high"))
    share = f"flipped {row['flipped_share']:.2%} of {row['decided_count']:,}"
    return f"{share} (mean of the pairs' shares {mean:.2%} [{low:.2%}, {high:.2%}])"

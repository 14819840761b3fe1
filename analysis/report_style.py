"""The report's style sheet: calm on screen, complete in print, verdicts told apart without colour."""

CSS = """
:root { color-scheme: light; --ink: #1c2024; --soft: #5b6470; --line: #d9dde2; --tint: #f6f7f9; --link: #0b5394; }
* { box-sizing: border-box; }
html { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
body { color: var(--ink); background: #fff; max-width: 66rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0; }
h3 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
p { margin: .5rem 0; max-width: 48rem; }
a { color: var(--link); text-underline-offset: .15em; }
code { font: .86em/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.soft, .source { color: var(--soft); }
.source { font-size: .9rem; margin: .15rem 0 0; }
header dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem; margin: 1rem 0 0;
  font-size: .92rem; }
header dt { color: var(--soft); }
header dd { margin: 0; overflow-wrap: anywhere; }
h2.paper { font-size: 1.6rem; margin-top: 4rem; }
th.paper { font-size: .95rem; color: var(--ink); padding-top: 1.4rem; }
.counts { display: flex; flex-wrap: wrap; gap: .6rem; list-style: none; padding: 0; margin: 1rem 0; }
.counts li { border: 1px solid var(--line); border-radius: .5rem; padding: .45rem .9rem .5rem; min-width: 8rem; }
.counts b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.legend { font-size: .88rem; color: var(--soft); }
main > section { border-top: 1px solid var(--line); margin-top: 2.6rem; padding-top: 1.8rem; }
nav ul { columns: 3 15rem; list-style: none; padding: 0; margin: .6rem 0 0; font-size: .92rem; }
nav li { break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; line-height: 1.4; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8rem; padding: .3rem .8rem .3rem 0; }
th, td { border-bottom: 1px solid var(--line); vertical-align: top; }
td { padding: .5rem .8rem .5rem 0; }
td:last-child, th:last-child { padding-right: 0; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.number, th.number { text-align: right; }
.claims td:first-child { font-weight: 600; white-space: nowrap; }
.claims .source { font-size: .82rem; }
.claims .measured { min-width: 15rem; font-size: .84rem; }
.measured div + div { margin-top: .3rem; }
.why { margin: .3rem 0 0; padding-left: .7rem; border-left: 3px solid var(--line); font-size: .88rem; }
.badge { display: inline-block; white-space: nowrap; border-radius: 1rem; padding: .05rem .6rem .1rem; font-size: .8rem;
  font-weight: 600; border: 1.5px solid; }
.reproduced { color: #0a5c3f; background: #e3f4ec; }
.direction-only { color: #0b4a80; background: #e4effa; border-style: dashed; }
.contradicted { color: #fff; background: #a3260f; border-color: #a3260f; }
.undecided { color: #6b4a00; background: #fdf3d7; border-style: dotted; }
.not-run { color: #4d5560; background: #fff; border-color: #b6bdc6; }
.fitted { color: #5a2a6b; background: #fff; border-style: double; border-width: 3px; padding: 0 .5rem; }
.holds, .fails, .unsure { white-space: nowrap; }
.fails { color: #a3260f; font-weight: 600; }
figure { margin: 1.2rem 0; }
figure img { display: block; max-width: 100%; height: auto; }
.skipped { background: var(--tint); border-radius: .5rem; padding: .9rem 1.1rem; }
.claim { margin: 1.4rem 0 0; }
.claim > p:first-child { margin-bottom: .3rem; }
.claim table { font-size: .85rem; }
.claim table.readings { width: auto; margin-top: .6rem; }
.readings td, .readings th { padding: .15rem 1.2rem .15rem 0; }
details { margin: .5rem 0; font-size: .9rem; }
summary { cursor: pointer; color: var(--link); }
.scroll { overflow-x: auto; max-height: 30rem; margin-top: .5rem; }
.data { width: auto; font-size: .82rem; }
.data td, .data th { padding: .15rem 1.2rem .15rem 0; }
.runs { columns: 12rem; list-style: none; padding: 0; margin: .5rem 0; }
pre { background: var(--tint); border-radius: .5rem; padding: .6rem .9rem; overflow-x: auto; margin: .6rem 0; }
@media (max-width: 46rem) { .claims .measured { min-width: 10rem; } body { padding: 1.2rem .9rem; } }
@media print {
  html { font-size: 10.5px; }
  body { max-width: none; padding: 0; }
  a { color: inherit; text-decoration: none; }
  h2, h3 { break-after: avoid; }
  figure, .claim, .counts { break-inside: avoid; }
  details:not([open]) { display: none; }
  .badge, .contradicted { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""

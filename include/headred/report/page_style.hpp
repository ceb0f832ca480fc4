// The look of the report: colours of both schemes as variables, one grid, rules for narrow windows and for paper.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_style = R"css(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0; --fill: #f3f5f7;
  --accent: #0b5fa5; --mark: #c2410c; --note: #fff7e6; --note-line: #d99a1c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e6e9ed; --soft: #a0a9b4; --line: #363d46; --fill: #1d2228;
    --accent: #6cb2f0; --mark: #ff9457; --note: #2a2416; --note-line: #a87a1e;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scrollbar-gutter: stable; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 0 0 2px; }
h1, .subtitle, td, th, li, .user { overflow-wrap: anywhere; unicode-bidi: isolate; }
bdi { display: inline-block; max-width: 100%; overflow-wrap: anywhere; }
#curve-caption bdi { display: inline; }
.subtitle { color: var(--soft); margin: 0; }
.caption { color: var(--soft); font-size: 13px; margin: 0 0 10px; max-width: 100ch; }
section { border-top: 1px solid var(--line); padding: 18px 0 22px; min-width: 0; }
section[hidden] { display: none; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 1px; margin: 18px 0 0;
  border: 1px solid var(--line); border-radius: 6px; overflow: hidden; }
.figures div { padding: 8px 12px; box-shadow: 0 0 0 1px var(--line); }
.figures dt { color: var(--soft); font-size: 12px; }
.figures dd { margin: 0; font-size: 19px; font-weight: 600; overflow-wrap: anywhere; }
.figures dd small { display: block; font-size: 12px; font-weight: 400; color: var(--soft); line-height: 1.35; }
.notes { margin: 14px 0 0; padding: 8px 14px 8px 30px; background: var(--note);
  border-left: 3px solid var(--note-line); border-radius: 0 4px 4px 0; font-size: 14px; }
.notes[hidden] { display: none; }
.pair { display: grid; grid-template-columns: minmax(0, 1.75fr) minmax(0, 1fr); column-gap: 34px;
  align-items: start; margin-top: 22px; }
.pair.single { grid-template-columns: minmax(0, 1fr); }
.pair.single .plot { max-width: 860px; }
.controls { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; font-size: 14px; margin: 6px 0 10px; }
.controls fieldset { display: inline-flex; border: 0; padding: 0; margin: 0; }
.controls fieldset[hidden] { display: none; }
.controls legend { float: left; padding: 0 6px 0 0; line-height: 29px; }
.controls input[type=radio] { position: absolute; opacity: 0; }
.controls input[type=radio] + label, button { border: 1px solid var(--line); background: var(--fill); color: inherit;
  font: inherit; line-height: 1; padding: 6px 10px; cursor: pointer; }
.controls input[type=radio] + label { margin-left: -1px; }
.controls label:first-of-type, button { border-radius: 5px; }
.controls fieldset label:first-of-type { border-radius: 5px 0 0 5px; }
.controls fieldset label:last-of-type { border-radius: 0 5px 5px 0; }
.controls input[type=radio]:checked + label { background: var(--accent); border-color: var(--accent);
  color: var(--paper); }
select { font: inherit; color: inherit; background: var(--fill); border: 1px solid var(--line); border-radius: 5px;
  padding: 4px 6px; max-width: min(60vw, 320px); }
:focus-visible, input[type=radio]:focus-visible + label { outline: 2px solid var(--accent); outline-offset: 2px; }
.plot { position: relative; width: 100%; aspect-ratio: 1; }
.plot canvas { position: absolute; inset: 0; width: 100%; height: 100%; touch-action: pan-y; cursor: crosshair; }
.plot canvas.zoomed { touch-action: none; cursor: grab; }
.tip { position: absolute; z-index: 2; pointer-events: none; background: var(--ink); color: var(--paper);
  font-size: 13px; line-height: 1.35; padding: 4px 8px; border-radius: 4px; max-width: 260px; white-space: pre-line; }
.tip[hidden] { display: none; }
.readout { display: block; min-height: 3em; margin-top: 6px; font-size: 13px; color: var(--soft); }
.scale { height: 66px; margin-top: 7px; } .curve { height: 270px; } .gap { height: 190px; }
.hold { position: relative; }
svg { display: block; overflow: visible; }
svg text { fill: var(--soft); font-size: 11.5px; }
svg .title { fill: var(--ink); } svg .strong { fill: var(--ink); font-weight: 600; }
svg .swatch { stroke: var(--soft); stroke-width: .5; }
svg .axis { stroke: var(--soft); fill: none; } svg .rule { stroke: var(--line); }
svg .line { stroke: var(--accent); stroke-width: 1.8; fill: none; stroke-linejoin: round; }
svg .dot { fill: var(--accent); } svg .band { fill: var(--accent); fill-opacity: .18; }
svg .whisker { stroke: var(--accent); stroke-width: 1.4; }
svg .chosen { stroke: var(--mark); stroke-dasharray: 4 3; fill: none; }
svg .chosen-dot { fill: var(--mark); } svg text.chosen-text { fill: var(--mark); font-weight: 600; }
svg .kept { fill: var(--accent); } svg .dropped { fill: var(--fill); stroke: var(--line); }
svg text.on-kept { fill: var(--paper); font-weight: 600; } svg .focus { stroke: var(--mark); stroke-width: 2;
  fill: none; }
.scroll { overflow: auto; max-height: 460px; border: 1px solid var(--line); border-radius: 5px; }
.scroll.free { max-height: none; border: 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; vertical-align: top; padding: 5px 10px; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { position: sticky; top: 0; background: var(--fill); z-index: 1; white-space: nowrap; }
thead th button { border: 0; background: none; padding: 3px 0; font-weight: 600; }
thead th[aria-sort=ascending] button::after { content: " \25B2"; }
thead th[aria-sort=descending] button::after { content: " \25BC"; }
td.right, th.right { text-align: right; }
th.right, th.left { width: 1%; }
td.right, td.left { white-space: nowrap; }
thead th, td.right, td.left { overflow-wrap: normal; }
td.members { min-width: 220px; }
.members b { color: var(--accent); }
.compare { width: auto; }
.compare th { position: static; background: none; white-space: normal; font-weight: 500; border: 0;
  overflow-wrap: normal; min-width: 82px; vertical-align: bottom; }
.compare tbody th { text-align: right; vertical-align: middle; width: 180px; }
.compare thead th { text-align: center; }
.compare span { display: inline-block; width: 108px; max-height: 6em; overflow: hidden; overflow-wrap: anywhere; }
.compare tbody span { width: auto; max-width: 180px; }
.compare td { text-align: center; vertical-align: middle; min-width: 82px; border: 2px solid var(--paper);
  border-radius: 4px; font-weight: 600; }
.compare td small { display: block; font-weight: 400; line-height: 1.3; white-space: nowrap; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr)); gap: 18px 26px; }
.panels h3 { font-size: 13.5px; margin: 0; font-weight: 600; overflow-wrap: anywhere; max-height: 4.6em;
  overflow: hidden;
  unicode-bidi: isolate; }
.settings { max-width: 820px; } .settings th { font-weight: 500; color: var(--soft); width: 34%; }
footer { color: var(--soft); font-size: 12.5px; padding-top: 14px; padding-bottom: 28px;
  border-top: 1px solid var(--line); }
@media (max-width: 940px) { .pair { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 520px) {
  main, header, footer { padding-left: 12px; padding-right: 12px; }
  .readout { min-height: 4.6em; } .compare tbody span { min-width: 104px; }
  thead th, thead th button { white-space: normal; font-size: 12.5px; line-height: 1.25; }
  td.members { min-width: 120px; } th, td { padding: 5px 6px; }
  h1 { font-size: 22px; } .compare th, .compare td { min-width: 70px; padding: 4px 5px; }
}
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #c8c8c8; --fill: #f3f3f3;
    --accent: #0b5fa5; --mark: #b33a08; --note: #ffffff; --note-line: #999999; }
  body { font-size: 11pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .controls, .tip, .hint { display: none; }
  .scroll { max-height: none; overflow: visible; }
  section, .panels > div, tr { break-inside: avoid; }
  .long, .scroll { break-inside: auto; }
  thead th { position: static; }
  .plot { max-width: 170mm; }
  .hold svg { max-width: 100%; height: auto; }
}
)css";

}  // namespace headred::detail

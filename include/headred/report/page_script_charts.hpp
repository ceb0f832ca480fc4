// The report's script, part 4: silhouette curve and layer gaps, as SVG.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_script_charts = R"js(
// Axes of a chart: frame, ticks, titles, and the two maps from values to pixels.
const chartFrame = (width, height, [x0, x1], [y0, y1], xTitle, yTitle, whole) => {
  const yTicks = ticksOf(y0, y1, height / 45), yTexts = yTicks.at.map((v) => fixed(v, yTicks.digits));
  const widest = Math.max(...yTexts.map((text) => text.length));  // digits are at most 7.4 px wide
  const box = {left: Math.max(50, 27 + 7.4 * widest), right: width - 10, top: 10, bottom: height - 38};
  const x = (v) => x1 > x0 ? box.left + (v - x0) / (x1 - x0) * (box.right - box.left) : (box.left + box.right) / 2;
  const y = (v) => y1 > y0 ? box.bottom - (v - y0) / (y1 - y0) * (box.bottom - box.top) : (box.top + box.bottom) / 2;
  const picture = svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img'});
  yTicks.at.forEach((v, i) =>
    picture.append(svg('line', {class: 'rule', x1: box.left, x2: box.right, y1: y(v), y2: y(v)}),
        svg('text', {x: box.left - 6, y: y(v) + 4, 'text-anchor': 'end'}, yTexts[i])));
  const xTicks = ticksOf(x0, x1, width / 60);
  for (const v of xTicks.at.filter((v) => !whole || Number.isInteger(Number(v.toFixed(6)))))
    picture.append(svg('line', {class: 'axis', x1: x(v), x2: x(v), y1: box.bottom, y2: box.bottom + 4}),
        svg('text', {x: x(v), y: box.bottom + 16, 'text-anchor': 'middle'}, fixed(v, whole ? 0 : xTicks.digits)));
  const middle = (box.top + box.bottom) / 2;
  picture.append(svg('path', {class: 'axis', d: `M${box.left} ${box.top}V${box.bottom}H${box.right}`}),
      svg('text', {class: 'title', x: (box.left + box.right) / 2, y: height - 5, 'text-anchor': 'middle'}, xTitle),
      svg('text', {class: 'title', 'text-anchor': 'middle', transform: `translate(11 ${middle}) rotate(-90)`},
          yTitle));
  return {picture, box, x, y};
};

// A path through the points; a missing value interrupts it.
const pathOf = (points) => {
  let path = '', pen = false;
  for (const [x, y] of points) {
    if (!isNumber(y)) {
      pen = false;
      continue;
    }
    path += `${pen ? 'L' : 'M'}${x.toFixed(2)} ${y.toFixed(2)}`;
    pen = true;
  }
  return path;
};

// Values with a little room around them; a single value sits in the middle.
const rangeOf = (values) => {
  const known = values.filter(isNumber);
  if (!known.length) return [0, 1];
  const low = Math.min(...known), high = Math.max(...known),
        room = (high - low) * 0.08 || Math.max(0.01, Math.abs(high) * 0.1);
  return [low - room, high + room];
};

// The point nearest to the pointer is named in a tip.
const nameNearest = (host, picture, points) => {
  const tip = tipFor(host);
  picture.addEventListener('pointermove', (event) => {
    const at = event.clientX - host.getBoundingClientRect().left;
    const known = points.filter((p) => isNumber(p.y));
    if (!known.length) return;
    const nearest = known.reduce((best, p) => Math.abs(p.x - at) < Math.abs(best.x - at) ? p : best);
    tip.show(nearest.text, nearest.x, nearest.y);
  });
  picture.addEventListener('pointerleave', tip.hide);
};

const drawCurve = () => {
  if (!data.curve.length) return;
  const chosen = data.curve.find(([k]) => k === data.k);
  byId('curve-caption')
      .append('Mean silhouette of all heads', ...(data.on ? [', on ', tag('bdi', {}, data.on)] : []),
          '; higher means clearer clusters. ', data.k ? `Chosen: k = ${data.k}. ` : '',
          tag('bdi', {}, sentence(data.by && data.by[0].toUpperCase() + data.by.slice(1))));
  const host = byId('curve'), first = data.curve[0][0], last = data.curve.at(-1)[0];
  responsive(host, (width) => {
    const {picture, box, x, y} = chartFrame(width, 270, [first, last], rangeOf(data.curve.map(([, s]) => s)),
        'number of clusters k', 'mean silhouette', true);
    picture.setAttribute('aria-label', `mean silhouette for k from ${first} to ${last}`);
    const at =
        data.curve.map(([k, s]) => ({x: x(k), y: isNumber(s) ? y(s) : null, text: `k = ${k}: ${fixed(s, 4)}`}));
    if (data.k >= first && data.k <= last)
      picture.append(svg('line', {class: 'chosen', x1: x(data.k), x2: x(data.k), y1: box.top, y2: box.bottom}));
    picture.append(svg('path', {class: 'line', d: pathOf(at.map((p) => [p.x, p.y]))}));
    if ((box.right - box.left) / at.length > 6)
      for (const p of at)
        if (isNumber(p.y)) picture.append(svg('circle', {class: 'dot', cx: p.x, cy: p.y, r: 2.6}));
    if (data.k >= first && data.k <= last) {
      const height = chosen && isNumber(chosen[1]) ? y(chosen[1]) : null,
            right = x(data.k) > (box.left + box.right) / 2;
      if (height !== null) picture.append(svg('circle', {class: 'chosen-dot', cx: x(data.k), cy: height, r: 4.5}));
      const high = height !== null && height < box.top + 40;
      picture.append(svg('text', {
        class: 'chosen-text',
        x: x(data.k) + (right ? -7 : 7),
        y: high ? box.bottom - 8 : box.top + 11,
        'text-anchor': right ? 'end' : 'start'
      },
          height === null ? `k = ${data.k}` : `k = ${data.k}: ${fixed(chosen[1], 3)}`));
    }
    picture.append(svg('rect',
        {x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: 'transparent'}));
    host.replaceChildren(picture);
    nameNearest(host, picture, at);
  });
};

const drawGaps = () => {
  const curves = data.gaps.filter(({points}) => points.length);
  if (!curves.length) return;
  const banded = curves.some(({points}) => points.some(([, , low, high]) => isNumber(low) && isNumber(high)));
  byId('gaps-caption').textContent =
      'Mean distance of the pairs of heads that many layers apart; gap 0 is two heads of one layer.' +
      (banded ? ' Bars: bootstrap interval.' : '') + ' Every panel has its own vertical range.';
  for (const {name, points} of curves) {
    const host = tag('div', {class: 'gap hold'});
    byId('gaps').append(tag('div', {}, tag('h3', {}, name), host));
    responsive(host, (width) => {
      const gaps = points.map(([gap]) => gap), room = gaps.at(-1) > gaps[0] ? 0.3 : 0;
      const {picture, box, x, y} = chartFrame(width, 190, [gaps[0] - room, gaps.at(-1) + room],
          rangeOf(points.flatMap(([, ...v]) => v)), 'layer gap', 'mean distance', true);
      picture.setAttribute('aria-label', `mean ${name} by layer gap`);
      const at = points.map(([gap, middle, low, high]) => ({
        x: x(gap),
        y: isNumber(middle) ? y(middle) : null,
        text: `gap ${gap}: ${fixed(middle, 4)}${
            isNumber(low) && isNumber(high) ? `\n${fixed(low, 4)} to ${fixed(high, 4)}` : ''}`
      }));
      picture.append(svg('path', {class: 'line', d: pathOf(at.map((p) => [p.x, p.y]))}));
      points.forEach(([, , low, high], i) => {
        if (isNumber(low) && isNumber(high))
          picture.append(svg('path', {class: 'whisker', d: `M${at[i].x - 3} ${y(low)}h6m-3 0V${y(high)}m-3 0h6`}));
        if (isNumber(at[i].y)) picture.append(svg('circle', {class: 'dot', cx: at[i].x, cy: at[i].y, r: 2.8}));
      });
      picture.append(svg('rect',
          {x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: 'transparent'}));
      host.replaceChildren(picture);
      nameNearest(host, picture, at);
    });
  }
};

const drawCharts = () => {
  drawCurve();
  drawGaps();
};
)js";

}  // namespace headred::detail

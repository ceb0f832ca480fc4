// The report's script, part 2: the matrices as the page carries them, names along an axis, the hands on the heatmap.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_script_matrix = R"js(
// Codes of the upper triangle, unpacked when first needed; `missing` stands for NaN.
const missing = 2 ** data.bits - 1;
const unpackedCodes = new Map();
const codesOf = (matrix) => {
  if (unpackedCodes.has(matrix)) return unpackedCodes.get(matrix);
  const bytes = atob(data.distances[matrix].packed);
  const codes = new Uint16Array(N * (N + 1) / 2);
  for (let i = 0, at = 0, pending = 0, filled = 0; i < codes.length; ++i) {
    for (; filled < data.bits; filled += 8) pending |= bytes.charCodeAt(at++) << filled;
    codes[i] = pending & missing;
    pending >>>= data.bits;
    filled -= data.bits;
  }
  unpackedCodes.set(matrix, codes);
  return codes;
};
const codeAt = (codes, i, j) =>
    i <= j ? codes[i * N - i * (i - 1) / 2 + j - i] : codes[j * N - j * (j - 1) / 2 + i - j];
const valueAt = (codes, i, j) => {
  const code = codeAt(codes, i, j);
  return code === missing ? null : code / (missing - 1);
};
const valueDigits = Math.floor(Math.log10(missing));

// Neighbours that share a group (layer or cluster), as [first, end, group].
const runsOf = (heads, groupOf) => {
  const runs = [];
  heads.forEach((head, position) => {
    const group = groupOf(head);
    if (runs.length && runs.at(-1)[2] === group)
      runs.at(-1)[1] = position + 1;
    else
      runs.push([position, position + 1, group]);
  });
  return runs;
};

// Places at least `room` apart within [low, high], in order and as near as can be to those wanted, by least squares;
// null where there is no room for all.
const spreadOut = (wanted, room, low, high) => {
  if (wanted.length * room > high - low) return null;
  const blocks = [];
  wanted.forEach((at, i) => {
    let block = {sum: at - i * room, count: 1};
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count > block.sum / block.count) {
      const before = blocks.pop();
      block = {sum: before.sum + block.sum, count: before.count + block.count};
    }
    blocks.push(block);
  });
  const first = low + room / 2, last = high - room / 2 - (wanted.length - 1) * room;
  return blocks.flatMap(({sum, count}) => Array(count).fill(clamp(sum / count, first, last)))
      .map((at, i) => at + i * room);
};

// Names of clusters: upright beside their own where all fit so, else moved along the axis; turned along the bottom
// axis where that saves room. Where there is no room for all, the larger clusters come first.
const nameClusters = (named, bottom, start, length, put) => {
  const fits = (name, i) => !i || name.middle - named[i - 1].middle >= (name.need + named[i - 1].need) / 2;
  if (named.every(fits)) {
    named.forEach((name) => put(name, name.middle, false));
    return;
  }
  const room = 12, places = spreadOut(named.map(({middle}) => middle), room, start, start + length);
  if (places) {
    named.forEach((name, i) => put(name, places[i], bottom));
    return;
  }
  const taken = [];
  for (const name of [...named].sort((a, b) => b.size - a.size || a.middle - b.middle)) {
    if (taken.some((v) => Math.abs(v - name.middle) < room)) continue;
    taken.push(name.middle);
    put(name, name.middle, bottom);
  }
};

// Pointer, wheel and keys. The wheel zooms once the map has focus (or with Ctrl), so that it never catches a scroll.
const listenHeatmap = (canvas, map) => {
  const pointers = new Map();
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  canvas.addEventListener('pointerdown', (event) => {
    pointers.set(event.pointerId, event);
    if (canvas.setPointerCapture && event.isTrusted) canvas.setPointerCapture(event.pointerId);
    map.point(event);
  });
  canvas.addEventListener('pointermove', (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      map.point(event);
      return;
    }
    if (pointers.size === 2) {
      const was = spread();
      pointers.set(event.pointerId, event);
      const at = [...pointers.values()].map(map.fraction);
      if (was > 0) map.zoom(spread() / was, (at[0][0] + at[1][0]) / 2, (at[0][1] + at[1][1]) / 2);
      return;
    }
    const [x0, y0] = map.fraction(before), [x1, y1] = map.fraction(event);
    pointers.set(event.pointerId, event);
    if (map.span() < N) map.shift(x1 - x0, y1 - y0);
    map.point(event);
  });
  for (const name of ['pointerup', 'pointercancel'])
    canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', (event) => {
    if (event.pointerType !== 'touch') map.leave();
  });
  canvas.addEventListener('blur', map.leave);
  canvas.addEventListener('dblclick', map.reset);
  canvas.addEventListener('wheel', (event) => {
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    map.zoom(Math.exp(-clamp(event.deltaY, -200, 200) * 0.0022), ...map.fraction(event));
    map.point(event);
  }, {passive: false});
  canvas.addEventListener('keydown', (event) => {
    const far = event.shiftKey ? 12 : 1;
    const actions = {
      ArrowUp: () => map.step(-far, 0),
      ArrowDown: () => map.step(far, 0),
      ArrowLeft: () => map.step(0, -far),
      ArrowRight: () => map.step(0, far),
      '+': () => map.zoom(1.6),
      '=': () => map.zoom(1.6),
      '-': () => map.zoom(1 / 1.6),
      '0': map.reset,
      Escape: map.reset,
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
};
)js";

}  // namespace headred::detail

// The report's script, part 3: the heatmap on a canvas, its axes and its colour scale.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_script_heatmap = R"js(
const drawHeatmap = () => {
  if (!data.distances.length) return;
  const canvas = byId('map'), plot = byId('plot'), readout = byId('readout'), tip = tipFor(plot);
  const context = canvas.getContext('2d');
  const margin = {left: 78, top: 8, right: 8, bottom: 78};
  const hasOrder = data.order.length === N, hasLabels = data.labels.length === N;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const identity = heads.map((_, i) => i);
  let printing = false, size = 0, scale = 1;
  let matrix = Math.max(0, data.distances.findIndex((d) => d.name === data.on));
  let byCluster = hasOrder, fullScale = false;
  let view = {x: 0, y: 0, span: N}, cursor = null, bitmap = null;

  const order = () => byCluster ? data.order : identity;
  const grouped = () =>
      byCluster && !hasLabels ? [] : runsOf(order(), byCluster ? (i) => data.labels[i] : (i) => heads[i].layer);
  const side = () => size - margin.left - margin.right;
  const range = () => {
    const [low, , high] = data.distances[matrix].spread;
    return fullScale || !isNumber(low) || !(high - low > 2 / missing) ? [0, 1] : [low, high];
  };
  const hint =
      'Point, tap or use the arrow keys for values; click, then wheel or pinch to zoom; drag to move; ' +
      'double click for the whole.';

  const render = () => {
    bitmap = document.createElement('canvas');
    bitmap.width = bitmap.height = N;
    const image = new ImageData(N, N), pixels = new Uint32Array(image.data.buffer);
    const [low, high] = range(), codes = codesOf(matrix), at = order();
    const little = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
    const pack = ([r, g, b]) =>
        (little ? 0xff000000 | b << 16 | g << 8 | r : r << 24 | g << 16 | b << 8 | 0xff) >>> 0;
    const packed = ramp.map(pack), gap = pack(missingGrey), itself = pack(diagonalGrey);
    const factor = 255 / ((high - low) * (missing - 1)), offset = low * 255 / (high - low) - 0.5;
    for (let r = 0, k = 0; r < N; ++r) {
      for (let c = 0; c < N; ++c, ++k) {
        const code = codeAt(codes, at[r], at[c]);
        pixels[k] = r === c ? itself :
            code === missing  ? gap :
                                packed[clamp(Math.floor(code * factor - offset), 0, 255)];
      }
    }
    bitmap.getContext('2d').putImageData(image, 0, 0);
  };

  const paint = () => {
    if (!(size > 0) || !bitmap) return;
    const light = printing || !dark.matches;
    const ink = light ? '#1b1f24' : '#e6e9ed', soft = light ? '#59636e' : '#a0a9b4',
          mark = light ? '#c2410c' : '#ff9457';
    const paper = light ? '#ffffff' : '#14171b';
    const s = side(), cell = s / view.span, {left, top} = margin;
    const px = (position) => left + (position - view.x) * cell, py = (position) => top + (position - view.y) * cell;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, size, size);
    context.save();
    context.beginPath();
    context.rect(left, top, s, s);
    context.clip();
    context.imageSmoothingEnabled = cell * scale < 1;
    context.imageSmoothingQuality = 'high';
    context.drawImage(bitmap, view.x, view.y, view.span, view.span, left, top, s, s);
    drawBoundaries(px, py, cell);
    if (cursor) {
      context.strokeStyle = '#ffffff';
      context.lineWidth = 3;
      context.strokeRect(px(cursor.column) - 1, py(cursor.row) - 1, cell + 2, cell + 2);
      context.strokeStyle = '#000000';
      context.lineWidth = 1.2;
      context.strokeRect(px(cursor.column) - 1, py(cursor.row) - 1, cell + 2, cell + 2);
    }
    context.restore();
    context.strokeStyle = soft;
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, s + 1, s + 1);
    drawAxis(false, cell, ink, soft, mark, paper);
    drawAxis(true, cell, ink, soft, mark, paper);
  };

  const drawBoundaries = (px, py, cell) => {
    const runs = grouped(), {left, top} = margin, s = side();
    const line = (x1, y1, x2, y2) => {
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
    };
    if (s / Math.max(1, runs.length) * N / view.span >= 5) {
      context.beginPath();
      for (const [first] of runs.slice(1)) {
        line(Math.round(px(first)) + 0.5, top, Math.round(px(first)) + 0.5, top + s);
        line(left, Math.round(py(first)) + 0.5, left + s, Math.round(py(first)) + 0.5);
      }
      context.strokeStyle = byCluster ? 'rgba(255,255,255,.28)' : 'rgba(255,255,255,.55)';
      context.lineWidth = 1;
      context.stroke();
    }
    if (!byCluster) return;
    for (const [color, width] of [['rgba(0,0,0,.75)', 3], ['#ffffff', 1.5]]) {
      context.strokeStyle = color;
      context.lineWidth = width;
      for (const [first, end] of runs)
        if (end - first > 1 || cell >= 8)
          context.strokeRect(px(first), py(first), (end - first) * cell, (end - first) * cell);
    }
  };

  // Left (or bottom) axis: ticks, heads as far as there is room, groups in bold, title.
  const drawAxis = (bottom, cell, ink, soft, mark, paper) => {
    const {left, top} = margin, s = side(), start = bottom ? left : top, from = bottom ? view.x : view.y;
    const edge = bottom ? top + s : left, away = bottom ? 1 : -1;
    const at = (position) => start + (position - from) * cell;
    const inside = (v) => v >= start - 0.5 && v <= start + s + 0.5;
    const tick = (position, length) => {
      const v = at(position);
      if (!inside(v)) return;
      context.beginPath();
      if (bottom) {
        context.moveTo(v, edge);
        context.lineTo(v, edge + length);
      } else {
        context.moveTo(edge, v);
        context.lineTo(edge - length, v);
      }
      context.stroke();
    };
    const rule = (v) => {  // parts the names of neighbouring groups
      const near = edge + away * 24, far = near + away * 12;
      context.beginPath();
      if (bottom) {
        context.moveTo(v, near);
        context.lineTo(v, far);
      } else {
        context.moveTo(near, v);
        context.lineTo(far, v);
      }
      context.stroke();
    };
    // upright on the left axis; along the bottom axis upright or turned so that it reads upwards
    const label = (text, v, distance, turned, align = 'center') => {
      context.save();
      context.translate(bottom ? v : edge - distance, bottom ? edge + distance : v);
      if (turned) context.rotate(-Math.PI / 2);
      context.textAlign = align;
      context.fillText(text, 0, 0);
      context.restore();
    };
    const ids = order(), first = Math.max(0, Math.floor(from)), end = Math.min(N, Math.ceil(from + view.span));
    context.textBaseline = 'middle';
    context.lineWidth = 1;
    context.strokeStyle = soft;

    const runs = grouped();
    const step = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64].find((m) => m * cell >= (byCluster     ? 12 :
                                                                                            bottom ? 15 :
                                                                                                     11)) ||
        Infinity;
    if (cell >= 3.5)
      for (let p = first; p < end; ++p) tick(p + 0.5, 3);
    context.font = '10px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = soft;
    for (let p = first; p < end; ++p) {
      const v = at(p + 0.5), {layer, head} = heads[ids[p]], count = data.heads[layer];
      if (!inside(v)) continue;
      if (byCluster) {
        if (p % step === 0) label(headName(ids[p]), v, 5, bottom, 'right');
      } else if (head % step === 0 && step < Math.max(2, count) && (count - head) * cell >= 11) {
        label(String(head), v, bottom ? 11 : 5, false, bottom ? 'center' : 'right');
      }
    }
    context.font = '600 11.5px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = ink;
    let free = -Infinity, ruled = -Infinity;
    const named = [];
    for (const [a, b, group] of runs) {
      const low = clamp(at(a), start, start + s), high = clamp(at(b), start, start + s);
      if (a > 0 && at(a) - ruled >= 4 && inside(at(a))) {
        tick(a, 6);
        if (!byCluster) rule(at(a));
        ruled = at(a);
      }
      const need = bottom ? context.measureText(group).width + 3 : 12;
      const middle = (low + high) / 2;
      if (high <= low) continue;
      if (byCluster) {
        named.push({text: String(group), middle, need, size: b - a});
      } else if (middle - need / 2 >= free) {  // a narrow layer is named where its neighbours leave room
        label(String(group), middle, 30, false);
        free = middle + need / 2 + 2;
      }
    }
    nameClusters(named, bottom, start, s, (name, v, turned) => {
      label(name.text, v, 50, turned);
      if (Math.abs(v - name.middle) < 2) return;
      const [near, far] = [edge + away * 35, edge + away * 41];  // leads from a name to its cluster
      context.beginPath();
      context.moveTo(...(bottom ? [name.middle, near] : [near, name.middle]));
      context.lineTo(...(bottom ? [v, far] : [far, v]));
      context.stroke();
    });
    context.font = '11.5px system-ui, "DejaVu Sans", sans-serif';
    context.fillStyle = soft;
    const title = byCluster ? (hasLabels ? 'cluster (bold), layer.head' : 'layer.head') : 'layer (bold), head';
    label(title, start + s / 2, byCluster ? 70 : 50, !bottom);

    if (!cursor) return;
    const position = bottom ? cursor.column : cursor.row, v = at(position + 0.5);
    if (!inside(v)) return;
    const text = headName(ids[position]);
    context.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
    const width = context.measureText(text).width + 8;
    const x = bottom ? clamp(v - width / 2, 0, size - width) : edge - width - 1, y = bottom ? edge + 1 : v - 8;
    context.fillStyle = mark;
    context.fillRect(x, y, width, 16);
    context.fillStyle = paper;
    context.textAlign = 'left';
    context.fillText(text, x + 4, y + 8.5);
  };

  const drawScale = (width) => {
    const [low, high] = range(), pad = margin.left, bar = Math.max(60, width - pad - margin.right), digits = 3;
    const x = (value) => pad + (value - low) / (high - low) * bar;
    const gradient = svg('linearGradient', {id: 'ramp'});
    for (let i = 0; i <= 32; ++i)
      gradient.append(svg('stop', {offset: i / 32, 'stop-color': css(ramp[Math.round(i * 255 / 32)])}));
    const picture = svg('svg', {
      width,
      height: 66,
      viewBox: `0 0 ${width} 66`,
      role: 'img',
      'aria-label': `colours from ${low.toFixed(digits)} to ${high.toFixed(digits)}`
    },
        svg('defs', {}, gradient), svg('rect', {x: pad, y: 2, width: bar, height: 11, fill: 'url(#ramp)'}));
    const ticks = ticksOf(low, high, Math.max(5, bar / 90));
    for (const value of ticks.at)
      picture.append(svg('line', {class: 'axis', x1: x(value), x2: x(value), y1: 13, y2: 17}),
          svg('text', {x: x(value), y: 28, 'text-anchor': 'middle'}, fixed(value, ticks.digits)));
    picture.append(svg('text', {class: 'title', x: pad + bar / 2, y: 43, 'text-anchor': 'middle'},
        'distance: 0 = alike, 1 = unlike'));
    const greys = [[diagonalGrey, 'diagonal: a head with itself']];
    if (codesOf(matrix).includes(missing)) greys.push([missingGrey, 'no value']);
    greys.forEach(([color, text], i) => picture.append(
        svg('rect', {class: 'swatch', x: pad + 195 * i, y: 52, width: 11, height: 11, fill: css(color)}),
        svg('text', {class: 'title', x: pad + 195 * i + 17, y: 62}, text)));
    byId('scale').replaceChildren(picture);
  };

  const frames = () => {
    if (!byCluster || !hasLabels) return '';
    const parts = new Map();
    for (const [, , label] of grouped()) parts.set(label, (parts.get(label) || 0) + 1);
    const scattered = [...parts.values()].filter((count) => count > 1).length;
    return scattered ? `White frames are neighbours of one cluster; this order scatters ${
                           scattered} of ${plural(parts.size, 'cluster')}.` :
                       'White frames are clusters.';
  };
  const describe = () => {
    const {name, spread: [low, middle, high]} = data.distances[matrix];
    byId('heatmap-caption').textContent = N < 2 ?
        'One head: there is no pair.' :
        `Pairs of different heads: mean ${fixed(middle, 4)}, from ${fixed(low, 4)} to ${fixed(high, 4)}. ${
            frames()}`;
    canvas.setAttribute(
        'aria-label', `Heatmap of ${name}, ${N} by ${N} heads, in ${byCluster ? 'cluster' : 'layer'} order`);
  };

  const report = () => {
    if (!cursor) {
      tip.hide();
      readout.replaceChildren(tag('span', {class: 'hint'}, hint));
      return;
    }
    const i = order()[cursor.row], j = order()[cursor.column];
    const text = `${headName(i)} vs ${headName(j)} = ${fixed(valueAt(codesOf(matrix), i, j), valueDigits)}`;
    const clusters = !hasLabels           ? '' :
        data.labels[i] === data.labels[j] ? `both in cluster ${data.labels[i]}` :
                                            `clusters ${data.labels[i]} and ${data.labels[j]}`;
    const cell = side() / view.span;
    tip.show(clusters ? `${text}\n${clusters}` : text, margin.left + (cursor.column + 0.5 - view.x) * cell,
        margin.top + (cursor.row + 0.5 - view.y) * cell);
    readout.textContent = `layer.head: ${text}${clusters ? `, ${clusters}` : ''}`;
  };

  const refresh = () => {
    describe();
    render();
    drawScale(byId('scale').clientWidth);
    paint();
    report();
  };
  const move = (next) => {
    const span = clamp(next.span, Math.min(4, N), N);
    view = {span, x: clamp(next.x, 0, N - span), y: clamp(next.y, 0, N - span)};
    canvas.classList.toggle('zoomed', span < N);
    paint();
    report();
  };
  // keeps the matrix position under (fx, fy), fractions of the plot, where it is
  const zoom = (factor, fx = 0.5, fy = 0.5) => {
    const span = clamp(view.span / factor, Math.min(4, N), N);
    move({span, x: view.x + fx * (view.span - span), y: view.y + fy * (view.span - span)});
  };
  const reset = () => move({x: 0, y: 0, span: N});
  const fraction = (event) => {
    const box = canvas.getBoundingClientRect(), k = size / box.width;
    return [
      ((event.clientX - box.left) * k - margin.left) / side(), ((event.clientY - box.top) * k - margin.top) / side()
    ];
  };
  const point = (event) => {
    const [fx, fy] = fraction(event);
    cursor = fx < 0 || fy < 0 || fx >= 1 || fy >= 1 ? null : {
      row: clamp(Math.floor(view.y + fy * view.span), 0, N - 1),
      column: clamp(Math.floor(view.x + fx * view.span), 0, N - 1)
    };
    paint();
    report();
  };

  listenHeatmap(canvas, {
    point,
    zoom,
    reset,
    fraction,
    span: () => view.span,
    shift: (dx, dy) => move({span: view.span, x: view.x - dx * view.span, y: view.y - dy * view.span}),
    leave: () => {
      cursor = null;
      paint();
      report();
    },
    step: (rows, columns) => {
      cursor = cursor ? {row: clamp(cursor.row + rows, 0, N - 1), column: clamp(cursor.column + columns, 0, N - 1)} :
                        {row: Math.floor(view.y), column: Math.floor(view.x)};
      const follow = (from, position) => clamp(from, position + 1 - view.span, position);
      move({span: view.span, x: follow(view.x, cursor.column), y: follow(view.y, cursor.row)});
    },
  });
  const select = byId('distance');
  data.distances.forEach(({name}, i) => select.append(tag('option', {value: i}, name)));
  select.value = String(matrix);
  select.addEventListener('change', () => {
    matrix = Number(select.value);
    refresh();
  });
  byId('order-choice').hidden = !hasOrder;
  byId(byCluster ? 'by-cluster' : 'by-layer').checked = true;
  byId('order-choice').addEventListener('change', () => {
    byCluster = byId('by-cluster').checked;
    cursor = null;
    refresh();
  });
  byId('full-scale').addEventListener('change', (event) => {
    fullScale = event.target.checked;
    refresh();
  });
  byId('zoom-in').addEventListener('click', () => zoom(1.6));
  byId('zoom-out').addEventListener('click', () => zoom(1 / 1.6));
  byId('zoom-reset').addEventListener('click', reset);
  dark.addEventListener('change', paint);
  window.addEventListener('beforeprint', () => {
    printing = true;
    paint();
  });
  window.addEventListener('afterprint', () => {
    printing = false;
    paint();
  });

  describe();
  render();
  responsive(byId('scale'), drawScale);
  responsive(plot, (width) => {
    size = width;
    scale = Math.max(window.devicePixelRatio || 1, 2);  // twice at least: the axes stay sharp on paper
    canvas.width = canvas.height = Math.round(size * scale);
    paint();
    report();
  });
};
)js";

}  // namespace headred::detail

// The report's script, part 5: figures, notes, kept heads, clusters, comparison, settings.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_script_tables = R"js(
const keptHeads = data.kept && new Set(data.kept);
const hasComparison = ['correlation', 'p', 'difference'].some((name) => data.comparison[name].length);
const hasSilhouettes = data.silhouettes.length === N;

// Clusters with their members; the representative has the highest silhouette, the lowest head among equals.
const clusters = (() => {
  const byLabel = new Map();
  data.labels.forEach((label, head) => {
    if (!byLabel.has(label)) byLabel.set(label, []);
    byLabel.get(label).push(head);
  });
  return [...byLabel].sort(([a], [b]) => a - b).map(([id, members]) => {
    const scored =
        hasSilhouettes ? members.filter((i) => members.length === 1 || isNumber(data.silhouettes[i])) : [];
    const best = scored.length ? scored.reduce((a, b) => data.silhouettes[b] > data.silhouettes[a] ? b : a) : null;
    return {id, members, best, silhouette: members.length > 1 ? mean(scored.map((i) => data.silhouettes[i])) : null};
  });
})();
const alone = new Set(clusters.filter(({members}) => members.length === 1).flatMap(({members}) => members));
const silhouetteText = (i) => fixed(alone.has(i) ? null : data.silhouettes[i], 4);

// Everything that will be filled gets its place before anything is drawn, so that widths are final.
const layOut = () => {
  const sections = {
    heatmap: data.distances.length,
    'curve-section': data.curve.length,
    'kept-section': keptHeads,
    'clusters-section': clusters.length,
    'compare-section': hasComparison,
    'gaps-section': data.gaps.some(({points}) => points.length),
    'settings-section': data.settings.length,
    notes: data.notes.length
  };
  for (const [id, present] of Object.entries(sections)) byId(id).hidden = !present;
  const hasSide = data.curve.length || keptHeads;
  byId('top').classList.toggle('single', !hasSide || !data.distances.length);
  byId('side').hidden = !hasSide;
};

const drawFigures = () => {
  const figure = (name, value, ...more) => tag('div', {}, tag('dt', {}, name),
      tag('dd', {}, value, ...more.filter(Boolean).map((text) => tag('small', {class: 'user'}, text))));
  const counts = [...new Set(data.heads.filter((count) => count > 0))];
  const shape = counts.length === 1 && data.heads.every((count) => count > 0) ?
      `${plural(data.heads.length, 'layer')} of ${counts[0]}` :
      `${plural(data.heads.length, 'layer')} of ${Math.min(...data.heads)} to ${Math.max(...data.heads)}`;
  const list = byId('figures');
  list.append(figure('heads', N, shape), figure('attention', data.kind.replaceAll('_', ' ')));
  if (data.distances.length) list.append(figure('distances', data.distances.length));
  if (clusters.length)
    list.append(figure('clusters', clusters.length,
        data.k && data.k !== clusters.length ? `${data.k} were asked for` : '', data.by));
  if (isNumber(data.mean)) list.append(figure('mean silhouette', fixed(data.mean, 3), 'from \u22121 to 1'));
  if (keptHeads)
    list.append(figure('heads kept', `${keptHeads.size} of ${N}`, `${fixed(100 * keptHeads.size / N, 1)} %`));
  byId('notes').append(...data.notes.map((note) => tag('li', {}, note)));
};

// One row a layer, one square a head; kept heads are filled, the number is the head's cluster.
const drawKept = () => {
  if (!keptHeads) return;
  byId('kept-title').textContent = `Heads to keep: ${keptHeads.size} of ${N}`;
  byId('kept-caption').textContent = 'Filled: kept. ' +
      (clusters.length ? 'The number in a square is its cluster; on' : 'On') + ' the right, heads kept in the layer.';
  const most = Math.max(...data.heads), host = byId('kept'), left = 44, right = 52, top = 6;
  responsive(host, (width) => {
    const cell = clamp(Math.floor((width - left - right) / most), 9, 30),
          height = top + cell * data.heads.length + 38, wide = Math.max(width, left + right + cell * most);
    const picture = svg('svg', {
      width: wide,
      height,
      viewBox: `0 0 ${wide} ${height}`,
      role: 'img',
      'aria-label': `${keptHeads.size} of ${N} heads are kept`
    });
    const step = [1, 2, 4, 5, 10, 20, 50].find((m) => m * cell >= 15) || 100;
    const labels = data.labels.length === N && cell >= 8 * String(Math.max(...data.labels)).length + 2;
    let flat = 0;
    data.heads.forEach((count, layer) => {
      const y = top + layer * cell;
      if (layer % step === 0)
        picture.append(svg('text', {x: left - 7, y: y + cell / 2 + 4, 'text-anchor': 'end'}, layer));
      let kept = 0;
      for (let head = 0; head < count; ++head, ++flat) {
        const stays = keptHeads.has(flat);
        kept += stays;
        picture.append(svg('rect', {
          class: stays ? 'kept' : 'dropped',
          x: left + head * cell + 0.5,
          y: y + 0.5,
          width: cell - 2,
          height: cell - 2,
          rx: 2
        }));
        if (labels)
          picture.append(svg('text', {
            class: stays ? 'on-kept' : '',
            x: left + (head + 0.5) * cell - 0.5,
            y: y + cell / 2 + 3.5,
            'text-anchor': 'middle'
          },
              data.labels[flat]));
      }
      if (cell >= 12 || layer % step === 0)
        picture.append(svg('text', {x: left + most * cell + 8, y: y + cell / 2 + 4}, `${kept} / ${count}`));
    });
    for (let head = 0; head < most; head += step)
      picture.append(svg('text', {x: left + (head + 0.5) * cell, y: height - 22, 'text-anchor': 'middle'}, head));
    const focus = svg('rect', {class: 'focus', width: cell, height: cell, rx: 3, visibility: 'hidden'});
    picture.append(
        svg('text', {class: 'title', x: left + most * cell / 2, y: height - 5, 'text-anchor': 'middle'}, 'head'),
        svg('text', {
          class: 'title',
          'text-anchor': 'middle',
          transform: `translate(11 ${top + cell * data.heads.length / 2}) rotate(-90)`
        },
            'layer'),
        focus);
    host.replaceChildren(picture);
    const tip = tipFor(host), leave = () => {
      tip.hide();
      focus.setAttribute('visibility', 'hidden');
    };
    const firsts = data.heads.map((_, layer) => data.heads.slice(0, layer).reduce((a, b) => a + b, 0));
    picture.addEventListener('pointermove', (event) => {
      const box = picture.getBoundingClientRect();
      const head = Math.floor((event.clientX - box.left - left) / cell),
            layer = Math.floor((event.clientY - box.top - top) / cell);
      if (!(head >= 0 && head < data.heads[layer])) {
        leave();
        return;
      }
      const i = firsts[layer] + head;
      focus.setAttribute('x', left + head * cell - 0.5);
      focus.setAttribute('y', top + layer * cell - 0.5);
      focus.setAttribute('visibility', 'visible');
      tip.show(`${headName(i)} ${keptHeads.has(i) ? 'kept' : 'removed'}` +
              (data.labels.length ? `, cluster ${data.labels[i]}` : '') +
              (hasSilhouettes ? `\nsilhouette ${silhouetteText(i)}` : ''),
          left + (head + 0.5) * cell, top + layer * cell);
    });
    picture.addEventListener('pointerleave', leave);
  });
};

const drawClusters = () => {
  if (!clusters.length) return;
  byId('clusters-caption').textContent = 'Members as layer.head' + (keptHeads ? ', kept heads in bold. ' : '. ') +
      (hasSilhouettes ? 'The representative is the member of highest silhouette. ' : '') +
      (hasSilhouettes && alone.size ? 'A head alone in its cluster has no silhouette (\u2013). ' : '') +
      'Click a heading to sort.';
  const columns = [
    {name: 'cluster', right: true, key: (c) => c.id, cell: (c) => [c.id]},
    {name: 'heads', right: true, key: (c) => c.members.length, cell: (c) => [c.members.length]},
    {name: 'representative', key: (c) => c.best, cell: (c) => [c.best === null ? '\u2013' : headName(c.best)]},
    {name: 'mean silhouette', right: true, key: (c) => c.silhouette, cell: (c) => [fixed(c.silhouette, 4)]},
    {
      name: 'members',
      wide: true,
      key: (c) => c.members[0],
      cell: (c) => c.members.flatMap(
          (i, n) => [n ? ', ' : '', keptHeads && keptHeads.has(i) ? tag('b', {}, headName(i)) : headName(i)])
    },
  ];
  let sorted = 0, descending = false;
  const headings = columns.map((column, i) => {
    const button = tag('button', {type: 'button'}, column.name);
    button.addEventListener('click', () => {
      descending = sorted === i ? !descending : false;
      sorted = i;
      fill();
    });
    return tag('th', {scope: 'col', class: column.right ? 'right' : column.wide ? '' : 'left'}, button);
  });
  byId('clusters-head').append(...headings);
  const fill = () => {
    headings.forEach((heading, i) => heading.setAttribute('aria-sort',
                         i !== sorted   ? 'none' :
                             descending ? 'descending' :
                                          'ascending'));
    const key = columns[sorted].key, sign = descending ? -1 : 1;
    // unknown values last either way; equal ones by cluster
    const rows = [...clusters].sort((a, b) => {
      const x = key(a), y = key(b);
      if (isNumber(x) !== isNumber(y)) return isNumber(x) ? -1 : 1;
      return isNumber(x) && x !== y ? sign * (x - y) : a.id - b.id;
    });
    byId('clusters')
        .replaceChildren(
            ...rows.map((c) => tag('tr', {},
                            ...columns.map((column) => tag('td',
                                               {class: column.right ? 'right' :
                                                     column.wide    ? 'members' :
                                                                      'left'},
                                               ...column.cell(c))))));
  };
  fill();
};

const drawComparison = () => {
  const {names, correlation, p, difference} = data.comparison;
  if (!hasComparison) return;
  const parts = [
    correlation.length && 'Pearson correlation of the matrices over all pairs of heads',
    p.length && 'p: Mantel permutation test, share of permutations correlated as much or more (one-sided)',
    difference.length && '\u0394: mean absolute difference'
  ].filter(Boolean);
  byId('compare-caption').textContent = parts.join('; ') + '.';
  const broken = (name) => name.split(/(?<=_)/).flatMap((part, i) => i ? [tag('wbr'), part] : [part]);
  const table = byId('compare');
  table.append(tag('thead', {},
      tag('tr', {}, tag('td'), ...names.map((name) => tag('th', {scope: 'col'}, tag('span', {}, ...broken(name)))))));
  table.append(tag('tbody', {},
      ...names.map((name, i) => tag(
                       'tr', {}, tag('th', {scope: 'row'}, tag('span', {}, ...broken(name))), ...names.map((_, j) => {
                         const r = correlation.length ? correlation[i][j] : null,
                               color = isNumber(r) ? diverging(clamp(r, -1, 1)) : null;
                         const small = i === j ? [] : [
                           p.length && isNumber(p[i][j]) ?
                               `p ${p[i][j] < 0.001 && p[i][j] > 0 ? '<\u2009.001' : fixed(p[i][j], 3)}` :
                               '',
                           difference.length ? `\u0394 ${fixed(difference[i][j], 3)}` : ''
                         ].filter(Boolean);
                         const cell = tag('td', {}, correlation.length ? fixed(r, 3) : '',
                             ...small.map((text) => tag('small', {}, text)));
                         if (color) {
                           cell.style.background = css(color);
                           cell.style.color = '#10141a';
                         }
                         return cell;
                       })))));
};

const drawTables = () => {
  drawFigures();
  drawKept();
  drawClusters();
  drawComparison();
  if (data.settings.length)
    byId('settings').append(...data.settings.map(([key,
      value]) => tag('tr', {}, tag('th', {scope: 'row'}, key), tag('td', {}, value))));
  byId('footer').append(' Heads are written layer.head, counted from 0.' +
      (data.distances.length ?
              ` Distances are stored with ${data.bits} bits: steps of ${(1 / (missing - 1)).toExponential(1)}.` :
              ''));
};
)js";

}  // namespace headred::detail

// Uses an open report as a reader would and compares what it shows with its data, decoded here a second, slow way.
(() => {
  'use strict';
  const root = document.documentElement;
  const require = (condition, text) => {
    if (!condition) throw new Error(`use_page: ${text}`);
  };
  require(root.dataset.ready === '1', 'the page is not ready');
  require(!root.dataset.error, `the page failed: ${root.dataset.error}`);
  require(!root.dataset.hacked, 'a string of the report ran as script');
  require(document.querySelectorAll('script').length === 3, 'a string of the report became a script');
  require(
      document.images.length === 0 && document.querySelectorAll('iframe,object,link[rel=stylesheet]').length === 0,
      'a string of the report became an element');
  require(root.scrollWidth <= window.innerWidth + 1,
      `the page is ${root.scrollWidth} px wide, the window ${window.innerWidth}`);

  const data = JSON.parse(document.getElementById('data').textContent);
  const heads = [];
  data.heads.forEach((count, layer) => {
    for (let h = 0; h < count; ++h) heads.push(`${layer}.${h}`);
  });
  const N = heads.length;
  const value = (matrix, i, j) => {
    const bytes = atob(data.distances[matrix].packed), a = Math.min(i, j), b = Math.max(i, j);
    let index = 0;
    for (let row = 0; row < a; ++row) index += N - row;
    index += b - a;
    let code = 0;
    for (let bit = 0; bit < data.bits; ++bit) {
      const at = index * data.bits + bit;
      if (bytes.charCodeAt(Math.floor(at / 8)) >> at % 8 & 1) code += 2 ** bit;
    }
    const top = 2 ** data.bits - 1;
    return code === top ? null : code / (top - 1);
  };
  const byId = (id) => document.getElementById(id);

  if (data.distances.length) {
    const canvas = byId('map'), box = () => canvas.getBoundingClientRect();
    const left = 78, top = 8, edge = 8;  // the map's margins
    const plot = () => Math.floor(box().width) - left - edge;
    const at = (row, column) => ({
      clientX: box().left + left + (column + 0.5) * plot() / N,
      clientY: box().top + top + (row + 0.5) * plot() / N,
      bubbles: true,
      pointerId: 1,
      pointerType: 'mouse',
    });
    const check = (order, matrix, row, column) => {
      canvas.dispatchEvent(new PointerEvent('pointermove', at(row, column)));
      const i = order[row], j = order[column], x = value(matrix, i, j);
      const said = byId('map-tip').textContent, pair = `${heads[i]} vs ${heads[j]} = `;
      require(!byId('map-tip').hidden && said.startsWith(pair),
          `at ${row}, ${column} the tip says "${said}", expected "${pair}"`);
      const number = said.slice(pair.length).split('\n')[0];
      require(x === null ? number === '\u2013' : Math.abs(Number(number) - x) < 0.001,
          `the tip says ${number}, the data ${x}`);
      require(byId('readout').textContent.includes(pair), 'the readout differs from the tip');
    };
    const identity = heads.map((_, i) => i);
    const order = data.order.length ? data.order : identity;
    const places =
        [[0, 0], [N - 1, 0], [0, N - 1], [N >> 1, N >> 2], [N - 1, N - 1], [Math.min(1, N - 1), Math.min(2, N - 1)]];
    const select = byId('distance');
    for (let matrix = 0; matrix < data.distances.length; ++matrix) {
      select.value = String(matrix);
      select.dispatchEvent(new Event('change'));
      for (const [row, column] of places) check(order, matrix, row, column);
    }
    require(select.options.length === data.distances.length, 'a distance is missing from the choice');
    require(select.options[0].textContent.trim().length > 0, 'a distance has no name');
    if (data.order.length) {
      byId('by-layer').click();
      for (const [row, column] of places) check(identity, data.distances.length - 1, row, column);
      byId('by-cluster').click();
    }
    canvas.dispatchEvent(new PointerEvent('pointerleave', {pointerType: 'mouse'}));
    require(byId('map-tip').hidden, 'the tip stays when the pointer leaves');
    // read once: Chromium complains about more
    const shown = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const pixel = (row, column) => {
      const scale = canvas.width / Math.floor(box().width);
      const x = Math.floor((left + (column + 0.5) * plot() / N) * scale);
      const y = Math.floor((top + (row + 0.5) * plot() / N) * scale);
      return [...shown.data.slice(4 * (y * shown.width + x), 4 * (y * shown.width + x) + 4)];
    };
    require(pixel(N >> 1, N >> 1)[3] === 255, 'the map is not painted');
    if (plot() / N >= 6)  // else a frame may lie on it
      for (let i = 0; i < N; ++i)
        require(pixel(i, i).every((x, c) => x === (c < 3 ? 128 : 255)), `the diagonal is ${pixel(i, i)} at ${i}`);
    require(byId('scale').textContent.includes('diagonal: a head with itself'), 'the legend lacks the diagonal');
    if (N > 1 && data.order.length && data.labels.length) {
      const runs = data.order.filter((head, p) => !p || data.labels[head] !== data.labels[data.order[p - 1]]).length;
      require(byId('heatmap-caption').textContent.includes('White frames are clusters.') ===
              (runs === new Set(data.labels).size), 'the caption is wrong about the frames');
    }

    canvas.focus();
    const press = (key) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    press('ArrowDown');
    require(byId('readout').textContent.includes(`${heads[order[0]]} vs ${heads[order[0]]}`),
        'the keyboard starts in the corner');
    press('ArrowRight');
    press('ArrowDown');
    const one = Math.min(1, N - 1);
    require(byId('readout').textContent.includes(`${heads[order[one]]} vs ${heads[order[one]]}`),
        'arrow keys do not move');
    canvas.dispatchEvent(new WheelEvent('wheel', {...at(N >> 1, N >> 1), deltaY: -200, cancelable: true}));
    require(N <= 4 || canvas.classList.contains('zoomed'), 'the wheel does not zoom');
    for (let i = 0; i < 30; ++i) press('+');
    for (let i = 0; i < 5; ++i) press('ArrowLeft');
    byId('zoom-reset').click();
    require(!canvas.classList.contains('zoomed'), 'reset does not reset');
    byId('full-scale').click();
    check(order, data.distances.length - 1, N - 1, 0);
    window.dispatchEvent(new Event('beforeprint'));
    window.dispatchEvent(new Event('afterprint'));
    require(document.querySelectorAll('#scale svg text').length > 2, 'the colour scale has no numbers');
  }

  if (data.kept)
    require(document.querySelectorAll('#kept rect.kept').length === data.kept.length, 'kept heads are missing');
  if (data.curve.length)
    require(byId('curve').querySelector('path.line').getAttribute('d').length > 4, 'the curve is empty');
  require(document.querySelectorAll('#gaps svg').length === data.gaps.filter((g) => g.points.length).length,
      'a gap chart is missing');
  require(document.querySelectorAll('#settings tr').length === data.settings.length, 'a setting is missing');
  require(document.querySelectorAll('#notes li').length === data.notes.length, 'a note is missing');
  require(!/NaN|undefined|Infinity/.test(document.querySelector('main').innerHTML.replace(/>[^<]*</g, '><')),
      'NaN in an attribute');

  require(!/\(\d+,\d+\)/.test(document.querySelector('main').textContent + byId('footer').textContent),
      'a head is not written layer.head');
  for (const picture of document.querySelectorAll('#curve svg, #gaps svg')) {
    const title = [...picture.querySelectorAll('.title')].find((text) => text.hasAttribute('transform'));
    const edge = title.getBoundingClientRect().right;
    for (const number of picture.querySelectorAll('text[text-anchor=end]:not([class])'))
      require(number.getBoundingClientRect().left >= edge, `the vertical title lies on ${number.textContent}`);
  }

  const labels = new Set(data.labels);
  require(document.querySelectorAll('#clusters tr').length === labels.size, 'a cluster is missing');
  if (labels.size) {
    const sizes =
        () => [...document.querySelectorAll('#clusters tr')].map((row) => Number(row.children[1].textContent));
    const button = document.querySelectorAll('#clusters-head button')[1];
    button.click();
    require(sizes().every((x, i, all) => i === 0 || all[i - 1] <= x), 'the clusters are not sorted by size');
    button.click();
    require(sizes().every((x, i, all) => i === 0 || all[i - 1] >= x), 'the clusters are not sorted down by size');
    require(sizes().reduce((a, b) => a + b, 0) === N, 'heads are missing from the clusters');
    for (const row of document.querySelectorAll('#clusters tr'))
      require(row.children[1].textContent !== '1' || row.children[3].textContent === '\u2013',
          'a head alone in its cluster has a silhouette');
    require(!data.silhouettes.length ||
            byId('clusters-caption').textContent.includes('has no silhouette') === sizes().includes(1),
        'the caption is wrong about heads alone');
  }
  require(!root.dataset.hacked && !root.dataset.error, `the page failed while in use: ${root.dataset.error}`);
  root.dataset.used = '1';
})();

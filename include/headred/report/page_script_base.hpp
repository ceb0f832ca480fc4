// The report's script, part 1: data, elements, numbers, colours, axes.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_script_base = R"js(
const data = JSON.parse(document.getElementById('data').textContent);
const heads = data.heads.flatMap((count, layer) => Array.from({length: count}, (_, head) => ({layer, head})));
const N = heads.length;
const headName = (i) => `${heads[i].layer}.${heads[i].head}`;
const byId = (id) => document.getElementById(id);

// Texts always enter as text nodes: no string of the report is ever read as markup.
const build = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => child instanceof Node ? child : String(child)));
  return element;
};
const tag = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
    build(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

// Numbers. NaN travels as null and reads as a dash.
const isNumber = (x) => typeof x === 'number' && Number.isFinite(x);
const fixed = (x, digits) => {
  if (!isNumber(x)) return '\u2013';
  const text = x.toFixed(digits);
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '\u2212');
};
const mean = (values) => {
  const known = values.filter(isNumber);
  return known.length ? known.reduce((sum, x) => sum + x, 0) / known.length : null;
};
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;
const sentence = (text) => text && text + (/[.!?]$/.test(text) ? '' : '.');

// Round tick positions in [low, high], about `count` of them.
const ticksOf = (low, high, count) => {
  if (!(high > low)) return {at: [low], digits: 3};
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const at = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) at.push(i * step);
  return {at, digits: clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 8)};
};

// Colours are laid out in OKLab, where equal steps look equally far; chroma gives way where sRGB ends.
const linearRgb = (L, a, b) => {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
  ];
};
const rgb = (L, chroma, degrees) => {
  const at = (c) => linearRgb(L, c * Math.cos(degrees * Math.PI / 180), c * Math.sin(degrees * Math.PI / 180));
  const inside = (c) => at(c).every((x) => x >= -1e-4 && x <= 1.0001);
  let low = 0, high = chroma;
  if (inside(chroma))
    low = chroma;
  else
    for (let i = 0; i < 20; ++i) {
      const middle = (low + high) / 2;
      if (inside(middle))
        low = middle;
      else
        high = middle;
    }
  return at(low).map((x) => {
    const c = clamp(x, 0, 1);
    return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
  });
};
// Dark violet to light yellow by way of blue-green: lightness rises evenly, so it also reads in grey.
const ramp = Array.from({length: 256}, (_, i) => rgb(0.2 + 0.73 * i / 255, 0.15, 302 - 196 * i / 255));
// Greys are no colour of the ramp: a head with itself, a pair without a value.
const diagonalGrey = [128, 128, 128], missingGrey = [205, 205, 205];
const css = (color) => `rgb(${color.join(',')})`;
// Blue below zero, orange above, light in between.
const diverging = (x) => rgb(0.96 - 0.36 * Math.abs(x), 0.15 * Math.abs(x), x < 0 ? 255 : 52);

// Draws now and whenever the element's width changes; the height is fixed by the style, so nothing jumps.
const responsive = (element, draw) => {
  let width = -1;
  const update = () => {
    const now = Math.floor(element.clientWidth);
    if (now > 0 && now !== width) {
      width = now;
      draw(now);
    }
  };
  update();
  new ResizeObserver(update).observe(element);
};

// One tip for each host element, kept inside it.
const tipFor = (host) => {
  const tip = host.querySelector('.tip') || host.appendChild(tag('div', {class: 'tip', hidden: ''}));
  return {
    show(text, x, y) {
      tip.textContent = text;
      tip.hidden = false;
      const left = x + 14 + tip.offsetWidth > host.clientWidth ? x - 14 - tip.offsetWidth : x + 14;
      const top = y - 14 - tip.offsetHeight < 0 ? y + 18 : y - 14 - tip.offsetHeight;
      tip.style.left = `${Math.max(0, Math.min(left, host.clientWidth - tip.offsetWidth))}px`;
      tip.style.top = `${top}px`;
    },
    hide() { tip.hidden = true; },
  };
};
)js";

}  // namespace headred::detail

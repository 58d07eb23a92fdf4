/* Makes a page answer its reader: plots show the values under the pointer, zoom, change their axis and hide lines;
   tables are sorted. A page is complete without it. Its plots are images, which this draws anew by the numbers in
   their attributes, as tools/pages/plot.cpp drew them. */
'use strict';
{
const make = (tag, properties, ...content) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...content);
  return element;
};
const set = (element, attributes) => {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
};
const button = (onclick, ...content) => make('button', {type: 'button', onclick}, ...content);
const digits = (value, count) => String(Number(value.toPrecision(count)));
const fixed = value => value.toFixed(1);
const least = values => values.reduce((a, b) => Math.min(a, b));
const most = values => values.reduce((a, b) => Math.max(a, b));

/* Axes as in plot.cpp: where a value is, the value at a place, the range of an axis, and its numbers. */
const scale = (logarithmic, [low, high], first, last) => {
  const share = value => logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const place = value => first + share(value) * (last - first);
  const valueAt = at => {
    const part = (at - first) / (last - first);
    return logarithmic ? low * (high / low) ** part : low + part * (high - low);
  };
  return Object.assign(place, {share, valueAt});
};
const roomy = (logarithmic, fromZero, low, high) => {
  const size = high - low, largest = Math.max(Math.abs(low), Math.abs(high));
  const factor = Math.max(1.05, (high / low) ** 0.05);
  if (logarithmic) return [low / factor, high * factor];
  if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.03 : 1];
  const room = size > 1e-9 * largest ? 0.04 * size : largest > 0 ? 0.05 * largest : 1;
  return [low - room, high + room];
};
const evenNumbers = ([low, high]) => {
  const decade = 10 ** Math.floor(Math.log10(high - low)), size = (high - low) / decade, numbers = [];
  const step = decade * (size <= 1.8 ? 0.2 : size <= 4.5 ? 0.5 : 1);
  for (let i = Math.ceil(low / step); i * step <= high; ++i) numbers.push(i * step);
  return numbers;
};
const roundNumbers = range => {
  const [first, last] = [Math.floor(Math.log10(range[0])), Math.ceil(Math.log10(range[1]))];
  for (const factors of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    const numbers = [];
    for (let decade = first; decade <= last; decade += Math.max(1, Math.floor((last - first) / 7)))
      numbers.push(...factors.map(factor => factor * 10 ** decade));
    const within = numbers.filter(number => number >= range[0] && number <= range[1]);
    if (within.length >= 3) return within;
  }
  return evenNumbers(range);
};
const powerText = number => {
  if (number >= 1e-3 && number < 1e4) return digits(number, 4);
  const exponent = Math.floor(Math.log10(number) + 1e-9), factor = number / 10 ** exponent;
  const power = `10<tspan dy="-5" font-size="10">${exponent}</tspan>`;
  return Math.abs(factor - 1) < 1e-6 ? power : `${digits(factor, 4)}·${power}`;
};
const ticks = (logarithmic, given, range, place) => {
  const numbers = !logarithmic ? evenNumbers(range) : given.length ? given : roundNumbers(range);
  let last = -1;
  return numbers.filter(value => place.share(value) >= 0 && place.share(value) <= 1).map(value => {
    const legible = place.share(value) - last > 0.055;
    if (legible) last = place.share(value);
    return [fixed(place(value)), !legible ? '' : logarithmic ? powerText(value) : digits(value, 10)];
  });
};

/* Exponential moving averages, divided by the sum of their weights; a weight of 0 leaves the points as they are. */
const smoothed = (points, weight) => {
  const sums = {y: 0, low: 0, high: 0};
  return points.map((point, i) => {
    const mean = key => (sums[key] = weight * sums[key] + (1 - weight) * point[key]) / (1 - weight ** (i + 1));
    return {x: point.x, raw: point.y, y: mean('y'), low: mean('low'), high: mean('high')};
  });
};

class Plot {
  zoom = null;  /* [low, high] of x */
  drawn = [];   /* the lines that are not hidden, with their points and places */
  current = null;

  /* `group` is shared by plots: which names are hidden, and the weight of the averages. */
  constructor(svg, group) {
    Object.assign(this, {svg, group, figure: svg.closest('figure')}, JSON.parse(svg.dataset.axes));
    this.logarithmic = this.y.logarithmic;
    this.lines = [...svg.querySelectorAll('.series')].map(g => {
      const points = JSON.parse(g.dataset.points).map(([x, y, low = y, high = y]) => ({x, y, low, high}));
      const name = g.querySelector('title').textContent, bars = g.querySelector('.bars').getAttribute('d') !== '';
      g.querySelector('title').outerHTML = '<path class="raw"/>';
      return {...g.dataset, g, points, name, bars};
    });
    svg.insertAdjacentHTML('beforeend', '<rect class="chosen"/><circle class="spot" r="6"/>');
    set(svg, {tabindex: 0, role: 'application'});
    this.tip = make('div', {className: 'tip', role: 'status', hidden: true});
    this.whole = Object.assign(button(() => this.zoomTo(null), 'Whole range'), {disabled: true});
    const box = make('input', {type: 'checkbox', checked: this.logarithmic});
    box.onchange = () => { this.logarithmic = box.checked; this.draw(); };
    const curves = this.lines.every(line => ['line', 'band', 'level'].includes(line.form));
    svg.after(make('div', {className: 'tools'}, curves ? make('label', {}, box, 'Logarithmic') : '', this.whole), this.tip);
    this.names = [...this.figure.querySelectorAll('.legend li')].map(item => {
      const name = item.textContent, toggle = button(() => {
        if (!group.hidden.delete(name)) group.hidden.add(name);
        group.plots.forEach(plot => plot.draw());
      }, ...item.childNodes);
      item.append(toggle);
      return {name, toggle};
    });
    svg.onkeydown = event => this.key(event);
    svg.onpointermove = event => {
      this.show(this.nearest(this.pointer(event)));
      this.drag(this.pointer(event)[0], false);
    };
    svg.onpointerdown = event => { this.start = this.pointer(event)[0]; svg.setPointerCapture(event.pointerId); };
    svg.onpointerup = event => this.drag(this.pointer(event)[0], true);
    svg.onpointerleave = svg.onblur = svg.onpointercancel = () => {
      this.start = undefined;
      this.show(null);
    };
    svg.ondblclick = () => this.zoomTo(null);
    this.draw();
  }

  shows(value) { return !this.logarithmic || value >= 1e-100; }
  /* Numbers that are equal but for rounding are no range. */
  zoomTo(range) {
    if (range && range[1] - range[0] < 1e-9 * most(range.map(Math.abs))) return;
    this.zoom = range;
    this.whole.disabled = range === null;
    this.draw();
  }

  draw() {
    const {zoom, group, svg} = this, [left, right, top, bottom] = this.field;
    const lines = this.lines.filter(line => !group.hidden.has(line.name)).map(line => {
      const weight = line.form === 'line' || line.form === 'band' ? group.smoothing : 0;
      const own = line.points.filter(point => this.shows(point.y));
      return {...line, weight, own, points: smoothed(own, weight)};
    });
    /* A line that crosses the borders of the zoom counts with the points beyond them. */
    const near = points => !zoom ? points : points.filter((point, i) =>
        (points[i + 1] ?? point).x >= zoom[0] && (points[i - 1] ?? point).x <= zoom[1]);
    const counted = lines.flatMap(line => [...near(line.own), ...near(line.points)]);
    if (counted.length) {
      const xs = counted.map(point => point.x);
      const ys = counted.flatMap(({y, low, high}) => [y, low, high]).filter(value => this.shows(value));
      this.xRange = zoom ?? roomy(this.x.logarithmic, this.x.fromZero, least(xs), most(xs));
      this.yRange = roomy(this.logarithmic, this.y.fromZero && !zoom, least(ys), most(ys));
    }
    this.placeX = scale(this.x.logarithmic, this.xRange, left, right);
    this.placeY = scale(this.logarithmic, this.yRange, bottom, top);
    this.drawTicks();
    svg.querySelector('.field').classList.toggle('zoomed', zoom !== null);
    for (const {name, toggle} of this.names) toggle.setAttribute('aria-pressed', !group.hidden.has(name));
    for (const {g, name} of this.lines) g.style.display = group.hidden.has(name) ? 'none' : '';
    this.drawn = lines.map(line => this.drawLine(line));
    this.show(null);
  }

  drawTicks() {
    const [left, right, top, bottom] = this.field;
    let grid = '', texts = '';
    const add = (x, y, anchor, text) => texts += `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;
    for (const [at, text] of ticks(this.x.logarithmic, this.x.ticks, this.xRange, this.placeX)) {
      grid += `M${at},${top}V${bottom}`;
      add(at, fixed(bottom + 19), 'middle', text);
    }
    for (const [at, text] of ticks(this.logarithmic, this.y.ticks, this.yRange, this.placeY)) {
      grid += `M${left},${at}H${right}`;
      add(fixed(left - 8), fixed(Number(at) + 5), 'end', text);
    }
    this.svg.querySelector('.ticks').innerHTML = `<path class="grid" d="${grid}"/>${texts}`;
  }

  drawLine(line) {
    const {g, form, mark, every, weight} = line;
    const points = line.points.map(point => ({...point, at: [this.placeX(point.x), this.placeY(point.y)]}));
    const height = value => fixed(this.placeY(value)), half = points.length > 1 ? (points[1].x - points[0].x) / 2 : 0;
    const joined = y => points.map((point, i) => `${fixed(point.at[0])},${y(point, i)}`);
    const edge = x => fixed(this.placeX(x));
    const step = ({x, at}, i) => `${i ? 'V' : `M${edge(x - half)},`}${fixed(at[1])}H${edge(x + half)}`;
    const path = list => list.length ? `M${list.join('L')}` : '', own = joined(point => fixed(point.at[1]));
    const ends = points.map(({y, low, high}) => this.shows(low) && this.shows(high) ? [low, high] : [y, y]);
    const area = [...joined((_, i) => height(ends[i][1])), ...joined((_, i) => height(ends[i][0])).reverse()];
    const paths = {
      raw: weight ? path(joined(point => height(point.raw))) : '',
      line: form === 'histogram' ? points.map(step).join('') : form === 'dots' ? '' : path(own),
      band: form === 'band' ? `${path(area)}Z` : '',
      bars: line.bars ? own.flatMap((at, i) => ends[i].map(end => `M${at}V${height(end)}m-3,0h6`)).join('') : '',
      mark: mark ? own.filter((_, i) => i % every === 0).map(at => `M${at}${mark}`).join('') : '',
    };
    for (const [kind, d] of Object.entries(paths)) set(g.querySelector(`.${kind}`), {d});
    const inside = ({at}) => at[0] > this.field[0] - 1 && at[0] < this.field[1] + 1;
    return {...line, points: points.filter(inside)};
  }

  /* In units of the image. */
  pointer(event) {
    const box = this.svg.getBoundingClientRect(), unit = this.svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * unit, (event.clientY - box.top) * unit];
  }

  /* The pointer is at x, and may choose a range since it went down. */
  drag(x, ends) {
    const [left, right, y, bottom] = this.field;
    const [from, to] = [this.start ?? x, x].map(at => Math.max(left, Math.min(at, right))).sort((a, b) => a - b);
    set(this.svg.querySelector('.chosen'), {x: from, y, width: ends ? 0 : to - from, height: bottom - y});
    if (!ends) return;
    this.start = undefined;
    if (to - from > 6) this.zoomTo([from, to].map(this.placeX.valueAt));
  }

  nearest([x, y], lines = this.drawn) {
    const distance = ({at}) => Math.hypot(at[0] - x, at[1] - y);
    const all = lines.flatMap(line => line.points.map((point, i) => ({line, i, far: distance(point)})));
    return all.length ? all.reduce((a, b) => b.far < a.far ? b : a) : null;
  }

  show(found) {
    this.current = found;
    this.tip.hidden = !found;
    this.svg.classList.toggle('read', found !== null);
    if (!found) return;
    const {line, i} = found, {x, y, raw, low, high, at} = line.points[i], spot = this.svg.querySelector('.spot');
    const name = axis => this.svg.querySelector(`.${axis}-title`).textContent;
    const facts = [`${name('x')}: ${digits(x, 9)}`, `${name('y')}: ${digits(y, 5)}`];
    if (line.weight) facts.push(`not smoothed: ${digits(raw, 5)}`);
    if (low < high) facts.push(`from ${digits(low, 5)} to ${digits(high, 5)}`);
    this.tip.replaceChildren(make('b', {}, line.name), ...facts.map(fact => make('span', {}, fact)));
    set(spot, {cx: at[0], cy: at[1], color: line.g.getAttribute('color')});
    const box = this.svg.getBoundingClientRect(), outer = this.figure.getBoundingClientRect();
    const unit = box.width / this.svg.viewBox.baseVal.width, {offsetWidth, offsetHeight, style} = this.tip;
    const center = box.left - outer.left + at[0] * unit, middle = box.top - outer.top + at[1] * unit;
    style.left = `${Math.max(0, Math.min(center - offsetWidth / 2, outer.width - offsetWidth - 2))}px`;
    style.top = `${middle > offsetHeight + 14 ? middle - offsetHeight - 14 : middle + 14}px`;
  }

  key(event) {
    const [left, right] = this.field, {line, i} = this.current ?? {};
    const place = line?.points[i].at ?? [left, this.field[3]], number = this.drawn.indexOf(line);
    const start = () => this.show(this.nearest(place));
    const along = to => () => line ? this.show({line, i: Math.max(0, Math.min(to, line.points.length - 1))}) : start();
    const other = by => () =>
      line ? this.show(this.nearest(place, [this.drawn.at((number + by) % this.drawn.length)])) : start();
    const middle = (left + right) / 2, center = line ? place[0] : middle;
    const around = half => () => {
      this.zoomTo([center - half, center + half].map(this.placeX.valueAt));
      this.show(this.nearest([middle, place[1]]));
    };
    const actions = {ArrowLeft: along(i - 1), ArrowRight: along(i + 1), Home: along(0), End: along(Infinity),
                     ArrowUp: other(-1), ArrowDown: other(1), '+': around((right - left) / 4), '-': around(right - left),
                     Escape: () => this.zoomTo(null)};
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

/* Which of the sections is shown, and how smooth lines are. */
const addChoice = (curves, group) => {
  const sections = [...curves.querySelectorAll('section')];
  const choice = make('select', {}, ...sections.map(one => new Option(one.querySelector('h2').textContent)), new Option('all'));
  choice.onchange = () => sections.forEach(
      (one, i) => one.hidden = choice.selectedIndex < sections.length && i !== choice.selectedIndex);
  const slider = make('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: 0}), value = make('output', {}, '0');
  slider.oninput = () => {
    group.smoothing = Number(value.textContent = slider.value);
    group.plots.forEach(plot => plot.draw());
  };
  const labels = [make('label', {}, 'Curves', choice), make('label', {}, 'Smoothing', slider, value)];
  curves.prepend(make('div', {className: 'tools'}, ...labels));
  choice.onchange();
};

const addSorting = table => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  if (body.rows.length < 2) return;
  /* "1:02:03" is a time. */
  const number = text => text.split(':').reduce((sum, part) => 60 * sum + parseFloat(part), 0);
  heads.forEach((head, column) => head.append(button(() => {
    const sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    heads.forEach(one => one.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
    const rows = [...body.rows].map(row => ({row, text: row.cells[column].textContent}));
    /* What is no number comes last in either direction. */
    body.append(...rows.sort((a, b) => {
      const [x, y] = [number(a.text), number(b.text)];
      if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
      return sign * (isNaN(x) ? a.text.localeCompare(b.text, undefined, {numeric: true}) : x - y);
    }).map(({row}) => row));
  }, ...head.childNodes)));
};

document.querySelectorAll('.wide > table:not(.map)').forEach(addSorting);
document.querySelector('.curves, .figures')?.before(make('p', {className: 'keys'},
    'Drag across a plot to zoom in, double-click it for the whole. A name in a legend hides its line. Keys of a plot: ' +
    'arrows read its points, + and − zoom, Esc shows the whole.'));
const groups = new Map();
for (const svg of document.querySelectorAll('.plot')) {
  const owner = svg.closest('.curves') ?? svg.closest('figure');
  if (!groups.has(owner)) groups.set(owner, {plots: [], hidden: new Set(), smoothing: 0});
  groups.get(owner).plots.push(new Plot(svg, groups.get(owner)));
}
for (const curves of document.querySelectorAll('.curves')) addChoice(curves, groups.get(curves));
}

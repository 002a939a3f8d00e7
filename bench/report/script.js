'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* ---- words and numbers ---- */

const whole = (value) => Math.round(value).toLocaleString('en');
const fixed = (value, digits = 1) => (value === null || value === undefined ? '–' : value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const ms = (value) => (value >= 100 ? `${whole(value)} ms` : `${fixed(value, value < 10 ? 2 : 1)} ms`);

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'style') made.style.cssText = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function table(columns, rows) {
  const cell = (tag, column, text) => element(tag, column.text ? { class: 'text' } : {}, text);
  const head = element('tr', {}, ...columns.map((column) => cell('th', column, column.name)));
  const lines = rows.map((row) => element('tr', {}, ...columns.map((column) => cell('td', column, String(column.of(row))))));
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...lines));
}

const show = (id, ...children) => byId(id).replaceChildren(...children);
const hide = (id) => { byId(id).hidden = true; };

/* ---- the levels ---- */

const levels = data.runs.flatMap((run) => run.levels.map((level) => ({ ...level, run })));
const closed = levels.filter((level) => level.unit === 'users');
const open = levels.filter((level) => level.unit === 'requests/s');
const unique = (list) => [...new Set(list)];
const topologies = unique(levels.map((level) => level.topology));
const byLevel = (a, b) => a.level - b.level || a.hold_s - b.hold_s || a.round - b.round;

// Where a level was tried more than once the longest run speaks for it in a chart.
function oneForEach(list) {
  const chosen = new Map();
  for (const level of [...list].sort(byLevel)) chosen.set(level.level, level);
  return [...chosen.values()];
}

// The box's roles come first: they meet in one chart and must not share a colour.
const boxRoles = unique(levels.flatMap((level) => Object.keys(level.box_roles))).sort();
const roleNames = unique([...boxRoles, ...levels.flatMap((level) => Object.keys(level.cores)).sort()]);
const roleColor = (name) => color(`--c${roleNames.indexOf(name) % 14}`);

/* ---- charts ---- */

const charts = new Map();

function axis(label, options = {}) {
  return {
    label, labelSize: 22, labelFont: '12px system-ui, sans-serif', font: '12px system-ui, sans-serif',
    stroke: color('--soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { stroke: color('--line'), width: 1 },
    ...options,
  };
}

function line(label, stroke, options = {}) {
  return { label, stroke, width: 2, points: { size: 6, fill: stroke }, spanGaps: true, ...options };
}

function draw(id, options, columns) {
  const place = byId(id);
  if (charts.has(id)) charts.get(id).destroy();
  const height = options.height || (innerWidth < 600 ? 260 : 320);
  const chart = new uPlot({ width: Math.max(place.clientWidth, 200), cursor: { drag: { x: false, y: false } }, ...options, height }, columns, place);
  charts.set(id, chart);
}

const logTicks = (chart, ticks) => ticks.map((tick) => (Math.log10(tick) % 1 === 0 ? whole(tick >= 1 ? tick : 0) && (tick >= 1 ? whole(tick) : String(tick)) : ''));

// Pass marks, drawn over whatever is there.
function markLines(marks) {
  return { hooks: { draw: [(chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.setLineDash([6, 4]);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = 'left';
    ctx.textBaseline = 'bottom';
    for (const { at, name, stroke } of marks) {
      const y = chart.valToPos(at, 'y', true);
      if (y < bbox.top || y > bbox.top + bbox.height) continue;
      ctx.strokeStyle = stroke;
      ctx.fillStyle = stroke;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.fillText(name, bbox.left + 6 * devicePixelRatio, y - devicePixelRatio);
    }
    ctx.restore();
  }] } };
}

const marks = data.runs.length > 0 ? data.runs[0].marks : { p95_ms: 500, p99_ms: 1000, failure_percent: 1 };
const latencyMarks = () => [
  { at: marks.p95_ms, name: `p95 mark, ${marks.p95_ms} ms`, stroke: color('--c1') },
  { at: marks.p99_ms, name: `p99 mark, ${marks.p99_ms} ms`, stroke: color('--c4') },
];

// At least up to the marks, whatever the data: they are the measure.
function latencyRange(chart, low, high) {
  const bottom = Math.max(Math.min(low || 1, 1), 0.01);
  return uPlot.rangeLog(bottom, Math.max(high || 1, marks.p99_ms * 1.2), 10, true);
}

function latencySeries() {
  return [line('p50', color('--c2')), line('p95', color('--c1')), line('p99', color('--c4'))]
    .map((series) => ({ ...series, value: (_, value) => (value == null ? '–' : ms(value)) }));
}

/* ---- sections ---- */

let topology = topologies.find((name) => closed.some((level) => level.topology === name)) || topologies[0];
// Whether the first chart shows all of them.
let isComparing = topologies.length > 1;
let shown = [];
let current = 0;

const largestBy = (list, of) => list.reduce((a, b) => (a && of(a) >= of(b) ? a : b), null);
const whatRanOut = (level) => {
  const words = [];
  if (level.cpu_share_percent > 95) words.push(`CPU (${whole(level.cpu_share_percent)}% of the share)`);
  if (level.memory_share_percent > 95) words.push(`memory (${whole(level.memory_share_percent)}%)`);
  if (level.generator_percent > 70) words.push('the generator');
  return words.join(', ');
};

function drawSummary() {
  const scored = data.runs.flatMap((run) => Object.entries(run.scores).map(([name, score]) => ({ name, ...score })));
  const cards = scored.map((score) => [whole(score.passed), `${score.unit} held by ${score.name}; ${score.failed === null ? 'no more were tried' : `${whole(score.failed)} failed`}`]);
  show('summary', ...cards.map(([figure, words]) => element('div', { class: 'card' }, element('b', {}, figure), element('span', {}, words))));
  byId('summary').hidden = cards.length === 0;
  const rows = topologies.map((name) => {
    const of = closed.filter((level) => level.topology === name);
    // A search's score is confirmed by its longest run, and so goes before a single look.
    const score = scored.find((candidate) => candidate.name === name && candidate.unit === 'users');
    const passed = of.filter((level) => level.passed);
    const held = score ? score.passed : passed.length > 0 ? Math.max(...passed.map((level) => level.level)) : 0;
    const failed = of.filter((level) => !level.passed && level.level > held).sort(byLevel)[0];
    return { name, held, failed, best: largestBy(passed.filter((level) => level.cpu_us > 0 && level.level <= held), (level) => level.requests_per_s) };
  }).filter((row) => row.held > 0 || row.failed);
  show('answer', table([
    { name: 'Topology', of: (row) => row.name },
    { name: 'Held, users', of: (row) => (row.held > 0 ? `${whole(row.held)}${row.failed ? '' : ' or more'}` : 'none that was tried') },
    { name: 'Failed at', of: (row) => (row.failed ? whole(row.failed.level) : '–') },
    { name: 'CPU by request, µs', of: (row) => (row.best ? fixed(row.best.cpu_us) : '–') },
    { name: 'Users by full core (model)', of: (row) => (row.best ? whole(row.best.users_per_core) : '–') },
    { name: 'How it failed, and what had run out', text: true, of: (row) => (row.failed ? [row.failed.faults.join('; '), whatRanOut(row.failed)].filter(Boolean).join(' — ') : '') },
  ], rows));
  byId('answer-section').hidden = rows.length === 0;
  const [run] = data.runs;
  const limits = run.limits ? `a box of ${run.limits.cpu_percent}% of a core and ${whole(run.limits.memory_bytes / 2 ** 20)} MiB` : 'a box of one core';
  byId('lead').textContent = `${levels.length} runs on ${topologies.length === 1 ? topologies[0] : `${topologies.length} topologies`}, ${limits}; ${run.started_at.slice(0, 10)}, ${run.machine.cpu}, revision ${run.machine.revision || 'unknown'}.`;
}

const runColumns = [
  { name: 'Topology', of: (level) => level.topology },
  { name: 'Level', of: (level) => level.name },
  { name: 'Engine', of: (level) => level.run.engine },
  { name: 'Hold, s', of: (level) => whole(level.hold_s) },
  { name: 'Requests/s', of: (level) => whole(level.requests_per_s) },
  { name: 'p50, ms', of: (level) => fixed(level.p50_ms, 2) },
  { name: 'p95, ms', of: (level) => fixed(level.p95_ms, 2) },
  { name: 'p99, ms', of: (level) => fixed(level.p99_ms, 2) },
  { name: 'Failed, %', of: (level) => fixed(level.failed_percent, 2) },
  { name: 'CPU µs/request', of: (level) => (level.cpu_us > 0 ? fixed(level.cpu_us) : '–') },
  { name: 'Box, % of a core', of: (level) => fixed(100 * level.box_cores) },
  { name: 'Generator, %', of: (level) => whole(level.generator_percent) },
  { name: 'Verdict', text: true, of: (level) => (level.passed ? 'passed' : level.faults.join('; ')) },
];

function tab(name, isPressed, choose) {
  const button = element('button', { type: 'button', 'aria-pressed': String(isPressed) }, name);
  button.addEventListener('click', choose);
  return button;
}

// Of one topology every percentile, of all of them the p95: one line each.
function latencyLines(unit) {
  if (!isComparing) {
    const points = oneForEach(levels.filter((level) => level.topology === topology && level.unit === unit));
    return latencySeries().map((series, at) => ({ series, points, of: ['p50_ms', 'p95_ms', 'p99_ms'][at], failed: at === 1 }));
  }
  const value = (_, number) => (number == null ? '–' : ms(number));
  return topologies.map((name, at) => ({
    series: line(name, color(`--c${at % 10}`), { value }),
    points: oneForEach(levels.filter((level) => level.topology === name && level.unit === unit && level.run.command !== 'save')),
    of: 'p95_ms',
    failed: true,
  })).filter((each) => each.points.length > 0);
}

function drawLatency() {
  byId('failure-mark').textContent = `${marks.failure_percent}%`;
  const tabs = topologies.map((name) => tab(name, !isComparing && name === topology, () => { isComparing = false; topology = name; current = 0; drawAll(); }));
  if (topologies.length > 1) tabs.unshift(tab('all, p95', isComparing, () => { isComparing = true; drawAll(); }));
  show('topologies', ...tabs);
  const shownHere = levels.filter((level) => (isComparing || level.topology === topology) && level.unit !== 'connections');
  const unit = shownHere.some((level) => level.unit === 'users') ? 'users' : 'requests/s';
  const lines = latencyLines(unit);
  const x = unique(lines.flatMap((each) => each.points.map((point) => point.level))).sort((a, b) => a - b);
  const column = ({ points, of }, isZeroShown) => x.map((at) => {
    const point = points.find((candidate) => candidate.level === at);
    return point && (isZeroShown || point[of] > 0) ? point[of] : null;
  });
  const edge = x.length === 1 ? [x[0] * 0.5, x[0] * 1.5] : [Math.min(...x), Math.max(...x)];
  // Levels that double want a scale that does: the small ones would lie on one another.
  const isWide = edge[1] > edge[0] * 8;
  const span = (edge[1] - edge[0]) * 0.03;
  const scaleX = { time: false, distr: isWide ? 3 : 1, log: 2, range: () => (isWide ? [edge[0] / 1.1, edge[1] * 1.1] : [edge[0] - span, edge[1] + span]) };
  const ticks = isWide ? { splits: () => x.filter((at, index) => index === 0 || at >= x[index - 1] * 1.4), values: (_, values) => values.map(whole) } : { values: (_, values) => values.map(whole) };
  byId('latency-chart').hidden = byId('failure-chart').hidden = x.length === 0;
  if (x.length > 0) {
    const level = { label: unit, value: (_, value) => (value == null ? '–' : whole(value)) };
    draw('latency-chart', {
      scales: { x: scaleX, y: { distr: 3, range: latencyRange } },
      axes: [axis(unit, ticks), axis(isComparing ? 'p95, ms' : 'ms', { size: 60, values: logTicks })],
      series: [level, ...lines.map((each) => each.series)],
      plugins: [markLines(isComparing ? latencyMarks().slice(0, 1) : latencyMarks())],
    }, [x, ...lines.map((each) => column(each))]);
    const failing = lines.filter((each) => each.failed).map((each) => ({ ...each, of: 'failed_percent' }));
    const value = (_, number) => (number == null ? '–' : fixed(number, 2));
    draw('failure-chart', {
      height: 170,
      scales: { x: scaleX, y: { range: (_, low, high) => [0, Math.max(high * 1.1, marks.failure_percent * 2)] } },
      axes: [axis(unit, ticks), axis('failed, %', { size: 60 })],
      series: [level, ...failing.map((each) => (isComparing ? { ...each.series, value } : line('failed, %', color('--c3'), { value })))],
      plugins: [markLines([{ at: marks.failure_percent, name: `mark, ${marks.failure_percent}%`, stroke: color('--soft') }])],
    }, [x, ...failing.map((each) => column(each, true))]);
  }
  show('latency-table', table(runColumns, [...levels].sort((a, b) => a.topology.localeCompare(b.topology) || byLevel(a, b))));
}

// What has no part in the run is a figure beside the chart, not a layer that hides the others.
const others = 'other processes';

function stack(level) {
  const names = Object.keys(level.series.cores).filter((name) => name !== others).sort();
  const total = level.series.t.map(() => 0);
  const layers = names.map((name) => level.series.cores[name].map((value, at) => {
    total[at] += value;
    return total[at];
  }));
  return { names, layers, total };
}

function drawLevel() {
  shown = levels.filter((level) => level.topology === topology).sort(byLevel);
  const slider = byId('level');
  slider.max = Math.max(shown.length - 1, 0);
  current = Math.min(current, shown.length - 1);
  slider.value = current;
  const level = shown[current];
  if (!level) return hide('level-section');
  byId('level-name').textContent = `${level.name} on ${level.topology}`;
  slider.setAttribute('aria-valuetext', level.name);
  show('level-verdict', element('span', { class: level.passed ? 'pass' : 'fail' }, level.passed ? 'Passed.' : `Failed: ${level.faults.join('; ')}.`));
  const facts = [
    [whole(level.requests), 'requests'], [`${whole(level.requests_per_s)}/s`, 'while held'],
    [ms(level.p50_ms), 'p50'], [ms(level.p95_ms), 'p95'], [ms(level.p99_ms), 'p99'], [ms(level.max_ms), 'slowest'],
    [`${fixed(level.failed_percent, 2)}%`, 'failed'],
    [level.cpu_us > 0 ? `${fixed(level.cpu_us)} µs` : '–', 'CPU by request'],
    [`${fixed(100 * level.box_cores)}%`, 'of a core used by the box'],
    ...(level.cpu_share_percent === null ? [] : [[`${whole(level.cpu_share_percent)}%`, 'of its share of CPU used']]),
    [level.memory_mb === null ? '–' : `${whole(level.memory_mb)} MB`, 'memory of the servers'],
    [`${whole(level.generator_percent)}%`, 'of its cores used by the generator'],
    [level.difference_percent === null ? '–' : `${fixed(level.difference_percent, 2)}%`, 'between the roles and the box’s total'],
    [`${fixed(100 * (level.cores[others] || 0), 1)}%`, 'of a core used by other processes'],
    [`${fixed(100 * level.unaccounted_cores, 1)}%`, 'of a core on no process’s account'],
    [`${fixed(100 * level.steal_cores, 1)}%`, 'of a core stolen'],
    [whole(level.disk_flushes), 'disk flushes'],
  ];
  show('level-facts', ...facts.map(([figure, words]) => element('div', {}, element('b', {}, figure), words)));
  const { t, p50, p95, p99, requests } = level.series;
  const positive = (list) => list.map((value) => (value > 0 ? value : null));
  const seconds = { time: false };
  const at = { label: 's', value: (_, value) => (value == null ? '–' : whole(value)) };
  const hasSeconds = p50.some((value) => value > 0);
  draw('level-latency', {
    scales: { x: seconds, y: { distr: 3, range: latencyRange }, rate: { range: (_, low, high) => [0, (high || 1) * 1.1] } },
    axes: [axis('seconds'), axis('ms', { size: 60, values: logTicks }), axis('requests/s', { scale: 'rate', side: 1, size: 60, grid: { show: false } })],
    series: [at, ...(hasSeconds ? latencySeries() : []).map((series) => ({ ...series, points: { show: false }, width: 1.5 })),
      line('requests/s', color('--c7'), { scale: 'rate', width: 1, points: { show: false }, value: (_, value) => (value == null ? '–' : whole(value)) })],
    plugins: [markLines(latencyMarks())],
  }, [t, ...(hasSeconds ? [positive(p50), positive(p95), positive(p99)] : []), requests]);

  const { names, layers, total } = stack(level);
  const share = (value) => (value == null ? '–' : `${fixed(100 * value)}%`);
  draw('level-cpu', {
    scales: { x: seconds, y: { range: (_, low, high) => [0, Math.max((high || 0.01) * 1.1, 0.01)] } },
    axes: [axis('seconds'), axis('% of a core', { size: 60, values: (_, values) => values.map((value) => fixed(100 * value, 0)) })],
    series: [at,
      line('sum', color('--ink'), { width: 1.5, points: { show: false }, value: (_, value) => share(value) }),
      ...names.map((name, number) => line(name, roleColor(name), {
        width: 1, points: { show: false }, fill: number === 0 ? `${roleColor(name)}88` : undefined,
        value: (chart, value, series, index) => share(index == null ? null : level.series.cores[name][index]),
      }))],
    bands: names.slice(1).map((name, number) => ({ series: [number + 3, number + 2], fill: `${roleColor(name)}88` })),
  }, [t, total, ...layers]);

  const rows = t.map((second, index) => ({ second, index }));
  show('level-table', table([
    { name: 'Second', of: (row) => whole(row.second) },
    { name: 'Users', of: (row) => whole(level.series.users[row.index]) },
    { name: 'Requests/s', of: (row) => whole(requests[row.index]) },
    { name: 'Failed', of: (row) => whole(level.series.failures[row.index]) },
    { name: 'p50, ms', of: (row) => fixed(p50[row.index], 2) },
    { name: 'p95, ms', of: (row) => fixed(p95[row.index], 2) },
    { name: 'p99, ms', of: (row) => fixed(p99[row.index], 2) },
    ...names.map((name) => ({ name: `${name}, %`, of: (row) => fixed(100 * level.series.cores[name][row.index]) })),
  ], rows));
  show('level-caveats', ...level.caveats.map((text) => element('li', {}, text)));
}

function bars(list, largest) {
  return list.map(({ name, value, words, parts }) => element('div', { class: 'bar' },
    element('div', { class: 'name' }, element('span', {}, name), element('b', {}, words)),
    element('div', { class: 'track', role: 'img', 'aria-label': `${name}: ${words}` },
      ...parts.map((part) => element('i', { title: `${part.name} ${fixed(part.value)} µs`, style: `width:${(100 * part.value) / largest}%;background:${roleColor(part.name)}` })))));
}

function parts(level) {
  return Object.entries(level.box_roles).map(([name, cores]) => ({ name, value: level.requests_per_s > 0 ? (cores * 1e6) / level.requests_per_s : 0 }));
}

function keys(list) {
  const names = unique(list.flatMap((level) => Object.keys(level.box_roles))).sort();
  return element('div', { class: 'keys' }, ...names.map((name) => element('span', {}, element('i', { style: `background:${roleColor(name)}` }), name)));
}

const costColumns = [
  { name: 'Topology', of: (level) => level.topology },
  { name: 'At', of: (level) => level.name },
  { name: 'µs by request', of: (level) => fixed(level.cpu_us) },
  { name: 'Requests/s', of: (level) => whole(level.requests_per_s) },
  { name: 'Users by core (model)', of: (level) => whole(level.users_per_core) },
  { name: 'Of which, µs', text: true, of: (level) => parts(level).map((part) => `${part.name} ${fixed(part.value)}`).join(', ') },
];

function drawCost() {
  const list = topologies.map((name) => {
    const measured = levels.filter((level) => level.topology === name && level.cpu_us > 0 && level.run.command !== 'save');
    const passed = measured.filter((level) => level.lasts);
    return largestBy(passed.length > 0 ? passed : measured, (level) => level.requests_per_s);
  }).filter((level) => level);
  if (list.length === 0) return hide('cost-section');
  const largest = Math.max(...list.map((level) => level.cpu_us));
  show('cost-bars', keys(list), ...bars(list.map((level) => ({ name: `${level.topology}, ${level.name}`, words: `${fixed(level.cpu_us)} µs`, parts: parts(level) })), largest));
  show('cost-table', table(costColumns, list));
}

function drawLoops() {
  const both = topologies.filter((name) => closed.some((level) => level.topology === name) && open.some((level) => level.topology === name && level.run.command !== 'save'));
  if (both.length === 0) return hide('loops-section');
  const name = both.includes(topology) ? topology : both[0];
  const of = (list) => list.filter((level) => level.topology === name && level.run.command !== 'save').map((level) => ({ rate: level.requests_per_s, p95: level.p95_ms }));
  const closedPoints = of(closed);
  const openPoints = of(open);
  const x = unique([...closedPoints, ...openPoints].map((point) => point.rate)).sort((a, b) => a - b);
  const column = (points) => x.map((rate) => { const point = points.find((candidate) => candidate.rate === rate); return point && point.p95 > 0 ? point.p95 : null; });
  const value = (_, number) => (number == null ? '–' : ms(number));
  draw('loops-chart', {
    scales: { x: { time: false }, y: { distr: 3, range: latencyRange } },
    axes: [axis(`requests/s answered on ${name}`, { values: (_, values) => values.map(whole) }), axis('p95, ms', { size: 60, values: logTicks })],
    series: [{ label: 'requests/s', value: (_, number) => (number == null ? '–' : whole(number)) }, line('closed loop, p95', color('--c0'), { value }), line('open loop, p95', color('--c1'), { value })],
    plugins: [markLines(latencyMarks().slice(0, 1))],
  }, [x, column(closedPoints), column(openPoints)]);
  const rows = both.map((each) => {
    // A search that never failed found no ceiling.
    const score = (command) => data.runs.filter((run) => run.command === command && run.scores[each] && run.scores[each].failed !== null).map((run) => run.scores[each].passed)[0];
    const users = score('search');
    const rate = score('open');
    return { each, users, asRate: users === undefined ? undefined : users * data.requests_per_s_per_user, rate };
  });
  const maybe = (number, words) => (number === undefined ? '–' : words(number));
  show('loops-table', table([
    { name: 'Topology', of: (row) => row.each },
    { name: 'Closed ceiling, users', of: (row) => maybe(row.users, whole) },
    { name: 'as requests/s', of: (row) => maybe(row.asRate, whole) },
    { name: 'Open ceiling, requests/s', of: (row) => maybe(row.rate, whole) },
    { name: 'Gap', of: (row) => (row.asRate && row.rate !== undefined ? `${fixed(100 * (1 - row.rate / row.asRate))}%` : '–') },
  ], rows));
}

function drawSaving() {
  const list = levels.filter((level) => level.run.command === 'save');
  if (list.length === 0) return hide('saving-section');
  const direct = list.find((level) => level.topology.startsWith('alone')) || list[0];
  const saved = (level) => 100 * (1 - level.cpu_us / direct.cpu_us);
  show('saving-bars', keys(list), ...bars(list.map((level) => ({
    name: level.topology,
    words: level === direct ? `${fixed(level.cpu_us)} µs` : `${fixed(level.cpu_us)} µs, ${fixed(saved(level))}% saved`,
    parts: parts(level),
  })), Math.max(...list.map((level) => level.cpu_us))));
  show('saving-table', table([...costColumns, { name: 'Saved, %', of: (level) => fixed(saved(level)) }], list));
}

function drawPlan() {
  const field = (id) => Math.max(Number(byId(id).value) || 0, 0);
  const [dau, online, cpu, busy, dollars, ttl] = ['dau', 'online', 'cpu', 'busy', 'dollars', 'ttl'].map(field);
  if (!(cpu > 0 && dau > 0 && ttl > 0)) return show('plan', 'Fill in the figures above.');
  const rate = data.requests_per_s_per_user;
  const perBox = (1e6 * busy) / 100 / (cpu * rate);
  const users = (dau * online) / 100;
  const boxes = Math.max(Math.ceil(users / perBox), 1);
  const cost = boxes * dollars;
  const feeds = users / data.mean_cycle_s;
  const text = [
    `users by box  = ${busy}% × 1,000,000 µs ÷ (${fixed(cpu)} µs × ${fixed(rate, 4)} requests/s by user) = ${whole(perBox)}`,
    `users at once = ${online}% × ${whole(dau)} = ${whole(users)}, or ${whole(users * rate)} requests/s`,
    `boxes         = ${whole(users)} ÷ ${whole(perBox)}, rounded up = ${whole(boxes)}`,
    `cost          = ${whole(boxes)} × $${dollars} = $${fixed(cost, 2)} a month = $${fixed((1000 * cost) / dau, 4)} for each 1,000 daily users`,
    `feed renders  = ${whole(users)} ÷ ${data.mean_cycle_s} s = ${fixed(feeds)} a second without the edge`,
  ].join('\n');
  const rows = [1, 10, 50, 100, 300].map((centers) => ({ centers, renders: Math.min(feeds, (centers * 1000) / ttl) }));
  show('plan', element('div', { class: 'formula' }, text), element('div', { class: 'scroll' }, table([
    { name: 'Data centres', of: (row) => row.centers },
    { name: 'Feed renders a second, each asks for itself', of: (row) => fixed(row.renders) },
    { name: 'with an upper tier that asks for all', of: () => fixed(Math.min(feeds, 1000 / ttl)) },
  ], rows)), element('p', { class: 'note' }, 'One core a box. CPU by request is what was measured at one load; it falls as load rises and rises with what else the box does.'));
}

function drawCaveats() {
  const own = data.runs.flatMap((run) => run.caveats);
  // What holds for every run is said once; what holds for some is said with each of them.
  const texts = unique(levels.flatMap((level) => level.caveats));
  const ofAll = texts.filter((text) => levels.every((level) => level.caveats.includes(text)));
  const ofSome = levels.flatMap((level) => level.caveats.filter((text) => !ofAll.includes(text)).map((text) => `${level.name} on ${level.topology}: ${text}`));
  show('caveats', ...unique([...own, ...ofAll]).map((text) => element('li', {}, text)));
  show('level-remarks', ...unique(ofSome).map((text) => element('li', {}, text)));
  byId('remarks').hidden = ofSome.length === 0;
  const facts = data.runs.flatMap((run) => [
    ['Command', `${run.command}, ${run.started_at}`], ['Engine', run.engine], ['Dataset', run.dataset],
    ['Processor', `${run.machine.cpu}, ${run.machine.cores} cores, ${fixed(run.machine.memory_bytes / 1e9)} GB`],
    ['Cores of the box; of everyone else', `${run.cores_on_box.join(', ')}; ${run.cores_off_box.join(', ')}`],
    ['The box', run.limits ? `${run.limits.cpu_percent}% of a core, ${whole(run.limits.memory_bytes / 2 ** 20)} MiB, by ${run.confined_by}` : 'one whole core, memory not limited'],
    ['Kernel', run.machine.kernel],
    ...['revision', 'rustc', 'postgres', 'nginx', 'node', 'k6', 'workerd'].filter((name) => run.machine[name]).map((name) => [name, run.machine[name]]),
  ]);
  show('machine', table([{ name: 'What', of: (fact) => fact[0] }, { name: 'Value', text: true, of: (fact) => fact[1] }], facts));
}

function drawAll() {
  drawLatency();
  drawLevel();
  drawLoops();
}

function start() {
  drawSummary();
  drawAll();
  drawCost();
  drawSaving();
  const busiest = largestBy(levels.filter((level) => level.lasts && level.cpu_us > 0), (level) => level.requests_per_s);
  byId('cpu').value = busiest ? busiest.cpu_us.toFixed(1) : '';
  drawPlan();
  drawCaveats();
  byId('level').addEventListener('input', (event) => { current = Number(event.target.value); drawLevel(); });
  for (const input of document.querySelectorAll('.inputs input')) input.addEventListener('input', drawPlan);
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { drawAll(); drawCost(); drawSaving(); });
}

if (levels.length > 0) start();
else byId('lead').textContent = 'These results hold no run.';

// SPDX-License-Identifier: BSD-2-Clause
//
// The flamegraph page. Its data (export/flame_html.c) are frames and weighted stacks; from these a tree is
// made for what is shown, and drawn on a canvas as high as the window: only what is in view and wide enough
// is drawn, so that a hundred thousand frames are as quick as a hundred.
'use strict';
(() => {
const ROW = 18, MIN_WIDTH = 0.4, CHAR = 7.3, PAD = 4;
const RUNTIME = '⋯ std and runtime';
const KINDS = [['own', 'own'], ['dep', 'dependency'], ['std', 'std, runtime'], ['lib', 'library'], ['kernel', 'kernel'], ['unknown', 'unknown']];
const $ = (id) => document.getElementById(id);
const data = JSON.parse($('data').textContent);
const canvas = $('canvas'), scroll = $('scroll'), pen = canvas.getContext('2d');
const state = {
	graph: null, root: null, zoom: null, selected: null, hovered: null,
	query: '', match: null, generics: true, runtime: false, compare: 'rate', widths: 'new', table: false,
};
let colours = {}, rows = 0, drawing = false;

// ---- the tree ----

function labelOf(frame) {
	const label = frame.s ?? frame.n;
	return state.generics ? frame.g ?? label : label;
}

// Neighbours of one kind are told apart by a slight shade, the same for the same name.
function shadeOf(text) {
	let hash = 7;
	for (let i = 0; i < text.length; i++)
		hash = (hash * 31 + text.charCodeAt(i)) | 0;
	return 1 - ((hash >>> 8) % 24) / 100;
}

const isRuntime = (frame) => frame.r === 1 || frame.k === 'std';

function newNode(text, frame, parent) {
	return {
		text, frame, parent, depth: parent ? parent.depth + 1 : 0, children: [], byText: null,
		value: 0, old: 0, self: 0, oldSelf: 0, count: 0, width: 0, x: 0, matched: false, shade: 0,
	};
}

function child(node, text, frame) {
	node.byText ??= new Map();
	let found = node.byText.get(text);
	if (!found) {
		found = newNode(text, frame, node);
		node.byText.set(text, found);
		node.children.push(found);
	}
	return found;
}

function addStack(root, graph, [frames, value, count], old) {
	let node = root;
	const visit = () => {
		if (old)
			node.old += value;
		else
			node.value += value;
		if (graph.adds_up && !old)
			node.count += count;
	};
	visit();
	for (const index of frames) {
		const frame = data.frames[index];
		if (state.runtime && isRuntime(frame)) {
			if (node.text === RUNTIME && node.frame.folded)
				continue;
			node = child(node, RUNTIME, { n: RUNTIME, k: 'std', r: 1, folded: true });
		} else {
			node = child(node, labelOf(frame), frame);
		}
		visit();
	}
	if (old)
		node.oldSelf += value;
	else
		node.self += value;
	if (!graph.adds_up && !old)
		node.count += count;
}

function oldScale(graph) {
	if (state.compare !== 'share')
		return graph.old_scale;
	const sum = (stacks) => stacks.reduce((all, stack) => all + stack[1], 0);
	const old = sum(graph.old ?? []);
	return old ? sum(graph.stacks) / old : 1;
}

// Widths, and places among siblings: the widest first.
function settle(root, scale) {
	const open = [root];
	let node;
	rows = 0;
	while ((node = open.pop())) {
		node.old *= scale;
		node.oldSelf *= scale;
		node.width = state.widths === 'old' ? node.old : node.value;
		node.byText = null;
		rows = Math.max(rows, node.depth + 1);
		for (const c of node.children)
			open.push(c);
	}
	open.push(root);
	while ((node = open.pop())) {
		node.children.sort((a, b) => b.width - a.width || (a.text < b.text ? -1 : 1));
		let x = node.x;
		for (const c of node.children) {
			c.x = x;
			x += c.width;
			open.push(c);
		}
	}
}

function pathOf(node) {
	const path = [];
	for (; node && node.parent; node = node.parent)
		path.unshift(node.text);
	return path;
}

// The node that the path leads to, or as far as it goes.
function follow(root, path) {
	let node = root;
	for (const text of path) {
		const next = node.children.find((c) => c.text === text);
		if (!next)
			break;
		node = next;
	}
	return node;
}

function build() {
	const zoomed = pathOf(state.zoom);
	const graph = state.graph, root = newNode('all', { n: 'all', k: 'all' }, null);
	for (const stack of graph.stacks)
		addStack(root, graph, stack, false);
	for (const stack of graph.old ?? [])
		addStack(root, graph, stack, true);
	settle(root, oldScale(graph));
	state.root = root;
	state.zoom = follow(root, zoomed);
	state.selected = state.hovered = null;
	$('tip').hidden = true;
	showStatus(null);
	search();
}

// ---- figures ----

function scaled(value, units) {
	const [unit, factor] = units.find(([, f]) => Math.abs(value) >= f) ?? units[units.length - 1];
	const n = value / factor;
	return `${Math.abs(n) >= 100 || Number.isInteger(n) ? Math.round(n) : n.toPrecision(3)} ${unit}`;
}
const TIMES = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];
const SIZES = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10], ['B', 1]];
const grouped = (n) => Math.round(n).toLocaleString('en').replaceAll(',', '\u202f');

function figure(value) {
	const unit = state.graph.unit;
	if (unit === 'ns')
		return scaled(value, TIMES);
	if (unit === 'bytes')
		return scaled(value, SIZES);
	const text = `${grouped(value)} ${Math.round(value) === 1 ? unit.replace(/s$/, '') : unit}`;
	return data.hz && value ? `${text} ≈ ${scaled((value / data.hz) * 1e9, TIMES)}` : text;
}
const percent = (part, whole) => `${(whole ? (part / whole) * 100 : 0).toFixed(2)} %`;
const signed = (value) => (value < 0 ? '−' : '+') + figure(Math.abs(value));

function figuresOf(node) {
	const { root, zoom, graph } = state;
	const lines = [`${figure(node.value)}, ${percent(node.value, root.value)} of all`];
	if (zoom !== root && zoom)
		lines[0] += `, ${percent(node.value, zoom.value)} of what is zoomed`;
	lines.push(`self ${figure(node.self)}, ${percent(node.self, root.value)}`);
	if (graph.count && (graph.adds_up || node.count))
		lines.push(`${grouped(node.count)} ${graph.count}`);
	if (graph.old)
		lines.push(`was ${figure(node.old)} (${percent(node.old, root.old)}): ${signed(node.value - node.old)}`);
	return lines;
}

// ---- drawing ----

function readColours() {
	const style = getComputedStyle(document.documentElement);
	colours = {};
	for (const name of ['own', 'dep', 'std', 'lib', 'kernel', 'unknown', 'all', 'frame', 'match', 'match-frame', 'edge', 'same', 'more', 'less', 'focus', 'page'])
		colours[name] = style.getPropertyValue(`--${name}`).trim();
	for (const name of ['same', 'more', 'less'])
		colours[name] = [1, 3, 5].map((at) => parseInt(colours[name].slice(at, at + 2), 16));
}

function differenceColour(node) {
	const all = Math.max(state.root.value, state.root.old);
	const change = all ? (node.value - node.old) / all : 0;
	const much = Math.min(1, Math.sqrt(Math.abs(change) * 4)), to = change < 0 ? colours.less : colours.more;
	return `rgb(${colours.same.map((c, i) => Math.round(c + (to[i] - c) * much)).join(',')})`;
}

function colourOf(node) {
	if (node.matched)
		return colours.match;
	if (state.graph.old)
		return differenceColour(node);
	return isRuntime(node.frame) ? colours.std : colours[node.frame.k] ?? colours.unknown;
}

function fit(text, width) {
	const room = Math.floor((width - 2 * PAD) / CHAR);
	if (room < 3)
		return '';
	// the end of a path says more than its beginning
	for (let at; text.length > room && (at = text.indexOf('::')) > 0 && !/[<{(]/.test(text.slice(0, at)); )
		text = text.slice(at + 2);
	return text.length <= room ? text : text.slice(0, room - 1).replace(/[\ud800-\udbff]$/, '') + '…';
}

function drawBox(node, x, width, y, faded) {
	node.shade ||= shadeOf(node.text);
	pen.globalAlpha = faded ? 0.5 : node.matched || state.graph.old ? 1 : node.shade;
	pen.fillStyle = colourOf(node);
	pen.fillRect(x, y, width > 3 ? width - 0.5 : Math.max(width, 0.3), ROW - 1);
	pen.globalAlpha = faded ? 0.6 : 1;
	const text = fit(node.text, width);
	if (text) {
		pen.fillStyle = node.matched ? colours['match-frame'] : colours.frame;
		pen.fillText(text, x + PAD, y + ROW / 2);
	}
	pen.globalAlpha = 1;
	if (node === state.selected || node === state.hovered) {
		pen.strokeStyle = node === state.selected ? colours.focus : colours.frame;
		pen.lineWidth = node === state.selected ? 2 : 1;
		pen.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1.5, 1), ROW - 2);
	}
}

const canvasWidth = () => scroll.clientWidth;

function drawTree(top, height) {
	const { zoom } = state, width = canvasWidth();
	const scale = zoom.width ? width / zoom.width : 0, open = [zoom];
	let node, drawn = 0;
	for (let above = zoom.parent; above; above = above.parent)
		drawBox(above, 0, width, above.depth * ROW - top, true);
	while ((node = open.pop())) {
		const y = node.depth * ROW - top;
		if (y > -ROW) {
			drawBox(node, (node.x - zoom.x) * scale, node === zoom ? width : node.width * scale, y, false);
			drawn++;
		}
		if (y + ROW > height)
			continue;
		for (const c of node.children) {
			if (c.width * scale < MIN_WIDTH)
				break; // the widest come first
			open.push(c);
		}
	}
	return drawn;
}

function draw() {
	const ratio = window.devicePixelRatio || 1, width = canvasWidth(), height = scroll.clientHeight;
	drawing = false;
	if (!state.root || state.table)
		return;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.height = `${height}px`;
	}
	$('space').style.height = `${Math.max(0, rows * ROW - height + 8)}px`;
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	pen.clearRect(0, 0, width, height);
	pen.font = '12px ui-monospace, "DejaVu Sans Mono", monospace';
	pen.textBaseline = 'middle';
	state.drawn = drawTree(scroll.scrollTop, height);
}

function redraw() {
	if (!drawing)
		requestAnimationFrame(draw);
	drawing = true;
}

// ---- search ----

function matcher(query) {
	const regex = query.match(/^\/(.+)\/(i?)$/);
	if (regex)
		return new RegExp(regex[1], regex[2]);
	const lower = query.toLowerCase();
	return { test: (text) => text.toLowerCase().includes(lower) };
}

// Marks what matches; the share of all that goes through a match, each stack once.
function search() {
	let found = null, covered = 0, hits = 0;
	const outermost = [];
	$('matched').classList.remove('bad');
	try {
		found = state.query ? matcher(state.query) : null;
	} catch {
		$('matched').classList.add('bad');
	}
	const open = state.root ? [[state.root, false]] : [];
	while (open.length) {
		const [node, within] = open.pop();
		node.matched = !!found && node.parent !== null && (found.test(node.frame.n) || found.test(node.text));
		if (node.matched) {
			hits++;
			if (!within) {
				covered += node.value;
				outermost.push(node);
			}
		}
		for (const c of node.children)
			open.push([c, within || node.matched]);
	}
	outermost.sort((a, b) => b.width - a.width);
	state.match = found ? { outermost, at: -1 } : null;
	if ($('matched').classList.contains('bad'))
		$('matched').textContent = 'not a regular expression';
	else
		$('matched').textContent = state.match ? `${grouped(hits)} frame${hits === 1 ? '' : 's'}, ${percent(covered, state.root.value)}` : '';
	if (state.table)
		showTable();
	redraw();
}

// To the next match, the widest first; it is brought into view.
function nextMatch() {
	const match = state.match;
	if (!match || !match.outermost.length)
		return;
	match.at = (match.at + 1) % match.outermost.length;
	const node = match.outermost[match.at], { zoom, root } = state;
	let view = node.x >= zoom.x && node.x + node.width <= zoom.x + zoom.width && node.depth > zoom.depth ? zoom : root;
	// as far in as it takes to see what it is called
	if (node.width < 0.1 * view.width)
		for (view = node; view.parent && node.width >= 0.1 * view.parent.width; )
			view = view.parent;
	zoomTo(view);
	select(node);
}

// ---- table ----

function hottest() {
	const sums = new Map(), open = [state.root], active = new Map();
	let node;
	while ((node = open.pop())) {
		if (node.left) { // second visit: all below it were seen
			active.set(node.left.text, active.get(node.left.text) - 1);
			continue;
		}
		if (node.parent) {
			let row = sums.get(node.text);
			if (!row)
				sums.set(node.text, (row = { text: node.text, name: node.frame.n, self: 0, total: 0, old: 0, matched: node.matched }));
			const within = active.get(node.text) ?? 0;
			row.self += node.self;
			row.old += node.oldSelf;
			row.total += within ? 0 : node.value; // recursion counts once
			active.set(node.text, within + 1);
			open.push({ left: node });
		}
		for (const c of node.children)
			open.push(c);
	}
	const list = [...sums.values()].filter((row) => !state.match || row.matched);
	const weight = state.graph.old ? (row) => Math.abs(row.self - row.old) : (row) => row.self;
	return list.sort((a, b) => weight(b) - weight(a) || b.total - a.total);
}

function cell(row, text, className) {
	const td = row.insertCell();
	td.textContent = text;
	td.className = className ?? '';
}

function showTable() {
	const LIMIT = 500, list = hottest(), table = document.createElement('table'), all = state.root.value;
	const head = table.createTHead().insertRow();
	for (const text of ['self', 'self %', ...(state.graph.old ? ['was', 'change'] : []), 'total', 'total %', `function (${grouped(list.length)})`]) {
		const th = document.createElement('th');
		th.textContent = text;
		head.append(th);
	}
	const body = table.createTBody();
	for (const row of list.slice(0, LIMIT)) {
		const tr = body.insertRow();
		cell(tr, figure(row.self));
		cell(tr, percent(row.self, all));
		if (state.graph.old) {
			cell(tr, figure(row.old));
			cell(tr, signed(row.self - row.old), row.self < row.old ? 'less' : 'more');
		}
		cell(tr, figure(row.total));
		cell(tr, percent(row.total, all));
		cell(tr, row.text);
		tr.title = row.name;
		tr.addEventListener('click', () => {
			$('search').value = state.query = row.name;
			setView(false);
			search();
		});
	}
	if (list.length > LIMIT)
		cell(body.insertRow(), `${grouped(list.length - LIMIT)} more`);
	$('table').replaceChildren(table);
}

// ---- what the user does ----

function showStatus(node) {
	$('status').textContent = node ? `${node.frame.n} — ${figuresOf(node).join(' · ')}` : '';
}

function zoomTo(node) {
	state.zoom = node;
	if (scroll.scrollTop > node.depth * ROW)
		scroll.scrollTop = Math.max(0, (node.depth - 2) * ROW);
	showStatus(node.parent ? node : null);
	redraw();
}

function reset() {
	$('search').value = state.query = '';
	state.selected = null;
	scroll.scrollTop = 0;
	zoomTo(state.root);
	search();
}

function nodeAt(event) {
	const box = canvas.getBoundingClientRect(), zoom = state.zoom;
	const depth = Math.floor((event.clientY - box.top + scroll.scrollTop) / ROW);
	if (depth < 0 || !zoom)
		return null;
	if (depth <= zoom.depth) {
		let node = zoom;
		while (node.depth > depth)
			node = node.parent;
		return node;
	}
	const scale = zoom.width / box.width, x = zoom.x + (event.clientX - box.left) * scale;
	let node = zoom;
	while (node && node.depth < depth)
		node = node.children.find((c) => x >= c.x && x < c.x + c.width && c.width >= MIN_WIDTH * scale);
	return node ?? null;
}

function line(parent, tag, text, className) {
	const e = document.createElement(tag);
	e.textContent = text;
	e.className = className ?? '';
	parent.append(e);
}

function showTip(node, event) {
	const tip = $('tip');
	tip.hidden = !node;
	if (!node)
		return;
	tip.replaceChildren();
	line(tip, 'b', node.frame.n);
	for (const text of figuresOf(node))
		line(tip, 'div', text);
	const kind = KINDS.find(([k]) => k === node.frame.k)?.[1];
	const where = [kind, node.frame.i ? 'inlined' : '', node.frame.m, node.frame.f ? node.frame.f + (node.frame.l ? `:${node.frame.l}` : '') : ''];
	if (kind)
		line(tip, 'div', where.filter(Boolean).join(' · '), 'quiet');
	const width = tip.offsetWidth, height = tip.offsetHeight;
	const below = event.clientY + 16 + height < innerHeight;
	tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
	tip.style.top = `${below ? event.clientY + 16 : Math.max(4, event.clientY - height - 10)}px`;
}

function hover(event) {
	const node = nodeAt(event);
	showTip(node, event);
	if (node === state.hovered)
		return;
	state.hovered = node;
	showStatus(node ?? state.selected);
	redraw();
}

function leave() {
	state.hovered = null;
	$('tip').hidden = true;
	redraw();
}

function select(node) {
	if (!node)
		return;
	state.selected = node;
	$('tip').hidden = true;
	const y = node.depth * ROW;
	if (y < scroll.scrollTop || y + ROW > scroll.scrollTop + scroll.clientHeight)
		scroll.scrollTop = Math.max(0, y - scroll.clientHeight / 2);
	showStatus(node);
	redraw();
}

function walk(key) {
	const at = state.selected;
	if (!at)
		return select(state.zoom);
	if (key === 'ArrowUp')
		return select(at.parent);
	if (key === 'ArrowDown')
		return select(at.children[0]);
	const siblings = at.parent?.children ?? [at];
	select(siblings[siblings.indexOf(at) + (key === 'ArrowLeft' ? -1 : 1)]);
	// what was walked to is in view
	if (state.selected.x < state.zoom.x || state.selected.x >= state.zoom.x + state.zoom.width)
		zoomTo(state.selected.parent ?? state.root);
}

function toggle(id, key) {
	$(id).checked = state[key] = !state[key];
	build();
}

const keys = {
	'/': () => { $('search').focus(); $('search').select(); },
	Escape: reset,
	Enter: () => state.selected && zoomTo(state.selected),
	Backspace: () => zoomTo(state.zoom.parent ?? state.root),
	Home: () => zoomTo(state.root),
	g: () => toggle('generics', 'generics'),
	r: () => toggle('runtime', 'runtime'),
	t: () => setView(!state.table),
};
for (const key of ['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight'])
	keys[key] = () => walk(key);

function press(event) {
	const typing = event.target.matches('input[type="search"], select');
	const onButton = event.target.matches('button, input[type="checkbox"]') && (event.key === 'Enter' || event.key === ' ');
	if (event.ctrlKey || event.metaKey || event.altKey || onButton || !state.root || !Object.hasOwn(keys, event.key))
		return;
	if (event.target === $('search') && event.key === 'Enter')
		return nextMatch();
	if (typing && event.key !== 'Escape')
		return;
	if (typing)
		event.target.blur();
	event.preventDefault();
	keys[event.key]();
}

function setView(table) {
	state.table = table;
	$('view-graph').setAttribute('aria-selected', String(!table));
	$('view-table').setAttribute('aria-selected', String(table));
	scroll.hidden = table;
	$('table').hidden = !table;
	$('tip').hidden = true;
	if (table)
		showTable();
	redraw();
}

function showGraph(graph) {
	state.graph = graph;
	state.zoom = null;
	$('title').textContent = document.title = graph.title;
	$('notes').textContent = graph.notes.trim();
	document.body.classList.toggle('difference', !!graph.old);
	for (const button of $('kinds').children)
		button.setAttribute('aria-selected', String(button.dataset.kind === graph.kind));
	legend(!!graph.old);
	scroll.scrollTop = 0;
	build();
}

function legend(difference) {
	$('legend').replaceChildren();
	for (const [name, text] of difference ? [['more', 'more'], ['less', 'less']] : KINDS) {
		const item = document.createElement('span'), box = document.createElement('i');
		box.style.background = `var(--${name})`;
		item.append(box, text);
		$('legend').append(item);
	}
}

const TABS = { cpu: 'CPU', calls: 'Calls', 'off-cpu': 'Off CPU', wakers: 'Wakers', live: 'Live memory', alloc: 'Allocated',
	'live-calls': 'Live by calls', 'alloc-calls': 'Allocated by calls',
	'mapped': 'Mapped', 'faults': 'Page faults' };

function tabs() {
	for (const graph of data.graphs) {
		const button = document.createElement('button');
		button.type = 'button';
		button.setAttribute('role', 'tab');
		button.dataset.kind = graph.kind;
		button.textContent = TABS[graph.kind];
		button.addEventListener('click', () => showGraph(graph));
		$('kinds').append(button);
	}
}

function setTheme() {
	const dark = matchMedia('(prefers-color-scheme: dark)').matches, root = document.documentElement;
	const now = root.dataset.theme ?? (dark ? 'dark' : 'light');
	root.dataset.theme = now === 'dark' ? 'light' : 'dark';
	recolour();
}

function recolour() {
	readColours();
	redraw();
}

function listen() {
	canvas.addEventListener('mousemove', hover);
	canvas.addEventListener('mouseleave', leave);
	canvas.addEventListener('click', (event) => {
		const node = nodeAt(event);
		if (node) {
			state.selected = node;
			zoomTo(node);
		}
	});
	scroll.addEventListener('scroll', () => { $('tip').hidden = true; redraw(); });
	document.addEventListener('keydown', press);
	$('search').addEventListener('input', (event) => { state.query = event.target.value; search(); });
	$('reset').addEventListener('click', reset);
	$('theme').addEventListener('click', setTheme);
	$('view-graph').addEventListener('click', () => setView(false));
	$('view-table').addEventListener('click', () => setView(true));
	$('help-button').addEventListener('click', (event) => {
		$('help').hidden = !$('help').hidden;
		event.target.setAttribute('aria-expanded', String(!$('help').hidden));
	});
	for (const id of ['generics', 'runtime'])
		$(id).addEventListener('change', (event) => { state[id] = event.target.checked; build(); });
	for (const id of ['compare', 'widths'])
		$(id).addEventListener('change', (event) => { state[id] = event.target.value; build(); });
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
	new ResizeObserver(redraw).observe(scroll);
}

readColours();
listen();
tabs();
const began = new Date(data.start_unix_ns / 1e6);
$('window').textContent = `${scaled(data.window_ns, TIMES)} from ${began.toISOString().slice(0, 19).replace('T', ' ')} UTC · roletrace ${data.version}`;
if (data.graphs.length) {
	setView(false);
	showGraph(data.graphs.find((graph) => graph.kind === data.first) ?? data.graphs[0]);
} else {
	$('title').textContent = document.title;
	scroll.hidden = true;
	$('empty').hidden = false;
}
window.flame = { state, nodeAt }; // for tests
})();

// Functions that prepare a report (graph_report.cpp) for drawing: readers of nodes, sums, names, positions of blocks,
// number formats, HTML elements. Used by graph.js.
"use strict";

// Returns a step of the report with derived data.
function prepareStep(step) {
  const nodes = step.nodes;
  const readers = nodes.map(() => []);
  const through = (id) => { while (nodes[id].op === "view") id = nodes[id].sources[0]; return id; };
  nodes.forEach((node, id) => {
    node.id = id;
    node.operands = [...new Set(node.sources.filter((source) => source >= 0).map(through))];  // viewed nodes in place of views
    if (node.op !== "view") for (const operand of node.operands) readers[operand].push(id);
  });
  const edges = step.edges.map(([from, to, bends]) => ({ from, to, bends }));
  const values = step.values.map(([node, memory, offset, bytes, first, last]) => ({ node, memory, offset, bytes, first, last }));
  const valueOf = new Map(values.map((value) => [value.node, value]));
  const ops = new Map();
  let leader = -1, device = -1;
  for (const node of nodes) {
    if (!node.at) continue;
    if (node.time) { leader = node.id; device = node.device; }
    else if (leader >= 0 && node.device === device && node.op === nodes[leader].op) node.within = leader;
    if (!node.time) continue;
    const sum = ops.get(node.op) || { op: node.op, us: 0, n: 0 };
    sum.us += node.time[1];
    sum.n += 1;
    ops.set(node.op, sum);
  }
  const blocks = step.blocks.map((block, i) => ({ ...block, id: i, nodes: [], folded: false, x: 0, y: 0 }));
  for (const node of nodes) if (node.at) blocks[node.at[0]].nodes.push(node.id);
  const firstLayer = blocks.findIndex((block) => block.layer >= 0);
  for (const block of blocks)
    block.place = block.nodes.every((id) => nodes[id].op === "copy") ? "copies" : block.id < firstLayer ? "input" : "output";
  return { ...step, nodes, readers, edges, values, valueOf, blocks,
           ops: [...ops.values()].sort((a, b) => b.us - a.us), drawn: nodes.filter((node) => node.at),
           longest: Math.max(1e-9, ...nodes.map((node) => node.time ? node.time[1] : 0)) };
}

const layerName = (layer) => layer === undefined || layer < 0 ? "" : "layer " + layer;
const title = (node) => node.label === node.op ? node.op : node.op + " " + node.label;
// Returns "attn_q" for "blk.3.attn_q.weight". The block's title shows the layer.
const brief = (node) => node.label.replace(/^(enc\.|dec\.)?blk\.\d+\./, "").replace(/\.weight$/, "");
const blockName = (block) => layerName(block.layer) || block.place;

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < 4) { n /= 1000; ++i; }
  return (i === 0 || n >= 100 ? n.toFixed(0) : n.toPrecision(3)) + " " + units[i];
}
function micro(us) { return us >= 1000 ? (us / 1000).toPrecision(3) + " ms" : us.toPrecision(us < 10 ? 2 : 3) + " \u00b5s"; }
const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "";
const count = (n, what) => n + " " + (n === 1 ? what : what.endsWith("y") ? what.slice(0, -1) + "ies" : what + "s");

// Stacks blocks of these sizes in columns. Chooses the number of columns that shows the whole largest on w x h.
function stackBlocks(s, sizes, gap, w, h) {
  const total = sizes.reduce((sum, b) => sum + b.h + gap, 0), tallest = Math.max(0, ...sizes.map((b) => b.h));
  let best = null;
  for (let n = 1; n <= Math.max(1, sizes.length); ++n) {
    const limit = Math.max(total / n, tallest);
    const places = [], columns = [];
    let x = 0, y = 0, width = 0, height = 0;
    sizes.forEach((b) => {
      if (y > 0 && y + b.h > limit + gap) { columns.push(x + width); x += width + 2.2 * gap; y = width = 0; }
      places.push([x, y, columns.length]);
      y += b.h + gap;
      width = Math.max(width, b.w);
      height = Math.max(height, y - gap);
    });
    const scale = Math.min(w / (x + width), h / Math.max(height, 1));
    if (!best || scale > best.scale) best = { scale, places, columns: [...columns, x + width], w: x + width, h: height };
  }
  s.columns = best.columns;  // right ends of the columns
  s.blocks.forEach((block, i) => { [block.x, block.y, block.column] = best.places[i]; block.size = sizes[i]; });
  s.extent = { w: best.w, h: best.h };
}

// Creates an element. Children are elements or text.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function rounded(g, x, y, w, h, r) { g.beginPath(); g.roundRect(x, y, w, h, Math.max(0, Math.min(r, w / 2, h / 2))); }
// Shortens a text to a width.
function clip(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (g.measureText(text.slice(0, mid) + "\u2026").width <= width) low = mid; else high = mid - 1;
  }
  return low === 0 ? "" : text.slice(0, low) + "\u2026";
}

// The graph page: draws the steps of a report (report.js) on a canvas and handles mouse, keys and search. Text from the
// report becomes only text nodes or canvas text. The address contains the state of the page:
// #step=0&view=memory&node=17&q=attn.
function start(data) {
  const $ = (id) => document.getElementById(id);
  const canvas = $("canvas"), stage = $("stage"), panel = $("panel"), tip = $("tip"), bars = $("bars");
  const kHeader = 30, kPad = 14, kGap = 34, kRail = 10, kFoldedWidth = 240;
  const W = data.node_width, H = data.node_height;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue("--" + name).trim();

  const state = { step: 0, view: "graph", node: -1, query: "", hits: [], hit: -1, hover: -1 };
  const steps = data.steps.map(prepareStep);
  const cameras = {};  // one per step and view

  const step = () => steps[state.step];
  const deviceName = (d) => data.devices[d].name;
  const pick = (kind, d) => color(kind + d % 6);

  const link = (id) => el("a", { class: "node", onclick: () => select(id, true) }, title(step().nodes[id]));

  // --- positions in the drawing

  function stack() {
    const size = (block) => block.folded ? { w: kFoldedWidth, h: kHeader } : { w: block.w + 2 * kPad + kRail, h: block.h + kHeader + 2 * kPad };
    stackBlocks(step(), step().blocks.map(size), kGap, canvas.clientWidth, canvas.clientHeight);
  }

  function box(node) {
    const block = step().blocks[node.at[0]];
    if (block.folded) return { x: block.x + kRail, y: block.y, w: block.size.w - kRail, h: kHeader, folded: true };
    return { x: block.x + kRail + kPad + node.at[1], y: block.y + kHeader + kPad + node.at[2], w: W, h: H, folded: false };
  }

  // --- cameras: screen = world * k + t

  function camera() {
    const key = state.step + state.view;
    return cameras[key] || (cameras[key] = fitted());
  }
  function fitted() {
    const margin = 26, w = canvas.clientWidth - 2 * margin, h = canvas.clientHeight - 2 * margin;
    if (state.view === "memory") return { kx: 1, ky: 1, tx: 0, ty: 0, isFitted: true };
    const { w: ew, h: eh } = step().extent;
    const k = Math.min(w / ew, h / eh, 1.3);
    return { kx: k, ky: k, tx: margin + (w - ew * k) / 2, ty: margin + (h - eh * k) / 2, isFitted: true };
  }
  function zoom(factor, x, y, axes) {
    const c = camera();
    const fx = axes === "y" ? 1 : factor, fy = axes === "x" ? 1 : factor;
    const k = c.kx * fx;
    if (k < 0.01 || k > 2000) return;
    c.tx = x - (x - c.tx) * fx;
    c.ty = y - (y - c.ty) * fy;
    c.kx *= fx;
    c.ky *= fy;
    c.isFitted = false;
    draw();
  }
  function show(id) {
    const node = step().nodes[id];
    const c = camera();
    if (state.view === "graph" && node.at) {
      const block = step().blocks[node.at[0]];
      if (block.folded) { block.folded = false; stack(); }
      const b = box(node);
      c.kx = c.ky = Math.max(c.kx, 0.75);
      c.isFitted = false;
      c.tx = canvas.clientWidth / 2 - (b.x + b.w / 2) * c.kx;
      c.ty = canvas.clientHeight / 2 - (b.y + b.h / 2) * c.ky;
    }
  }

  // --- drawing

  let queued = false;
  function draw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; paint(); });
  }
  function paint() {
    const ratio = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    document.body.dataset.painted = state.view === "graph" ? paintGraph(g, w, h) : state.view === "memory" ? paintMemory(g, w, h) : 0;
  }

  // Returns the number of drawn nodes.
  function paintGraph(g, w, h) {
    const s = step(), c = camera(), k = c.kx;
    let painted = 0;
    const X = (x) => x * k + c.tx, Y = (y) => y * k + c.ty;
    const visible = (b) => X(b.x + b.w) > 0 && X(b.x) < w && Y(b.y + b.h) > 0 && Y(b.y) < h;
    const hits = new Set(state.hits);
    for (const block of s.blocks) {
      const b = { x: block.x, y: block.y, w: block.size.w, h: block.size.h };
      if (!visible(b)) continue;
      g.fillStyle = color("block");
      rounded(g, X(b.x), Y(b.y), b.w * k, b.h * k, 9 * k);
      g.fill();
      const device = block.slice < 0 ? -1 : s.slices[block.slice].device;
      g.fillStyle = device < 0 ? color("line") : pick("rail", device);
      rounded(g, X(b.x), Y(b.y), Math.max(2, (kRail - 4) * k), b.h * k, 4 * k);
      g.fill();
      if (k > 0.25) {
        const us = block.nodes.reduce((sum, id) => sum + (s.nodes[id].time ? s.nodes[id].time[1] : 0), 0);
        g.font = "600 " + 13 * k + "px system-ui, sans-serif";
        g.fillStyle = color("ink");
        const name = (block.folded ? "\u25b8 " : "\u25be ") + blockName(block);
        g.fillText(name, X(b.x + kRail + 8), Y(b.y + 20));
        const used = g.measureText(name).width;
        g.font = 12 * k + "px system-ui, sans-serif";
        g.fillStyle = color("dim");
        const text = (block.slice < 0 ? "" : "slice " + block.slice + " \u00b7 " + deviceName(device) + " \u00b7 ") + (us > 0 ? micro(us) : count(block.nodes.length, "node"));
        g.fillText(clip(g, text, b.w * k - used - 40 * k), X(b.x + kRail + 20) + used, Y(b.y + 20));
      }
    }
    for (const edge of s.edges) paintEdge(g, edge, X, Y, k, false);
    if (state.node >= 0 || state.hover >= 0)
      for (const edge of s.edges)
        if ([edge.from, edge.to].some((id) => id === state.node || id === state.hover)) paintEdge(g, edge, X, Y, k, true);
    for (const node of s.drawn) {
      const b = box(node);
      if (b.folded || !visible(b)) continue;
      paintNode(g, node, b, X, Y, k, hits);
      ++painted;
    }
    if (k <= 0.25)  // large names for a small scale
      for (const block of s.blocks) {
        g.font = "600 12px system-ui, sans-serif";
        g.fillStyle = color("ink");
        g.fillText(clip(g, blockName(block), block.size.w * k + 30), X(block.x), Y(block.y) - 3);
      }
    return painted;
  }

  function paintNode(g, node, b, X, Y, k, hits) {
    const x = X(b.x), y = Y(b.y), w = b.w * k, h = b.h * k;
    const isHit = hits.has(node.id);
    g.globalAlpha = state.query && !isHit && node.id !== state.node ? 0.35 : 1;
    rounded(g, x, y, w, h, 7 * k);
    g.fillStyle = pick("device", node.device);
    g.fill();
    g.lineWidth = node.id === state.node ? Math.max(2.5, 2.5 * k) : isHit ? Math.max(2, 2 * k) : Math.max(0.6, k);
    g.strokeStyle = node.id === state.node ? color("accent") : isHit ? color("hit") : pick("rail", node.device);
    g.setLineDash(node.op === "copy" ? [6 * k, 4 * k] : []);
    g.stroke();
    g.setLineDash([]);
    if (k > 0.33) {
      const left = x + 9 * k, width = w - 18 * k;
      g.fillStyle = color("ink");
      g.font = "600 " + 13 * k + "px system-ui, sans-serif";
      const time = node.time ? micro(node.time[1]) : "";
      g.fillText(clip(g, node.op, width - (time ? 52 * k : 0)), left, y + 17 * k);
      g.font = 11 * k + "px system-ui, sans-serif";
      g.fillStyle = color("dim");
      g.textAlign = "right";
      g.fillText(time, x + w - 9 * k, y + 17 * k);
      g.textAlign = "left";
      g.fillStyle = color("ink");
      if (node.label !== node.op) g.fillText(clip(g, brief(node), width), left, y + 30 * k);
      g.fillStyle = color("dim");
      g.fillText(clip(g, node.dtype + " " + node.shape, width), left, y + 42 * k);
    }
    if (node.time) {  // its time, as a share of the longest
      g.fillStyle = pick("rail", node.device);
      g.fillRect(x + 5 * k, y + h - 4 * k, Math.max(1, (w - 10 * k) * node.time[1] / step().longest), 2.5 * k);
    }
    g.globalAlpha = 1;
  }

  // In a block, an edge passes through the bends of the layout. From a block to the next one below, it is one curve.
  // Other edges run beside the columns, where there are no nodes.
  function paintEdge(g, edge, X, Y, k, strong) {
    const s = step();
    const from = s.nodes[edge.from], to = s.nodes[edge.to];
    const source = s.blocks[from.at[0]], target = s.blocks[to.at[0]];
    const a = box(from), b = box(to);
    if (source === target && source.folded) return;
    const isFar = target.id - source.id > 1;
    if (!strong && isFar && k < 0.2) return;
    g.strokeStyle = strong ? color("accent") : to.op === "copy" || from.op === "copy" ? color("hit") : color("edge");
    g.globalAlpha = strong ? 1 : isFar ? 0.25 : 0.85;
    g.lineWidth = strong ? Math.max(1.6, 2 * k) : Math.max(0.5, 1.2 * k);
    g.setLineDash(to.op === "copy" ? [6 * k, 4 * k] : []);
    let x = a.x + a.w / 2, y = a.y + a.h;
    g.beginPath();
    g.moveTo(X(x), Y(y));
    const curve = (tx, ty) => {
      const bend = Math.max(12, Math.min(90, Math.abs(ty - y) / 2));
      g.bezierCurveTo(X(x), Y(y + bend), X(tx), Y(ty - bend), X(tx), Y(ty));
      x = tx;
      y = ty;
    };
    const end = [b.x + b.w / 2, b.y];
    if (source === target) {
      for (let i = 0; i < edge.bends.length; i += 2) {
        curve(source.x + kRail + kPad + edge.bends[i], source.y + kHeader + kPad + edge.bends[i + 1]);
        y += H;
        g.lineTo(X(x), Y(y));
      }
      curve(...end);
    } else {
      const isNext = target.id === source.id + 1 && target.column === source.column;
      const isOpen = a.y + a.h + kPad + 1 >= source.y + source.size.h && (b.folded || b.y <= target.y + kHeader + kPad);
      if (isNext && isOpen) {
        curve(...end);
      } else {
        const side = s.columns[source.column] + 12 + (edge.from % 6) * 6, r = 9 * k;
        const points = [[x, y + 13], [side, y + 13], [side, end[1] - 13], [end[0], end[1] - 13], end];
        for (let i = 0; i + 1 < points.length; ++i) g.arcTo(X(points[i][0]), Y(points[i][1]), X(points[i + 1][0]), Y(points[i + 1][1]), r);
        [x, y] = end;
        g.lineTo(X(x), Y(y));
      }
    }
    g.stroke();
    g.setLineDash([]);
    if (k > 0.3) {  // the head of the arrow
      g.fillStyle = g.strokeStyle;
      g.beginPath();
      g.moveTo(X(x), Y(y));
      g.lineTo(X(x - 3.5), Y(y - 7));
      g.lineTo(X(x + 3.5), Y(y - 7));
      g.fill();
    }
    g.globalAlpha = 1;
  }

  // --- memory: nodes from left to right, bytes upwards, a band for each memory with values

  function bands(w, h) {
    const s = step();
    const used = data.memories.map((memory, m) => ({ memory, m, bytes: Math.max(0, ...s.values.filter((v) => v.memory === m).map((v) => v.offset + v.bytes)) })).filter((band) => band.bytes > 0);
    const top = 30, bottom = 30, between = 44;
    const height = (h - top - bottom - between * (used.length - 1)) / Math.max(1, used.length);
    return used.map((band, i) => ({ ...band, top: top + i * (height + between), height }));
  }
  function rectangle(value, band, w) {
    const n = step().nodes.length, c = camera(), left = 70, width = w - left - 20;
    const x = left + width * value.first / n, x2 = left + width * (value.last + 1) / n;
    const y2 = band.top + band.height * (1 - value.offset / band.bytes), y = band.top + band.height * (1 - (value.offset + value.bytes) / band.bytes);
    return { x: x * c.kx + c.tx, y: y * c.ky + c.ty, w: (x2 - x) * c.kx, h: (y2 - y) * c.ky };
  }
  const overlap = (a, b) => a.memory === b.memory && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  const sharing = (value) => step().values.filter((other) => other !== value && overlap(value, other));

  // Returns the number of drawn values.
  function paintMemory(g, w, h) {
    const s = step(), c = camera(), hits = new Set(state.hits);
    let painted = 0;
    const focus = s.valueOf.get(state.hover >= 0 ? state.hover : s.nodes[Math.max(0, state.node)].alias_of ?? state.node);
    g.font = "12px system-ui, sans-serif";
    for (const band of bands(w, h)) {
      const Y = (b) => (band.top + band.height * (1 - b / band.bytes)) * c.ky + c.ty;
      const x0 = 70 * c.kx + c.tx, x1 = (w - 20) * c.kx + c.tx;
      g.fillStyle = color("card");
      g.fillRect(x0, Y(band.bytes), x1 - x0, Y(0) - Y(band.bytes));
      s.blocks.forEach((block, i) => {  // the beginnings of layers
        const x = (70 + (w - 90) * block.nodes[0] / s.nodes.length) * c.kx + c.tx;
        const next = i + 1 < s.blocks.length ? (70 + (w - 90) * s.blocks[i + 1].nodes[0] / s.nodes.length) * c.kx + c.tx : x1;
        g.strokeStyle = color("line");
        g.lineWidth = 1;
        g.beginPath();
        g.moveTo(x, Y(0));
        g.lineTo(x, Y(band.bytes));
        g.stroke();
        g.fillStyle = color("dim");
        g.fillText(clip(g, blockName(block), next - x - 6), x + 3, Y(0) + 15);
      });
      for (const value of s.values) {
        if (value.memory !== band.m) continue;
        const r = rectangle(value, band, w), node = s.nodes[value.node];
        if (r.x > w || r.x + r.w < 0 || r.y > h || r.y + r.h < 0) continue;
        const related = focus && (value === focus || overlap(value, focus));
        ++painted;
        g.globalAlpha = (focus && !related) || (state.query && !hits.has(value.node)) ? 0.35 : 1;
        g.fillStyle = node.op === "input" ? color("line") : pick("device", node.device);
        g.fillRect(r.x, r.y, r.w, r.h);
        g.strokeStyle = value === focus ? color("accent") : related ? color("hit") : node.op === "input" ? color("edge") : pick("rail", node.device);
        g.lineWidth = related ? 2 : 0.8;
        g.setLineDash(node.op === "copy" ? [5, 3] : []);
        g.strokeRect(r.x + 0.5, r.y + 0.5, Math.max(0.5, r.w - 1), Math.max(0.5, r.h - 1));
        g.setLineDash([]);
        if (r.w > 46 && r.h > 15) {
          g.fillStyle = color("ink");
          const x = Math.max(r.x, 0);
          g.fillText(clip(g, node.label === node.op ? node.op : brief(node), r.x + r.w - x - 8), x + 4, r.y + Math.min(r.h - 4, 14));
        }
        g.globalAlpha = 1;
      }
      g.fillStyle = color("ink");
      g.font = "600 12px system-ui, sans-serif";
      g.fillText(band.memory.name + " (" + band.memory.device + "): " + bytes(band.bytes) + " of values; " + bytes(band.memory.reserved) + " are reserved for all steps and scratch", Math.max(x0, 14), Y(band.bytes) - 8);
      g.font = "12px system-ui, sans-serif";
      g.fillStyle = color("dim");
      g.textAlign = "right";
      for (let i = 0; i <= 4; ++i) g.fillText(bytes(band.bytes * i / 4), Math.max(x0, 66) - 6, Y(band.bytes * i / 4) + 4);
      g.textAlign = "left";
    }
    return painted;
  }

  // --- times as bars

  function showTimes() {
    const s = step();
    const told = s.drawn.filter((node) => node.time);
    const sum = told.reduce((total, node) => total + node.time[1], 0);
    const bar = (what, us, most, d, onclick) => el("div", onclick ? { class: "row link", tabindex: "0", onclick, onkeydown: (e) => { if (e.key === "Enter") onclick(); } } : { class: "row" },
      el("span", { class: "what", title: what }, what),
      el("span", {}, el("div", { class: "bar", style: { width: 100 * us / most + "%", background: pick("rail", d) } })),
      el("span", { class: "value" }, micro(us)), el("span", { class: "value" }, percent(us, s.us)));
    const hits = new Set(state.hits);
    const list = told.filter((node) => !state.query || hits.has(node.id)).sort((a, b) => b.time[1] - a.time[1]).slice(0, 400);
    bars.replaceChildren(
      el("p", {}, s.title + " of " + count(s.n_tokens, "token") + ": " + micro(s.us) + ", of which " + (told.length ? micro(sum) + " in " + told.length + " timed steps" : "no device reports the times of nodes") + ". Fused products of one input are reported under the first."),
      el("div", { class: "columns" },
        el("div", {}, el("h2", {}, "By operation"), ...s.ops.map((op) => bar(op.op + " \u00d7 " + op.n, op.us, s.ops[0].us, 0, () => setQuery(op.op))),
          el("h2", {}, "By slice"), ...s.slices.map((slice, i) => bar("slice " + i + " " + deviceName(slice.device) + ", " + count(slice.copies.length, "copy"), slice.us, Math.max(1e-9, ...s.slices.map((other) => other.us)), slice.device, null))),
        el("div", {}, el("h2", {}, "By node, longest first"), ...list.map((node) => bar(title(node) + (node.layer === undefined ? "" : " (layer " + node.layer + ")"), node.time[1], s.longest, node.device, () => select(node.id, false))))));
  }

  // --- the panel

  function showPanel() {
    panel.replaceChildren(...(state.node >= 0 ? nodePanel(step().nodes[state.node]) : totalsPanel()));
    panel.scrollTop = 0;
  }
  const facts = (rows) => el("dl", {}, ...rows.filter((row) => row).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  function list(name, ids) {
    return ids.length === 0 ? [] : [el("h2", {}, name), el("ul", {}, ...ids.slice(0, 60).map((id) => el("li", {}, link(id), el("span", { class: "dim" }, " " + step().nodes[id].dtype + " " + step().nodes[id].shape))), ids.length > 60 ? el("li", { class: "dim" }, "and " + (ids.length - 60) + " more") : null)];
  }

  function nodePanel(node) {
    const s = step(), value = s.valueOf.get(node.alias_of ?? node.id);
    const why = node.reason === undefined ? null : link(node.reason);
    const cause = { pinned: "pinned by the caller", stores: "stores into", reads: "reads", expanded: "runs on the device of its neighbour:", operands: "most operands can be used there", upgraded: "moved to a device of higher priority in the same memory", follows: "follows" }[node.cause] || node.cause;
    return [
      el("h2", {}, node.op), el("div", {}, node.label === node.op ? "" : node.label),
      facts([
        ["node", node.id + (node.output ? " (an output)" : "")],
        node.layer === undefined ? null : ["layer", String(node.layer)],
        ["type, shape", node.dtype + " " + node.shape],
        ["bytes", node.bytes + " (" + bytes(node.bytes) + ")"],
        ["device", deviceName(node.device)],
        ["cause", why ? el("span", {}, cause + " ", why) : data.devices.length === 1 ? "the only device" : cause],
        node.slice === undefined ? null : ["slice", String(node.slice)],
        node.memory === undefined ? null : ["memory", node.memory],
        node.offset === undefined ? null : ["offset", String(node.offset)],
        value ? ["lifetime", "nodes " + value.first + " to " + value.last] : null,
        node.time ? ["time", micro(node.time[1]) + " (" + percent(node.time[1], s.us) + "), from " + micro(node.time[0])] : null,
        node.within !== undefined ? ["time", el("span", {}, "within ", link(node.within))] : null,
        node.macs ? ["multiply-adds", node.macs.toLocaleString("en") + (node.time && node.time[1] > 0 ? ", " + (node.macs / node.time[1] / 1000).toPrecision(3) + " G/s" : "")] : null,
        node.alias_of === undefined ? null : ["shares the bytes of", link(node.alias_of)],
      ]),
      ...list("Operands", node.operands),
      ...list("Read by", s.readers[node.id]),
      ...(value ? list("Shares its bytes with", sharing(value).map((other) => other.node)) : []),
      el("p", {}, el("a", { class: "node", onclick: () => select(-1) }, "back to totals")),
    ];
  }

  function totalsPanel() {
    const s = step();
    const copied = s.drawn.filter((node) => node.op === "copy").reduce((sum, node) => sum + node.bytes, 0);
    const places = [...new Set(data.buffers.map((buffer) => buffer.device))];
    const sum = (device, what) => data.buffers.filter((buffer) => buffer.device === device && buffer.what === what).reduce((total, buffer) => total + buffer.bytes, 0);
    const kinds = ["weights", "kv", "compute", "output"];
    return [
      el("h2", {}, "This step"),
      facts([
        ["step", s.title + " of " + count(s.n_tokens, "token") + ", " + s.n_outputs + " with logits"],
        ["time", micro(s.us)],
        ["nodes", s.drawn.length + " that run, " + s.nodes.length + " in all"],
        ["slices", String(s.slices.length)],
        ["copies", s.n_copies + (copied ? " (" + bytes(copied) + ")" : "")],
        ["architecture", data.architecture],
      ]),
      el("h2", {}, "Memory"),
      el("table", {}, el("tr", {}, el("th", {}, "device"), ...kinds.map((kind) => el("th", {}, kind))),
        ...places.map((device) => el("tr", {}, el("td", {}, device), ...kinds.map((kind) => el("td", {}, sum(device, kind) ? bytes(sum(device, kind)) : "")))),
        el("tr", {}, el("td", {}, "total"), ...kinds.map((kind) => el("td", {}, bytes(places.reduce((total, device) => total + sum(device, kind), 0)))))),
      el("h2", {}, "Devices"),
      ...data.devices.map((device, d) => el("div", {}, swatch(d), " " + device.name + ": ", el("span", { class: "dim" }, device.description + ", " + count(s.drawn.filter((node) => node.device === d).length, "node")))),
      el("h2", {}, "Longest operations"),
      el("table", {}, ...s.ops.slice(0, 6).map((op) => el("tr", {}, el("td", {}, op.op + " \u00d7 " + op.n), el("td", {}, micro(op.us)), el("td", {}, percent(op.us, s.us))))),
      el("p", { class: "dim" }, "Click a node for its details. Wheel: zoom (memory: shift for one axis). Drag: move. Keys: + - 0 f and arrows. / searches, Enter shows the next hit."),
    ];
  }
  const swatch = (d) => el("i", { class: "swatch", style: { background: pick("device", d), borderColor: pick("rail", d) } });

  function showLegend() {
    const items = data.devices.map((device, d) => el("span", {}, swatch(d), device.name));
    const s = step();
    if (state.view === "graph") items.push(el("span", {}, "bar at the bottom of a node: its time"), s.n_copies > 0 ? el("span", {}, "dashed: copies between devices") : null);
    if (state.view === "memory") items.push(el("span", {}, "from left to right: nodes in order of execution; upwards: bytes; outlined: values that share bytes with the value under the pointer"));
    $("legend").replaceChildren(...items.filter((item) => item));
  }

  // --- selection and state

  function select(id, doShow) {
    state.node = id;
    if (id >= 0 && doShow) show(id);
    showPanel();
    remember();
    draw();
  }
  function setQuery(query) {
    state.query = query.trim();
    $("query").value = query;
    const words = state.query.toLowerCase().replace(/(layer|slice) +(\d+)/g, "$1:$2;").split(/\s+/).filter((word) => word);
    const text = (node) => [node.op, node.label, node.dtype, node.shape, deviceName(node.device), node.memory || "", node.layer === undefined ? "" : "layer:" + node.layer + ";", node.slice === undefined ? "" : "slice:" + node.slice + ";"].join(" ").toLowerCase();
    state.hits = words.length === 0 ? [] : step().nodes.filter((node) => { const t = text(node); return words.every((word) => t.includes(word)); }).map((node) => node.id);
    state.hit = -1;
    $("hits").textContent = state.query ? count(state.hits.length, "hit") : "";
    if (state.view === "time") showTimes();
    remember();
    draw();
  }
  function nextHit(by) {
    if (state.hits.length === 0) return;
    state.hit = (state.hit + by + state.hits.length) % state.hits.length;
    $("hits").textContent = state.hit + 1 + " of " + state.hits.length;
    select(state.hits[state.hit], true);
  }
  function setStep(i) {
    const old = steps[state.step], node = state.node;
    state.step = i;
    // Selects the same node in the other step if the graphs match.
    state.node = node >= 0 && old.nodes.length === step().nodes.length && step().nodes[node].label === old.nodes[node].label ? node : -1;
    update();
  }
  function setView(view) { state.view = view; update(); }
  function update() {
    document.querySelectorAll("#steps button").forEach((button, i) => button.setAttribute("aria-selected", String(i === state.step)));
    document.querySelectorAll("#views button").forEach((button) => button.setAttribute("aria-selected", String(button.dataset.view === state.view)));
    canvas.hidden = $("tools").hidden = state.view === "time";
    bars.hidden = state.view !== "time";
    $("fold").hidden = state.view !== "graph";
    tip.hidden = true;
    state.hover = -1;
    showLegend();
    if (state.view !== "time") stack();
    setQuery(state.query);
    showPanel();
    if (state.view === "time") showTimes();
    draw();
  }
  // Writes the state to the address, and to data attributes of the body for tests.
  function remember() {
    const parts = { step: state.step, view: state.view };
    if (state.node >= 0) parts.node = state.node;
    if (state.query) parts.q = state.query;
    history.replaceState(null, "", "#" + new URLSearchParams(parts));
    Object.assign(document.body.dataset, { step: step().title, view: state.view, node: state.node, hits: state.hits.length, nodes: step().drawn.length, edges: step().edges.length, values: step().values.length, slices: step().slices.length });
  }

  // --- mouse and keys

  function nodeAt(x, y) {
    const s = step(), c = camera();
    if (state.view === "memory") {
      for (const band of bands(canvas.clientWidth, canvas.clientHeight))
        for (let i = s.values.length - 1; i >= 0; --i) {
          if (s.values[i].memory !== band.m) continue;
          const r = rectangle(s.values[i], band, canvas.clientWidth);
          if (x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h) return { node: s.values[i].node };
        }
      return {};
    }
    const wx = (x - c.tx) / c.kx, wy = (y - c.ty) / c.ky;
    for (const block of s.blocks) {
      if (wx < block.x || wx > block.x + block.size.w || wy < block.y || wy > block.y + block.size.h) continue;
      if (wy < block.y + kHeader) return { block };
      for (const id of block.nodes) {
        const b = box(s.nodes[id]);
        if (wx >= b.x && wx <= b.x + b.w && wy >= b.y && wy <= b.y + b.h) return { node: id };
      }
    }
    return {};
  }
  function foldAll() {
    const folded = step().blocks.some((block) => !block.folded);
    for (const block of step().blocks) block.folded = folded;
    stack();
    delete cameras[state.step + state.view];
    draw();
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (e) => {
    drag = { x: e.offsetX, y: e.offsetY, moved: false };
    if (e.isTrusted) canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (drag) {
      const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      const c = camera();
      c.tx += dx;
      c.ty += dy;
      c.isFitted = false;
      drag = { x: e.offsetX, y: e.offsetY, moved: true };
      tip.hidden = true;
      draw();
      return;
    }
    const { node, block } = nodeAt(e.offsetX, e.offsetY);
    canvas.style.cursor = node !== undefined || block ? "pointer" : "grab";
    if ((node ?? -1) !== state.hover) { state.hover = node ?? -1; draw(); }
    tip.hidden = node === undefined;
    if (node !== undefined) showTip(step().nodes[node], e.offsetX, e.offsetY + canvas.offsetTop);
  });
  canvas.addEventListener("pointerup", (e) => {
    const was = drag;
    drag = null;
    if (!was || was.moved) return;
    const { node, block } = nodeAt(e.offsetX, e.offsetY);
    if (block) { block.folded = !block.folded; stack(); draw(); }
    else select(node ?? -1, false);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; if (state.hover >= 0) { state.hover = -1; draw(); } });
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    zoom(Math.exp(-e.deltaY * (e.deltaMode === 1 ? 0.03 : 0.0015)), e.offsetX, e.offsetY, state.view === "memory" && e.shiftKey ? "x" : "");
  }, { passive: false });
  function showTip(node, x, y) {
    const value = step().valueOf.get(node.id);
    const lines = [title(node), node.dtype + " " + node.shape + ", " + bytes(node.bytes), deviceName(node.device) + (node.time ? ", " + micro(node.time[1]) : "")];
    if (value) lines.push("bytes " + value.offset + " to " + (value.offset + value.bytes) + ", nodes " + value.first + " to " + value.last);
    if (value && state.view === "memory") lines.push("shares bytes with " + count(sharing(value).length, "value"));
    tip.textContent = lines.join("\n");
    tip.style.left = Math.max(4, Math.min(x + 14, stage.clientWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(y + 14, stage.clientHeight - tip.offsetHeight - 8)) + "px";
  }
  const zoomMiddle = (factor) => zoom(factor, canvas.clientWidth / 2, canvas.clientHeight / 2, "");
  function fit() { delete cameras[state.step + state.view]; draw(); }
  $("zoom-in").onclick = () => zoomMiddle(1.35);
  $("zoom-out").onclick = () => zoomMiddle(1 / 1.35);
  $("fit").onclick = fit;
  $("fold").onclick = foldAll;
  const move = (dx, dy) => () => { const c = camera(); c.tx += dx; c.ty += dy; c.isFitted = false; draw(); };
  const keys = { "+": () => zoomMiddle(1.35), "=": () => zoomMiddle(1.35), "-": () => zoomMiddle(1 / 1.35), "0": fit, f: () => state.view === "graph" && foldAll(),
                 Escape: () => select(-1), "/": () => $("query").focus(), ArrowLeft: move(80, 0), ArrowRight: move(-80, 0), ArrowUp: move(0, 80), ArrowDown: move(0, -80) };
  document.addEventListener("keydown", (e) => {
    if (e.target === $("query") || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key] || (state.view === "time" && e.key !== "/" && e.key !== "Escape")) return;
    e.preventDefault();
    keys[e.key]();
  });
  $("query").addEventListener("input", () => setQuery($("query").value));
  $("query").addEventListener("keydown", (e) => { if (e.key === "Escape") { setQuery(""); canvas.focus(); } });
  $("search").addEventListener("submit", (e) => e.preventDefault());
  $("query").addEventListener("keydown", (e) => { if (e.key === "Enter") nextHit(e.shiftKey ? -1 : 1); });
  window.addEventListener("resize", () => {
    if (state.view !== "time") stack();
    for (const key of Object.keys(cameras)) if (cameras[key].isFitted) delete cameras[key];
    draw();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);

  // --- begin

  document.title = data.model + " \u2013 tessera graph";
  $("model").textContent = data.model;
  $("model").title = data.model;
  $("steps").append(...steps.map((s, i) => el("button", { role: "tab", onclick: () => setStep(i) }, s.title + ", " + count(s.n_tokens, "token"))));
  document.querySelectorAll("#views button").forEach((button) => button.addEventListener("click", () => setView(button.dataset.view)));
  const asked = new URLSearchParams(location.hash.slice(1));
  const whole = (name, limit) => { const n = Number(asked.get(name) ?? NaN); return Number.isInteger(n) && n >= 0 && n < limit ? n : -1; };
  state.step = Math.max(0, whole("step", steps.length));
  if (["graph", "memory", "time"].includes(asked.get("view"))) state.view = asked.get("view");
  state.node = whole("node", step().nodes.length);
  state.query = asked.get("q") || "";
  if (asked.get("fold") === "1") for (const block of step().blocks) block.folded = true;
  const asksShow = state.node >= 0 && asked.get("fit") !== "1", click = whole("click", step().nodes.length);
  update();
  if (asksShow && state.view === "graph") show(state.node);
  if (click >= 0 && step().nodes[click].at && state.view === "graph") {  // simulates a click, for tests
    const b = box(step().nodes[click]), c = camera(), at = canvas.getBoundingClientRect();
    const place = { pointerId: 1, clientX: at.x + (b.x + b.w / 2) * c.kx + c.tx, clientY: at.y + (b.y + b.h / 2) * c.ky + c.ty };
    canvas.dispatchEvent(new PointerEvent("pointerdown", place));
    canvas.dispatchEvent(new PointerEvent("pointerup", place));
  }
  paint();
}

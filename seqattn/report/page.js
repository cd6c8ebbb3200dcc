// Built by `make page` from seqattn/report/web/src. Change the sources, not this file.
"use strict";
(() => {
  // src/dom.ts
  function byId(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`The page has no element #${id}.`);
    return element;
  }
  var selectById = (id) => byId(id);
  var inputById = (id) => byId(id);
  var plotById = (id) => byId(id);
  var numberOf = (id) => Number(byId(id).value);
  function fill(select, words, chosen = 0) {
    select.replaceChildren(...words.map((word, k) => new Option(word, String(k), false, k === chosen)));
    select.disabled = words.length < 2;
  }
  function showNote(note) {
    const element = byId("scale-note");
    element.textContent = note;
    element.hidden = note === "";
  }
  function textElement(tag, text2) {
    const element = document.createElement(tag);
    element.textContent = text2;
    return element;
  }

  // src/format.ts
  var MINUS = "\u2212";
  function escapeMarkup(words) {
    return String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%&#123;");
  }
  var withMinus = (text2) => text2.replace("-", MINUS);
  function formatNumber(x, digits = 3) {
    return Number.isFinite(x) ? withMinus(x.toPrecision(digits)) : "none";
  }
  var decimalExponent = (x) => Math.floor(Math.log10(Math.abs(x)));
  function formatValue(x, spread2) {
    if (!Number.isFinite(x)) return "none";
    const decimals = Math.max(0, x === 0 ? 0 : 2 - decimalExponent(x), spread2 > 0 ? 2 - decimalExponent(spread2) : 0);
    return decimals > 8 || Math.abs(x) >= 1e15 ? formatNumber(x) : withMinus(x.toFixed(decimals));
  }
  var capitalize = (text2) => text2.charAt(0).toUpperCase() + text2.slice(1);
  function shorten(name, most = 18) {
    return name.length > most ? `${name.slice(0, Math.ceil(most / 2) - 1)}\u2026${name.slice(-Math.floor(most / 2))}` : name;
  }
  function pointNames(count, first = 1) {
    return Array.from({ length: count }, (_, k) => `point ${first + k}`);
  }
  function timeNames(times, isDate) {
    if (!isDate) return times.map((time) => withMinus(String(time)));
    const texts = times.map((time) => new Date(time).toISOString());
    const length = texts.every((text2) => text2.slice(11, 19) === "00:00:00") ? 10 : 16;
    return texts.map((text2) => text2.slice(0, length).replace("T", " "));
  }
  var messageOf = (error2) => error2 instanceof Error ? error2.message : String(error2);
  var indexNames = (count) => Array.from({ length: count }, (_, k) => String(k));
  function sequenceNames(ids, labels) {
    return ids.map((id, k) => id + (labels[k] ? `: ${labels[k]}` : ""));
  }

  // src/labels.ts
  var LABEL_HEIGHT = 0.07;
  function labelPositions(levels, others, sides) {
    const every = [...levels, ...others];
    const high = LABEL_HEIGHT * (Math.max(...every) - Math.min(...every));
    const free = sides.flatMap((side) => ["bottom", "top"].map((anchor) => [side, anchor]));
    const taken = [];
    const found = /* @__PURE__ */ new Map();
    for (const level of [...levels].sort((a, b) => b - a)) {
      const middle = (anchor2) => level + (anchor2 === "bottom" ? high / 2 : -high / 2);
      const isFree = ([side2, anchor2]) => taken.every(([takenSide, at]) => takenSide !== side2 || Math.abs(at - middle(anchor2)) >= 0.99 * high);
      const [side, anchor] = free.find(isFree) ?? free[0];
      taken.push([side, middle(anchor)]);
      found.set(level, [...found.get(level) ?? [], [side, anchor]]);
    }
    return levels.map((level) => found.get(level).shift());
  }

  // src/ticks.ts
  function logTicks(log, values) {
    if (!log) return { tickformat: "~g" };
    const real = values.filter((x) => typeof x === "number" && x > 0);
    const [low, high] = [Math.min(...real), Math.max(...real)];
    if (real.length < 2 || low === high || high > 5 * low) return { dtick: "D2", tickformat: "~g" };
    const rough = (high - low) / 3;
    const power = 10 ** decimalExponent(rough);
    const step = power * [5, 2, 1].find((digit) => digit * power <= rough * 1.0001);
    return { dtick: `L${step}`, tickformat: "~g" };
  }
  function integerTicks(count) {
    return { tickformat: "d", ...count <= 12 ? { dtick: 1 } : {} };
  }

  // src/loss_axis.ts
  var MIN_SHARE = 1e-6;
  function lossAxis(wantsLog, losses, references) {
    const found = losses.filter((loss) => Number.isFinite(loss));
    const positive = found.filter((loss) => loss > 0);
    const smallest = positive.length ? positive.reduce((a, b) => Math.min(a, b)) : 0;
    if (!wantsLog || !positive.length) {
      const note = wantsLog ? "No loss is above 0, so the scale is linear." : "";
      return { axis: { type: "linear", ...logTicks(false, []) }, references: [...references], shows: Number.isFinite, coordinate: (loss) => loss, note };
    }
    const shown = references.filter(([, loss]) => loss >= MIN_SHARE * smallest);
    const omitted = references.filter(([, loss]) => !(loss >= MIN_SHARE * smallest)).map(([name, loss]) => `${name} (${loss === 0 ? "0" : formatNumber(loss)})`);
    const zeros = found.length - positive.length;
    if (zeros) omitted.push(zeros === 1 ? "1 loss of 0" : `${zeros} losses of 0`);
    return {
      axis: { type: "log", ...logTicks(true, [...positive, ...shown.map(([, loss]) => loss)]) },
      references: shown,
      shows: (loss) => loss > 0,
      coordinate: Math.log10,
      note: omitted.length ? `The logarithmic scale has no place for 0 and for values far below the losses. It omits: ${omitted.join(", ")}.` : ""
    };
  }

  // src/plots.ts
  var PLOT_CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
  var MAX_UNIT_SCALE_COLUMNS = 16;
  var ALIGNMENT_COLOUR = "#e69f00";
  var DIVERGING = ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"].map((colour, k) => [k / 4, colour]);
  var redraws = [];
  function onThemeChange(draw2) {
    redraws.push(draw2);
  }
  function followTheme() {
    const again = () => {
      for (const draw2 of redraws) draw2();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    matchMedia("print").addEventListener("change", again);
  }
  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    return { ground: colour("--ground"), ink: colour("--ink"), soft: colour("--soft"), line: colour("--line"), accent: colour("--accent"), warn: colour("--warn") };
  }
  function layout(more) {
    const { ground, ink, line } = theme();
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
    const axes = Object.entries({ xaxis: {}, yaxis: {}, ...more }).filter(([key2]) => /^[xy]axis/.test(key2));
    return {
      paper_bgcolor: ground,
      plot_bgcolor: ground,
      font: { color: ink, size: 13 },
      margin: { l: 50, r: 15, t: 30, b: 45 },
      hoverlabel: { namelength: -1 },
      ...more,
      ...Object.fromEntries(axes.map(([key2, own]) => [key2, { ...axis, ...own }]))
    };
  }
  function draw(id, traces, more) {
    void Plotly.react(id, traces, layout(more), PLOT_CONFIG);
  }
  function writeInstead(id, words) {
    Plotly.purge(id);
    byId(id).textContent = words;
  }
  function clearText(id) {
    if (!plotById(id).data) byId(id).textContent = "";
  }
  function colourScale(meaning, array, largest2) {
    if (meaning === "strength") {
      const widest = Math.max(Math.abs(array.low), Math.abs(array.high)) || 1;
      return { colorscale: DIVERGING, zmin: -widest, zmax: widest };
    }
    return { colorscale: "Viridis", zmin: 0, zmax: largest2 || 1 };
  }
  function heatmap(z, across, down, colours, title, decimals = 4) {
    return {
      type: "heatmap",
      z,
      x: across,
      y: down,
      ...colours,
      xgap: z.length <= 16 ? 1 : 0,
      ygap: z.length <= 16 ? 1 : 0,
      hovertemplate: `%{y} attends to %{x}: %{z:.${String(Math.min(3, decimals))}f}<extra></extra>`,
      texttemplate: z.length <= 8 && z[0].length <= 8 ? `%{z:.${String(Math.min(2, decimals))}f}` : "",
      colorbar: { title: { text: title, side: "right" }, thickness: 12 }
    };
  }
  function outlines(columns, colour) {
    const lines = columns.length > 24 ? [{ color: "#000000", width: 4 }, { color: colour, width: 1.5 }] : [{ color: colour, width: 2.5 }];
    return columns.flatMap((column, row) => column < 0 ? [] : lines.map((line) => ({ type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5, line })));
  }

  // src/comparison.ts
  var MIN_WIDTH_FOR_TWO_SIDES = 500;
  var PIXELS_PER_LETTER = 9;
  var allLosses = (variants) => variants.flatMap((variant) => variant.points.map((point) => point.loss));
  var spread = (k, count) => count < 2 ? 0 : (k * 0.618034 % 1 - 0.5) * 0.5;
  function seedTraces(variants, now) {
    const { ink, accent, warn } = theme();
    return variants.map((variant, a) => {
      const chosen = (k) => a === now.variant && k === now.seed;
      return {
        type: "scatter",
        mode: "markers",
        name: escapeMarkup(variant.name),
        x: variant.points.map((_, k) => a + spread(k, variant.points.length)),
        y: variant.points.map((point) => point.loss),
        marker: { color: variant.points.map((_, k) => chosen(k) ? warn : accent), size: variant.points.map((_, k) => chosen(k) ? 15 : 9), opacity: 0.85, line: { color: ink, width: 0.5 } },
        text: variant.points.map((point) => escapeMarkup(`${variant.name}, seed ${point.seed}`)),
        hovertemplate: "%{text}: %{y:.4g}<extra></extra>",
        showlegend: false,
        meta: a
      };
    });
  }
  function medianShapes(variants, axis) {
    const { ink, soft } = theme();
    const shown = allLosses(variants).filter(axis.shows);
    const [lowest, highest] = [Math.min(...shown), Math.max(...shown)];
    return variants.flatMap((variant, a) => {
      const shapes = [];
      if (variant.median !== null && axis.shows(variant.median)) shapes.push({ type: "line", x0: a - 0.35, x1: a + 0.35, y0: variant.median, y1: variant.median, line: { color: ink, width: 2.5 } });
      const [low, high] = variant.interval ?? [null, null];
      const [bottom, top] = [low !== null && axis.shows(low) ? low : lowest, high ?? highest];
      if (low !== null && axis.shows(top)) shapes.push({ type: "rect", x0: a - 0.35, x1: a + 0.35, y0: bottom, y1: top, line: { width: 0 }, fillcolor: soft, opacity: 0.3, layer: "below" });
      return shapes;
    });
  }
  function referenceLines({ references, shows, coordinate }, losses) {
    const { soft } = theme();
    const positions = labelPositions(
      references.map(([, loss]) => coordinate(loss)),
      losses.filter(shows).map(coordinate),
      byId("seeds").clientWidth < MIN_WIDTH_FOR_TWO_SIDES ? ["right"] : ["right", "left"]
    );
    return {
      shapes: references.map(([, loss]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: soft, width: 1, dash: "dashdot" } })),
      annotations: references.map(([name, loss], k) => {
        const [side, anchor] = positions[k];
        return { xref: "paper", x: side === "left" ? 0 : 1, xanchor: side, y: coordinate(loss), yanchor: anchor, text: escapeMarkup(name), showarrow: false, font: { size: 13, color: soft } };
      })
    };
  }
  function variantAxis(variants) {
    const room = Math.floor(byId("seeds").clientWidth / variants.length / PIXELS_PER_LETTER);
    const names = variants.map((variant) => escapeMarkup(shorten(variant.name, Math.max(18, room))) + (variant.diverged ? `<br>${variant.diverged} diverged` : ""));
    const slanted = names.some((name) => name.length > room) ? { tickangle: -40, ticklabeloverflow: "allow" } : {};
    return { tickvals: variants.map((_, a) => a), ticktext: names, ...slanted, range: [-0.6, variants.length - 0.4], zeroline: false };
  }
  function drawSeeds(content, now) {
    const { references, variants } = content;
    const losses = allLosses(variants);
    const axis = lossAxis(selectById("scale").value === "log", losses, references);
    const { shapes, annotations } = referenceLines(axis, losses);
    draw("seeds", seedTraces(variants, now), {
      shapes: [...medianShapes(variants, axis), ...shapes],
      annotations,
      hovermode: "closest",
      yaxis: { title: { text: `test loss, ${content.loss_name ?? "mean squared error"}${content.unit}` }, ...axis.axis },
      xaxis: variantAxis(variants)
    });
    showNote(axis.note);
  }
  function describeChosen(point, path) {
    const words = `Test loss ${formatNumber(point.loss)} free running, ${formatNumber(point.forced)} teacher-forced; best epoch ${point.best_epoch}; it ${point.beats ? "beats" : "does not beat"} the best parameter-free baseline. `;
    const link = textElement("a", "Open the page of the run");
    link.href = `${point.link.split("/").map(encodeURIComponent).join("/")}/report.html`;
    const command2 = textElement("code", `seqattn report ${path}/${point.path}`);
    byId("chosen-words").replaceChildren(words, ...point.page ? [link] : ["Write its page: ", command2]);
  }
  function drawChosenCurve({ curve }) {
    if (!curve) {
      writeInstead("chosen-curve", "This run has no preview of its curve.");
      return;
    }
    clearText("chosen-curve");
    const { accent } = theme();
    const { axis, note } = lossAxis(true, curve.map(([, loss]) => loss), []);
    draw("chosen-curve", [{ type: "scatter", mode: curve.length > 1 ? "lines" : "markers", x: curve.map(([epoch]) => epoch), y: curve.map(([, loss]) => loss), line: { color: accent }, hovertemplate: "epoch %{x}: %{y:.4g}<extra></extra>" }], {
      title: { text: `Validation loss, free running${note && "; losses of 0 are omitted"}`, font: { size: 14 } },
      yaxis: { ...axis },
      xaxis: { title: { text: "epoch" }, ...integerTicks(curve.at(-1)[0]) }
    });
  }
  function drawChosenMap({ weights, part = "", signed }) {
    if (!weights) {
      writeInstead("chosen-map", "This run has no preview of its attention.");
      return;
    }
    clearText("chosen-map");
    const S = weights[0].length;
    const cells = weights.flat().map((weight) => weight ?? 0);
    const range = { low: Math.min(...cells), high: Math.max(...cells) };
    const colours = colourScale(signed ? "strength" : "distribution", range, S > MAX_UNIT_SCALE_COLUMNS ? range.high : 1);
    draw("chosen-map", [heatmap(weights, pointNames(S), pointNames(weights.length, S + 1), colours, "weight")], {
      title: { text: `Attention in the first test sequence${part}`, font: { size: 14 } },
      yaxis: { autorange: "reversed" }
    });
  }
  function showChosen(content, now) {
    const variant = content.variants[now.variant];
    fill(selectById("seed"), variant.points.map((point2) => String(point2.seed)), now.seed);
    selectById("variant").value = String(now.variant);
    drawSeeds(content, now);
    const point = variant.points.at(now.seed);
    if (!point) {
      byId("chosen-name").textContent = `${variant.name}: no run has finished`;
      for (const id of ["chosen-words", "chosen-curve", "chosen-map"]) writeInstead(id, "");
      return;
    }
    byId("chosen-name").textContent = `${variant.name}, seed ${point.seed}`;
    describeChosen(point, content.path);
    drawChosenCurve(point);
    drawChosenMap(point);
  }
  function showComparison(content) {
    const { variants } = content;
    const now = { variant: variants.findIndex((variant) => variant.points.length), seed: 0 };
    const show = () => {
      showChosen(content, now);
    };
    const choose = (variant, seed) => {
      now.variant = variant;
      now.seed = seed;
      show();
    };
    fill(selectById("variant"), variants.map((variant) => variant.name), now.variant);
    selectById("scale").addEventListener("change", () => {
      drawSeeds(content, now);
    });
    selectById("variant").addEventListener("change", () => {
      choose(Number(selectById("variant").value), 0);
    });
    selectById("seed").addEventListener("change", () => {
      choose(now.variant, Number(selectById("seed").value));
    });
    show();
    plotById("seeds").on("plotly_click", (event) => {
      const [point] = event.points;
      choose(point.data.meta, point.pointNumber);
    });
    onThemeChange(show);
  }

  // src/content.ts
  var hasResults = (content) => content.examples !== void 0;
  function readContent() {
    return JSON.parse(document.getElementById("data").textContent);
  }
  function decodeBase64(text2) {
    const { fromBase64 } = Uint8Array;
    if (fromBase64) return fromBase64.call(Uint8Array, text2);
    const letters = atob(text2);
    const bytes = new Uint8Array(letters.length);
    for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
    return bytes;
  }
  async function decompress(bytes, format) {
    const { readable, writable } = new DecompressionStream(format);
    const writer = writable.getWriter();
    const ignore = () => void 0;
    writer.write(bytes).catch(ignore);
    writer.close().catch(ignore);
    const chunks = [];
    const reader = readable.getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) chunks.push(next.value);
    const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
    let offset = 0;
    for (const chunk of chunks) {
      whole.set(chunk, offset);
      offset += chunk.length;
    }
    return whole.buffer;
  }
  function joinBytes(planes, size) {
    const joined = new Uint8Array(planes.length);
    const count = planes.length / size;
    for (let byte = 0; byte < size; byte += 1) {
      for (let k = 0; k < count; k += 1) joined[k * size + byte] = planes[byte * count + k];
    }
    return joined.buffer;
  }
  async function unpack(packed) {
    const bytes = await decompress(decodeBase64(packed.data), "deflate");
    const raw = packed.bits >= 32 ? joinBytes(new Uint8Array(bytes), packed.bits / 8) : bytes;
    const kinds2 = { 8: Uint8Array, 16: Uint16Array, 32: Float32Array, 64: Float64Array };
    const values = new kinds2[packed.bits](raw);
    const strides = packed.shape.map((_, k) => packed.shape.slice(k + 1).reduce((a, b) => a * b, 1));
    const most = packed.bits === 16 ? 65534 : 254;
    const { low = NaN, high = NaN, decimals = NaN } = packed;
    const decode = packed.bits >= 32 ? (code) => code : (code) => code > most ? NaN : low + code / most * (high - low);
    return {
      shape: packed.shape,
      decimals,
      low,
      high,
      at: (...indices) => decode(values[indices.reduce((sum, index, k) => sum + index * strides[k], 0)]),
      row: (index, count) => Float32Array.from(values.subarray(index * count, (index + 1) * count))
    };
  }
  function matrix(array, rows, columns, ...indices) {
    return Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_2, c) => {
      const value = array.at(...indices, r, c);
      return Number.isNaN(value) ? null : value;
    }));
  }

  // src/live/svg.ts
  var NAMESPACE = "http://www.w3.org/2000/svg";
  function svg(tag, attributes = {}, ...children) {
    const element = document.createElementNS(NAMESPACE, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
    element.append(...children);
    return element;
  }
  var halo = (ground) => ({ stroke: ground, "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" });
  function linearScale(domain, range) {
    const [low, high] = domain;
    const [first, last] = range;
    const slope = (last - first) / (high - low || 1);
    const scale = (value) => first + (value - low) * slope;
    return Object.assign(scale, { invert: (pixel) => low + (pixel - first) / slope, domain });
  }
  function roundTicks([low, high], count) {
    const rough = (high - low) / count;
    if (!(rough > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) ticks.push(k * step);
    return ticks;
  }
  function tickText(value, ticks) {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(value) || 1;
    const decimals = Math.min(10, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    return value.toFixed(decimals).replace(/^-0(\.0*)?$/, "0$1").replace("-", "\u2212");
  }
  var VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
  var DIVERGING2 = [[33, 102, 172], [146, 197, 222], [247, 247, 247], [244, 165, 130], [178, 24, 43]];
  function interpolate(stops, share) {
    const position = Math.min(1, Math.max(0, share)) * (stops.length - 1);
    const k = Math.min(stops.length - 2, Math.floor(position));
    return [0, 1, 2].map((c) => Math.round(stops[k][c] + (position - k) * (stops[k + 1][c] - stops[k][c])));
  }
  function weightColour(weight, largest2, signed) {
    return signed ? interpolate(DIVERGING2, 0.5 + weight / largest2 / 2) : interpolate(VIRIDIS, weight / largest2);
  }
  var rgb = ([r, g, b]) => `rgb(${r},${g},${b})`;
  function luminance(colour) {
    const [r, g, b] = colour.map((part) => part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  var inkOn = (colour) => luminance(colour) > Math.sqrt(1.05 * 0.05) - 0.05 ? "#000" : "#fff";
  var measured = null;
  function textWidth(text2, size) {
    measured ??= document.createElement("canvas").getContext("2d");
    measured.font = `${size}px system-ui, sans-serif`;
    return measured.measureText(text2).width;
  }
  function keepFromScrolling(element) {
    element.style.touchAction = "none";
    element.addEventListener("touchstart", (event) => {
      event.preventDefault();
    }, { passive: false });
  }
  function memberAfter(key2, member, count) {
    const found = { Home: 0, End: count - 1, PageUp: member - 1, PageDown: member + 1 }[key2];
    return found === void 0 ? null : Math.min(count - 1, Math.max(0, found));
  }
  var MEMBER_KEYS = "Page Up, Page Down, Home and End choose another one";

  // src/live/heatmap_plot.ts
  var FONT = 13;
  var TOP = 8;
  var BAR = { gap: 14, width: 12, numbers: 40, title: 18 };
  var BAR_STEPS = 48;
  var MIN_BAR = 96;
  var MAX_HEIGHT = 420;
  var MAX_CELL = 64;
  var MAX_CELLS_AS_ELEMENTS = 1600;
  var LONGEST_LABEL = 16;
  var MIN_LABELLED = 9;
  var MIN_GAPPED = 8;
  var MIN_SYMBOL_CELL = 13;
  var MAX_SCROLLED_COLUMNS = 60;
  var hasText = ({ cellWidth, cellHeight }) => cellWidth >= 42 && cellHeight >= 20;
  var bottomOf = ({ rows, cellHeight }) => TOP + rows * cellHeight;
  var shapeOf = (grid) => `${grid.rows} ${grid.columns} ${hasText(grid)}`;
  var labelWidth = (labels) => Math.max(0, ...labels.map((label) => textWidth(shorten(label, LONGEST_LABEL), FONT)));
  function layOut(view, room) {
    const [rows, columns] = [view.rows.length, view.columnLabels.length];
    const left = 30 + labelWidth(view.rowLabels) + (view.canForce ? 12 : 0);
    const right = BAR.gap + BAR.width + BAR.numbers + BAR.title;
    const least = view.isNumbered || columns > MAX_SCROLLED_COLUMNS ? 0 : MIN_SYMBOL_CELL;
    const width = Math.max(room, left + right + columns * least);
    const cellWidth = Math.min(MAX_CELL * 2, (width - left - right) / columns);
    const widest = labelWidth(view.columnLabels);
    const isTurned = !view.isNumbered && widest > Math.max(cellWidth, MIN_LABELLED) - 3;
    const below = (isTurned ? widest + 10 : 18) + 24;
    const cellHeight = Math.min(cellWidth, MAX_CELL, (MAX_HEIGHT - TOP - 42) / rows);
    const height = Math.max(TOP + rows * cellHeight, MIN_BAR) + below;
    return { rows, columns, cellWidth, cellHeight, left, width, height, isTurned };
  }
  function cellElement(grid, step, column) {
    const rect = svg("rect", { class: "cell", "data-step": step, "data-column": column }, svg("title"));
    return svg("g", {}, rect, ...hasText(grid) ? [svg("text", { "text-anchor": "middle", "font-size": 14, "pointer-events": "none" })] : []);
  }
  function place(rect, { cellWidth, cellHeight, left }, step, column) {
    const withGap = (size) => size < MIN_GAPPED ? size : size - 1;
    const box = { x: left + column * cellWidth, y: TOP + step * cellHeight, width: withGap(cellWidth), height: withGap(cellHeight) };
    for (const [name, value] of Object.entries(box)) rect.setAttribute(name, value.toFixed(2));
  }
  function describeCell({ rows, names, isForced: isForced3 }, step, column) {
    const weight = withMinus(rows[step][column].toFixed(4));
    if (isForced3(step)) return `${names.row(step)}: you forced its weight of ${names.column(column)} to ${weight}`;
    return `${names.row(step)} attends to ${names.column(column)} with ${weight}`;
  }
  function colourBar({ low, high, title, colour }, grid) {
    const { soft, line } = theme();
    const x = grid.left + grid.columns * grid.cellWidth + BAR.gap;
    const height = Math.max(MIN_BAR, grid.rows * grid.cellHeight);
    const group = svg("g", { class: "colour-bar", "font-size": FONT, fill: soft, "aria-hidden": "true", "pointer-events": "none" });
    for (let k = 0; k < BAR_STEPS; k += 1) {
      const weight = high - (k + 0.5) / BAR_STEPS * (high - low);
      group.append(svg("rect", { x, y: TOP + k / BAR_STEPS * height, width: BAR.width, height: height / BAR_STEPS + 0.5, fill: rgb(colour(weight)) }));
    }
    group.append(svg("rect", { x, y: TOP, width: BAR.width, height, fill: "none", stroke: line }));
    for (const weight of low < 0 ? [low, 0, high] : [low, (low + high) / 2, high]) {
      const y = TOP + (high - weight) / (high - low) * height;
      const text2 = withMinus(String(Number(weight.toPrecision(2))));
      group.append(svg("text", { x: x + BAR.width + 4, y: Math.min(TOP + height, Math.max(TOP + 9, y + 4)) }, text2));
    }
    const [titleX, middle] = [x + BAR.width + BAR.numbers + 8, TOP + height / 2];
    group.append(svg("text", { x: titleX, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${titleX} ${middle})` }, textWidth(title, FONT) > height ? title.replace(", relative to the largest", " / largest") : title));
    return group;
  }
  function axisLabels({ rowLabels, columnLabels, isNumbered, down, across }, grid) {
    const { soft } = theme();
    const group = svg("g", { "font-size": FONT, fill: soft, "aria-hidden": "true", "pointer-events": "none" });
    const every = (size, room) => Math.max(1, Math.ceil(room / size));
    const bottom = bottomOf(grid);
    const everyRow = every(grid.cellHeight, MIN_LABELLED);
    const rowFont = Math.min(FONT, everyRow > 1 ? everyRow * grid.cellHeight : grid.cellHeight + 1);
    for (let t = 0; t < grid.rows; t += everyRow) {
      group.append(svg("text", { "font-size": rowFont, x: grid.left - 6, y: TOP + (t + 0.5) * grid.cellHeight + 4, "text-anchor": "end" }, shorten(rowLabels[t], LONGEST_LABEL)));
    }
    for (let s = 0; s < grid.columns; s += every(grid.cellWidth, isNumbered ? 26 : MIN_LABELLED)) {
      const [x, label] = [grid.left + (s + 0.5) * grid.cellWidth, shorten(columnLabels[s], LONGEST_LABEL)];
      group.append(grid.isTurned ? svg("text", { x: x + 4, y: bottom + 6, "text-anchor": "end", transform: `rotate(-90 ${x + 4} ${bottom + 6})` }, label) : svg("text", { "font-size": isNumbered ? FONT : Math.min(FONT, grid.cellWidth + 1), x, y: bottom + 15, "text-anchor": "middle" }, label));
    }
    group.append(svg("text", { x: grid.left + grid.columns * grid.cellWidth / 2, y: grid.height - 8, "text-anchor": "middle", "font-size": 14 }, across));
    const middle = Math.max((TOP + bottom) / 2, textWidth(down, 14) / 2 + 4);
    group.append(svg("text", { x: 14, y: middle, "text-anchor": "middle", "font-size": 14, transform: `rotate(-90 14 ${middle})` }, down));
    return group;
  }
  var HeatmapPlot = class _HeatmapPlot {
    constructor(place3, events) {
      this.place = place3;
      this.events = events;
      this.root = svg("svg", { tabindex: 0, role: "grid" });
      this.cellId = `live-cell-${_HeatmapPlot.count += 1}`;
      this.cellText.className = "hint cell-text screen";
      this.cellText.setAttribute("aria-hidden", "true");
      place3.replaceChildren(this.root, this.cellText);
      this.root.append(this.cellGroup);
      this.root.addEventListener("focus", () => {
        this.showCursor();
      });
      this.root.addEventListener("blur", () => {
        this.showCursor();
      });
      this.root.addEventListener("pointermove", (event) => {
        this.point(event);
      });
      this.root.addEventListener("pointerleave", () => {
        this.point(null);
      });
    }
    place;
    events;
    root;
    static count = 0;
    cellId;
    column = 0;
    /** The elements of the cells stay while the grid has the same cells: a browser loses the click on an element that is replaced between press and release. */
    cellGroup = svg("g", { "aria-hidden": "true" });
    cursor = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", "data-only": "page" });
    /** The column of the source step at which the reader points, in this picture or in another. */
    pointed = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", "data-only": "page", visibility: "hidden" });
    shape = "";
    grid = null;
    view = null;
    /** The column that is marked. */
    marked = null;
    /** The cell below the pointer: row and column. */
    below = null;
    /** Says what the cell below the pointer shows. */
    cellText = document.createElement("p");
    /** Follow the pointer; null: it is elsewhere. */
    point(event) {
      const column = event ? this.columnAt(event) : null;
      const row = event ? this.rowAt(event) : null;
      this.below = row === null || column === null ? null : [row, column];
      this.describeBelow();
      this.events.pointAt(column);
    }
    describeBelow() {
      const { view, below } = this;
      const isThere = below !== null && below[0] < (view?.rows.length ?? 0) && below[1] < (view?.columnLabels.length ?? 0);
      this.cellText.textContent = isThere ? capitalize(describeCell(view, ...below)) : "";
    }
    rowAt(event) {
      const { grid } = this;
      if (!grid) return null;
      const box = this.root.getBoundingClientRect();
      const row = Math.floor(((event.clientY - box.top) * (this.root.viewBox.baseVal.width / box.width) - TOP) / grid.cellHeight);
      return row >= 0 && row < grid.rows ? row : null;
    }
    /** Mark the column of a source step; null: none. */
    mark(column) {
      const { grid, pointed } = this;
      this.marked = column;
      pointed.setAttribute("visibility", grid && column !== null && column < grid.columns ? "visible" : "hidden");
      if (!grid || column === null) return;
      place(pointed, { ...grid, cellHeight: grid.rows * grid.cellHeight }, 0, column);
      pointed.setAttribute("stroke", theme().accent);
    }
    /** Return the column of a pointer; null if it is over none. */
    columnAt(event) {
      const { grid } = this;
      if (!grid) return null;
      const box = this.root.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) * (this.root.viewBox.baseVal.width / box.width) - grid.left) / grid.cellWidth);
      return column >= 0 && column < grid.columns ? column : null;
    }
    showCursor() {
      this.cursor.setAttribute("visibility", document.activeElement === this.root ? "visible" : "hidden");
    }
    /** Draw a view, or hide the picture if there are no weights. */
    draw(view) {
      const { rows, chosen, scale } = view;
      this.place.hidden = rows.length === 0;
      this.place.style.overflowX = "auto";
      if (!rows.length) return;
      const grid = layOut(view, Math.max(240, this.place.clientWidth));
      [this.grid, this.view] = [grid, view];
      this.root.setAttribute("viewBox", `0 0 ${grid.width} ${grid.height}`);
      this.root.setAttribute("width", String(grid.width));
      this.root.setAttribute("height", String(grid.height));
      this.column = Math.min(this.column, grid.columns - 1);
      this.root.setAttribute("aria-label", `Attention weights. Arrow keys choose a cell${view.canForce ? ", Enter makes its step attend there only" : ""}.`);
      this.root.setAttribute("aria-rowcount", String(rows.length));
      this.root.setAttribute("aria-colcount", String(grid.columns));
      const isImage = rows.length * grid.columns > MAX_CELLS_AS_ELEMENTS;
      if (isImage) this.cellGroup.replaceChildren(this.image(view, grid));
      else this.drawCells(view, grid);
      this.shape = isImage ? "" : shapeOf(grid);
      while (this.cellGroup.nextSibling) this.cellGroup.nextSibling.remove();
      this.root.append(axisLabels(view, grid), colourBar(scale, grid), this.marks(view, grid), this.pointed, this.cursor, this.currentCell(view));
      place(this.cursor, grid, chosen, this.column);
      this.cursor.setAttribute("stroke", theme().ink);
      this.showCursor();
      this.describeBelow();
      this.mark(this.marked);
      this.root.onclick = (event) => {
        this.click(event);
      };
      this.root.onkeydown = (event) => {
        this.key(event, grid, chosen);
      };
    }
    /** The chosen cell for screen readers, which read it when the keyboard moves to it. */
    currentCell({ rows, chosen, names, isForced: isForced3 }) {
      this.root.setAttribute("aria-activedescendant", this.cellId);
      const cell3 = svg("g", { id: this.cellId, role: "gridcell", "aria-colindex": this.column + 1, "aria-selected": "true", "aria-label": `${names.row(chosen)}, ${names.column(this.column)}: ${rows[chosen][this.column].toFixed(3)}${isForced3(chosen) ? ", forced" : ""}` });
      return svg("g", { role: "row", "aria-rowindex": chosen + 1, "data-only": "page" }, cell3);
    }
    drawCells(view, grid) {
      const { rows, scale } = view;
      if (this.shape !== shapeOf(grid)) this.cellGroup.replaceChildren(...rows.flatMap((row, t) => row.map((_, s) => cellElement(grid, t, s))));
      for (const [t, row] of rows.entries()) {
        for (const [s, weight] of row.entries()) {
          const colour = scale.colour(weight);
          const [rect, words] = this.cellGroup.children[t * grid.columns + s].children;
          place(rect, grid, t, s);
          rect.setAttribute("fill", rgb(colour));
          rect.firstElementChild.textContent = describeCell(view, t, s);
          if (!words) continue;
          words.setAttribute("x", String(grid.left + (s + 0.5) * grid.cellWidth));
          words.setAttribute("y", String(TOP + (t + 0.5) * grid.cellHeight + 5));
          words.setAttribute("fill", inkOn(colour));
          words.textContent = withMinus(weight.toFixed(2));
        }
      }
    }
    image({ rows, scale }, grid) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [grid.columns, grid.rows];
      const context = canvas.getContext("2d");
      const pixels = context.createImageData(grid.columns, grid.rows);
      for (const [k, weight] of rows.flat().entries()) pixels.data.set([...scale.colour(weight), 255], 4 * k);
      context.putImageData(pixels, 0, 0);
      return svg("image", { x: grid.left, y: TOP, width: grid.columns * grid.cellWidth, height: grid.rows * grid.cellHeight, preserveAspectRatio: "none", href: canvas.toDataURL(), style: "image-rendering: pixelated", "pointer-events": "none" });
    }
    /** Outlines: known links, forced rows and the chosen row. */
    marks({ rows, links, isForced: isForced3, chosen }, grid) {
      const { warn } = theme();
      const group = svg("g", { fill: "none", "pointer-events": "none" });
      const outline = (t, s, count, attributes) => {
        group.append(svg("rect", { x: grid.left + s * grid.cellWidth, y: TOP + t * grid.cellHeight, width: count * grid.cellWidth - 1, height: grid.cellHeight - 1, ...attributes }));
      };
      for (const link of links) if (link.row < grid.rows && link.column < grid.columns) outlineLink(link, outline);
      for (const t of rows.keys()) {
        if (!isForced3(t)) continue;
        group.append(svg("text", { x: 20, y: TOP + (t + 0.5) * grid.cellHeight + 4, "font-size": 12, stroke: "none", fill: warn, class: "forced-row" }, "\u25B8"));
        outline(t, 0, grid.columns, { stroke: warn, "stroke-width": 1.5, "stroke-dasharray": "5 3" });
      }
      const { ink, ground } = theme();
      outline(chosen, 0, grid.columns, { stroke: ground, "stroke-width": 5 });
      outline(chosen, 0, grid.columns, { stroke: ink, "stroke-width": 2.5 });
      return group;
    }
    click(event) {
      const [row, column] = [this.rowAt(event), this.columnAt(event)];
      if (row === null) return;
      if (column === null) {
        this.events.chooseStep(row);
        return;
      }
      this.column = column;
      this.events.chooseCell(row, column);
    }
    key(event, grid, chosen) {
      const [dt, ds] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
      if (dt || ds) {
        event.preventDefault();
        this.column = Math.min(grid.columns - 1, Math.max(0, this.column + ds));
        this.events.chooseStep(Math.min(grid.rows - 1, Math.max(0, chosen + dt)));
      } else if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        this.events.chooseCell(chosen, this.column);
      }
    }
  };
  function outlineLink({ row, column, isPossible }, outline) {
    outline(row, column, 1, { stroke: "#000", "stroke-width": 4 });
    outline(row, column, 1, { stroke: ALIGNMENT_COLOUR, "stroke-width": 2, "stroke-dasharray": isPossible ? "3 3" : "none", class: "true-step" });
  }

  // src/words/vocabulary.ts
  var [PAD, BEGIN, END, UNKNOWN] = [0, 1, 2, 3];
  var RESERVED = 4;
  var WORD_BEGIN = "\u2581";
  var REPLACEMENT = "\uFFFD";
  function splitWord(word, rank) {
    const parts = Array.from(word);
    for (; ; ) {
      let best = Infinity;
      let place3 = -1;
      for (let k = 0; k + 1 < parts.length; k += 1) {
        const found = rank.get(parts[k] + parts[k + 1]) ?? Infinity;
        if (found < best) [best, place3] = [found, k];
      }
      if (place3 < 0) return parts;
      parts.splice(place3, 2, parts[place3] + parts[place3 + 1]);
    }
  }
  var Vocabulary = class {
    constructor(content) {
      this.content = content;
      const entries2 = content.symbols.map((symbol, k) => [symbol, k]);
      this.numbers = new Map(entries2);
      this.rank = new Map(entries2.slice(RESERVED));
    }
    content;
    numbers;
    rank;
    get size() {
      return this.content.symbols.length;
    }
    /** Return the number of a symbol. Symbols that are written like a reserved one are unknown. */
    numberOf(symbol) {
      return Math.max(this.numbers.get(symbol) ?? UNKNOWN, UNKNOWN);
    }
    /** Return the symbols of a text in Unicode normalization form C. */
    split(text2) {
      const { unit, lowercase } = this.content;
      const composed = text2.normalize("NFC");
      const written = lowercase ? composed.toLowerCase() : composed;
      if (unit === "character") return Array.from(written);
      const words = written.split(/\s+/u).filter(Boolean);
      if (unit !== "bpe") return words;
      return words.flatMap((word) => splitWord(WORD_BEGIN + word.replaceAll(WORD_BEGIN, REPLACEMENT), this.rank));
    }
    /** Return symbols as text. */
    join(symbols) {
      const { unit } = this.content;
      if (unit === "character") return symbols.join("");
      if (unit !== "bpe") return symbols.join(" ");
      return symbols.join("").split(WORD_BEGIN).filter(Boolean).join(" ");
    }
    /** Return symbols as a text that is split into the same symbols again. An unknown symbol of a test sequence is one character that no vocabulary has. */
    write(symbols) {
      const isSplit = this.content.unit === "character" || this.content.unit === "bpe";
      return this.join(symbols.map((symbol) => isSplit && symbol === this.content.symbols[UNKNOWN] ? REPLACEMENT : symbol));
    }
    /** Return the symbol with a number. */
    symbol(number) {
      return this.content.symbols[number];
    }
    /** Return the symbols of numbers up to the end of the sequence. */
    symbols(numbers) {
      const end = numbers.findIndex((number) => number === END || number === PAD);
      return (end < 0 ? numbers : numbers.slice(0, end)).map((number) => this.symbol(number));
    }
    /** Return numbers as text, up to the end of the sequence. */
    text(numbers) {
      return this.join(this.symbols(numbers));
    }
  };
  function visible(symbol) {
    if (/^<(pad|begin|end|unknown)>$/.test(symbol)) return symbol.slice(1, -1);
    if (symbol === " ") return "\u2423";
    return /^\s+$/u.test(symbol) ? "\u2423".repeat(symbol.length) : symbol;
  }

  // src/contributions.ts
  var MAX_HEIGHT2 = 360;
  var MIN_HEIGHT = 100;
  var MIN_SYMBOL_CELL2 = 11;
  var MIN_CELL_HEIGHT = 10;
  var MAX_NAME = 40;
  var SCALE = { width: 72, height: 10, steps: 24 };
  function stepNames({ source, output: output2, maps }) {
    const [rows] = Object.values(maps);
    const numbers = (count, first) => Array.from({ length: count }, (_, k) => String(first + k));
    const S = rows[0].length;
    return {
      rowLabels: output2.length ? output2.map(visible) : numbers(rows.length, S + 1),
      columnLabels: source.length ? source.map(visible) : numbers(S, 1),
      isNumbered: !source.length,
      down: output2.length ? "output" : "forecast point",
      across: source.length ? "source" : "source point"
    };
  }
  function describeContributions({ source, output: output2, maps }, { rowLabels, columnLabels }, [row, column]) {
    const name = (kind, labels, k, isSymbol) => isSymbol ? `${kind} symbol ${k + 1}, \u201C${labels[k]}\u201D` : `${kind} point ${labels[k]}`;
    const numbers = Object.entries(maps).map(([method, rows]) => `${method.replace(/weights$/, "weight")} ${withMinus(rows[row][column].toFixed(4))}`);
    const rowName = name(output2.length ? "Output" : "Forecast", rowLabels, row, output2.length > 0);
    return `${rowName}; ${name("source", columnLabels, column, source.length > 0)}: ${numbers.join(", ")}.`;
  }
  function layOut2({ rowLabels, columnLabels, isNumbered }, width) {
    const [rows, columns] = [rowLabels.length, columnLabels.length];
    const left = 30 + labelWidth(rowLabels);
    const cellWidth = Math.min(2 * MAX_CELL, (width - left - 2) / columns);
    const widest = labelWidth(columnLabels);
    const isTurned = !isNumbered && widest > Math.max(cellWidth, MIN_SYMBOL_CELL2) - 2;
    const cellHeight = Math.min(Math.max(cellWidth, MIN_CELL_HEIGHT), MAX_CELL, MAX_HEIGHT2 / rows);
    const height = Math.max(TOP + rows * cellHeight, MIN_HEIGHT) + (isTurned ? widest + 10 : 18) + 24;
    return { rows, columns, cellWidth, cellHeight, left, width, height, isTurned };
  }
  var ContributionsMap = class {
    constructor(method, rows, index, choose, move) {
      this.method = method;
      this.rows = rows;
      this.cellId = `contributions-cell-${index}`;
      this.heading = textElement("h3", method);
      this.figure.append(this.heading, this.picture);
      this.picture.setAttribute("aria-label", `${method}. Arrow keys choose a cell.`);
      const follow = (event) => {
        const cell3 = this.cellAt(event);
        if (cell3) choose(cell3);
      };
      this.picture.addEventListener("pointermove", follow);
      this.picture.addEventListener("pointerdown", follow);
      this.picture.addEventListener("focus", () => {
        move(0, 0);
      });
      this.picture.addEventListener("keydown", (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (!step) return;
        event.preventDefault();
        move(step[0], step[1]);
      });
    }
    method;
    rows;
    figure = document.createElement("div");
    heading;
    picture = svg("svg", { tabindex: 0, role: "grid" });
    outlines = [4, 2].map((width) => svg("rect", { fill: "none", "stroke-width": width, "pointer-events": "none" }));
    cellId;
    grid = null;
    get isSigned() {
      return this.rows.some((row) => row.some((value) => value < 0));
    }
    cellAt(event) {
      const { grid } = this;
      if (!grid) return null;
      const box = this.picture.getBoundingClientRect();
      const row = Math.floor((event.clientY - box.top - TOP) / grid.cellHeight);
      const column = Math.floor((event.clientX - box.left - grid.left) / grid.cellWidth);
      return row >= 0 && row < grid.rows && column >= 0 && column < grid.columns ? [row, column] : null;
    }
    draw(names) {
      this.heading.replaceChildren(this.method, this.scale());
      const grid = this.grid = layOut2(names, this.figure.clientWidth);
      const { picture, rows, isSigned } = this;
      for (const [name, value] of [["viewBox", `0 0 ${grid.width} ${grid.height}`], ["width", String(grid.width)], ["height", String(grid.height)]]) picture.setAttribute(name, value);
      picture.setAttribute("aria-rowcount", String(grid.rows));
      picture.setAttribute("aria-colcount", String(grid.columns));
      const { line } = theme();
      const cells = svg("g", { "aria-hidden": "true" }, svg("rect", { x: grid.left - 1, y: TOP - 1, width: grid.columns * grid.cellWidth + 1, height: grid.rows * grid.cellHeight + 1, fill: "none", stroke: line }));
      for (const [t, row] of rows.entries()) {
        for (const [s, value] of row.entries()) {
          const colour = weightColour(value, 1, isSigned);
          const rect = svg("rect", { class: "cell", fill: rgb(colour) });
          place(rect, grid, t, s);
          cells.append(rect);
          if (hasText(grid)) cells.append(svg("text", { x: grid.left + (s + 0.5) * grid.cellWidth, y: TOP + (t + 0.5) * grid.cellHeight + 5, "text-anchor": "middle", "font-size": 14, fill: inkOn(colour), "pointer-events": "none" }, withMinus(value.toFixed(2))));
        }
      }
      picture.replaceChildren(cells, axisLabels(names, grid), ...this.outlines);
    }
    /** The ends of the colours, and the colours between them. */
    scale() {
      const { isSigned } = this;
      const { soft, line } = theme();
      const low = isSigned ? -1 : 0;
      const [left, bar] = [isSigned ? 20 : 12, SCALE.width / SCALE.steps];
      const stops = Array.from({ length: SCALE.steps }, (_, k) => svg("rect", { x: left + k * bar, y: 3, width: bar + 0.5, height: SCALE.height, fill: rgb(weightColour(low + (k + 0.5) / SCALE.steps * (1 - low), 1, isSigned)) }));
      return svg(
        "svg",
        { width: left + SCALE.width + 14, height: 16, "font-size": 13, "font-weight": 400, fill: soft, role: "img", "aria-label": `Colours from ${low} to 1` },
        svg("text", { x: left - 4, y: 13, "text-anchor": "end" }, withMinus(String(low))),
        ...stops,
        svg("rect", { x: left, y: 3, width: SCALE.width, height: SCALE.height, fill: "none", stroke: line }),
        svg("text", { x: left + SCALE.width + 4, y: 13 }, "1")
      );
    }
    /** Outline a cell, whose numbers screen readers read; null: none. */
    mark(cell3, text2) {
      const { grid, outlines: outlines2, picture } = this;
      picture.querySelector("[role=row]")?.remove();
      for (const outline of outlines2) outline.setAttribute("visibility", cell3 ? "visible" : "hidden");
      if (!cell3 || !grid) return;
      const { ground, ink } = theme();
      for (const [k, outline] of outlines2.entries()) {
        place(outline, grid, ...cell3);
        outline.setAttribute("stroke", [ground, ink][k]);
      }
      const [row, column] = cell3;
      picture.setAttribute("aria-activedescendant", this.cellId);
      picture.append(svg("g", { role: "row", "aria-rowindex": row + 1 }, svg("g", { id: this.cellId, role: "gridcell", "aria-colindex": column + 1, "aria-selected": "true", "aria-label": text2 })));
    }
  };
  function showContributions({ sequences }) {
    const places = byId("contributions-maps");
    let maps = [];
    let cell3 = null;
    const shown = () => sequences[numberOf("contributions-example")];
    const mark = () => {
      const text2 = cell3 ? describeContributions(shown(), stepNames(shown()), cell3) : "Point at a cell, or choose one with the arrow keys, to see its numbers in all heatmaps.";
      for (const map of maps) map.mark(cell3, text2);
      byId("contributions-cell").textContent = text2;
    };
    const choose = (next) => {
      if (next[0] === cell3?.[0] && next[1] === cell3[1]) return;
      cell3 = next;
      mark();
    };
    const move = (down, right) => {
      const { rowLabels, columnLabels } = stepNames(shown());
      const [row, column] = cell3 ?? [0, 0];
      choose([Math.min(rowLabels.length - 1, Math.max(0, row + down)), Math.min(columnLabels.length - 1, Math.max(0, column + right))]);
    };
    const draw2 = () => {
      const names = stepNames(shown());
      const least = names.isNumbered ? 0 : 32 + labelWidth(names.rowLabels) + names.columnLabels.length * MIN_SYMBOL_CELL2;
      places.style.setProperty("--panel", `${least}px`);
      for (const map of maps) map.draw(names);
      mark();
    };
    const show = () => {
      cell3 = null;
      maps = Object.entries(shown().maps).map(([method, rows], k) => new ContributionsMap(method, rows, k, choose, move));
      places.replaceChildren(...maps.map(({ figure }) => figure));
      byId("contributions-error").textContent = withMinus(String(shown().error));
      byId("contributions-option").textContent = ` --example ${shown().example}`;
      draw2();
    };
    fill(selectById("contributions-example"), sequences.map(({ name }) => shorten(name, MAX_NAME)));
    byId("contributions-example").addEventListener("change", show);
    window.addEventListener("resize", draw2);
    onThemeChange(draw2);
    show();
  }

  // src/curves.ts
  var NOISE_FLOOR = "noise floor";
  var TOP_MARGIN = 54;
  var LEGEND_PLACE = -0.25;
  var PART = " (validation)";
  function lossTraces(curves) {
    const { soft, accent, warn } = theme();
    const line = (name, values, colour, dash) => ({ type: "scatter", mode: curves.epoch.length > 1 ? "lines" : "markers", name, x: curves.epoch, y: values, line: { color: colour, dash, width: 2 }, hovertemplate: "%{y:.4g}" });
    return [
      line("training", curves.training, soft, "dot"),
      line("validation, free running", curves.validation, accent, "solid"),
      line("validation, teacher-forced", curves.teacher_forced, warn, "dash")
    ];
  }
  function referencesOf({ floor, baseline }) {
    const floors = typeof floor === "number" ? [[NOISE_FLOOR, floor]] : [];
    return baseline ? [...floors, baseline] : floors;
  }
  function referenceLines2(curves, axis) {
    const { ink, soft } = theme();
    const shapes = [];
    const annotations = [];
    for (const [name, loss] of axis.references) {
      const [colour, side] = name === NOISE_FLOOR ? [ink, "top"] : [soft, "bottom"];
      const text2 = escapeMarkup(`${name}${PART} ${loss === 0 ? "0" : formatNumber(loss)}`);
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: colour, width: 1, dash: "dashdot" } });
      annotations.push({ xref: "paper", x: 1, xanchor: "right", y: axis.coordinate(loss), yanchor: side, text: text2, showarrow: false, font: { size: 13, color: colour } });
    }
    if (curves.best_epoch) {
      shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: curves.best_epoch, x1: curves.best_epoch, line: { color: soft, width: 1, dash: "dot" } });
      annotations.push({ yref: "paper", y: 1, yanchor: "bottom", x: curves.best_epoch, text: `best epoch ${curves.best_epoch}`, showarrow: false, font: { size: 13 } });
    }
    return { shapes, annotations };
  }
  function showCurves(curves, loss, unit) {
    const losses = [...curves.training, ...curves.validation, ...curves.teacher_forced];
    const drawLosses = () => {
      const axis = lossAxis(selectById("scale").value === "log", losses, referencesOf(curves));
      draw("loss", lossTraces(curves), {
        margin: { l: 50, r: 15, t: TOP_MARGIN, b: 45 },
        hovermode: "x unified",
        ...referenceLines2(curves, axis),
        legend: { orientation: "h", yanchor: "top", y: LEGEND_PLACE },
        xaxis: { title: { text: "epoch" }, ...integerTicks(curves.epoch.length) },
        yaxis: { title: { text: `${loss}${unit}` }, ...axis.axis }
      });
      showNote(axis.note);
    };
    selectById("scale").addEventListener("change", drawLosses);
    onThemeChange(drawLosses);
    drawLosses();
  }

  // src/errors.ts
  var MAX_BARS = 40;
  function drawErrorsByStep(losses, unit) {
    const { accent } = theme();
    draw("by-step", [{ type: losses.length > MAX_BARS ? "scatter" : "bar", x: losses.map((_, k) => k + 1), y: losses, marker: { color: accent }, hovertemplate: "position %{x}: %{y:.4g}<extra></extra>" }], {
      title: { text: `Mean squared error${unit}<br>by position in the forecast`, font: { size: 14 } },
      xaxis: { title: { text: "position in the forecast" }, ...integerTicks(losses.length) },
      yaxis: { rangemode: "tozero" }
    });
  }
  function groupTable({ name, rows }, unit) {
    const table = document.createElement("table");
    table.createCaption().textContent = `Mean squared error${unit} by ${name}`;
    const most = Math.max(...rows.map(([, , loss]) => loss));
    for (const [group, count, loss] of rows) {
      const row = table.insertRow();
      const head = textElement("th", group);
      head.scope = "row";
      row.append(head);
      row.insertCell().textContent = `${count} sequences`;
      row.insertCell().textContent = formatNumber(loss);
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${most > 0 ? 8 * loss / most : 0}rem`;
      row.insertCell().append(bar);
    }
    return table;
  }
  function listWorst(content, choices) {
    const names = sequenceNames(content.examples.ids, content.examples.labels);
    for (const example of content.worst) {
      const item = document.createElement("li");
      const button = textElement("button", `${names[example]}, error ${formatNumber(content.examples.losses[example])}`);
      button.type = "button";
      button.dataset.example = String(example);
      button.addEventListener("click", () => {
        choices.chooseExample(example);
        byId(choices.section).scrollIntoView({ behavior: "smooth" });
      });
      item.append(button);
      byId("worst").append(item);
    }
  }
  function markWorst(example) {
    for (const button of document.querySelectorAll("#worst button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.example) === example));
    }
  }
  function showErrors(content, choices) {
    const drawSteps = () => {
      drawErrorsByStep(content.by_step, content.unit);
    };
    drawSteps();
    plotById("by-step").on("plotly_click", (event) => {
      choices.chooseStep(event.points[0].x - 1);
    });
    onThemeChange(drawSteps);
    for (const group of content.classes) byId("by-class").append(groupTable(group, content.unit_of_one));
    listWorst(content, choices);
  }

  // src/explorer/map.ts
  var DECODER_STEPS = "attended decoder steps, named by the point they<br>forecast; the input of each is the point before";
  function marks(view) {
    const { warn } = theme();
    const [, columns] = view.size;
    return [...outlines(view.trueSteps, ALIGNMENT_COLOUR), {
      type: "rect",
      x0: -0.5,
      x1: columns - 0.5,
      y0: view.step - 0.5,
      y1: view.step + 0.5,
      line: { color: warn, width: 3 }
    }];
  }
  function markStep(view) {
    if (view.map) void Plotly.relayout("map", { shapes: marks(view) });
  }
  function drawMap(view) {
    if (!view.map) {
      byId("map").textContent = "This model has no attention.";
      return;
    }
    const [S] = view.lengths;
    const [rows, columns] = view.size;
    const across = view.kind === "decoder_self" ? pointNames(columns, S + 1) : pointNames(columns);
    const down = pointNames(rows, view.kind === "encoder_self" ? 1 : S + 1);
    const title = view.meaning === "strength" ? "read strength" : "attention weight";
    const known = view.trueSteps.length > 0 ? "attended point; outlined in orange: the true one" : "attended point";
    draw("map", [heatmap(view.rows, across, down, colourScale(view.meaning, view.map, view.largest), title, view.map.decimals)], {
      xaxis: { title: { text: view.kind === "decoder_self" ? DECODER_STEPS : known }, constrain: "domain" },
      yaxis: { autorange: "reversed", title: { text: "query step" } },
      shapes: marks(view)
    });
  }

  // src/explorer/view.ts
  var KIND_NAMES = {
    cross: "decoder to source (cross-attention)",
    encoder_self: "encoder self-attention",
    decoder_self: "decoder self-attention"
  };
  var MAX_ROWS = 4;
  var View = class _View {
    constructor(examples, source, target, forecast, maps, meaning, alignment, stepTimes) {
      this.examples = examples;
      this.source = source;
      this.target = target;
      this.forecast = forecast;
      this.maps = maps;
      this.meaning = meaning;
      this.alignment = alignment;
      this.stepTimes = stepTimes;
      this.kind = this.kinds[0];
    }
    examples;
    source;
    target;
    forecast;
    maps;
    meaning;
    alignment;
    stepTimes;
    example = 0;
    kind;
    layer = 0;
    head = 0;
    step = 0;
    /** Whether the colours end at the largest weight of the heatmap, not at 1. */
    endAtLargest = false;
    static async of({ examples, maps, meaning, alignment }) {
      const unpacked = {};
      for (const [kind, packed] of Object.entries(maps)) unpacked[kind] = await unpack(packed);
      const [source, target, forecast] = await Promise.all([examples.source, examples.target, examples.forecast].map(unpack));
      const times = examples.times && [await unpack(examples.times.source), await unpack(examples.times.target)];
      return new _View(examples, source, target, forecast, unpacked, meaning, alignment, times);
    }
    get kinds() {
      return Object.keys(this.maps);
    }
    /** The weights of the chosen kind of attention; undefined for a model without attention. */
    get map() {
      return this.kind && this.maps[this.kind];
    }
    /** The source length S and the target length T of the chosen sequence. */
    get lengths() {
      return [this.examples.source_lengths[this.example], this.examples.target_lengths[this.example]];
    }
    /** The number of query steps and of attended points. */
    get size() {
      const [S, T] = this.lengths;
      if (this.kind === "encoder_self") return [S, S];
      return this.kind === "decoder_self" ? [T, T] : [T, S];
    }
    /** The weights of the chosen step; empty for a model without attention. */
    get weights() {
      const { map, size: [, columns] } = this;
      if (!map) return [];
      return Array.from({ length: columns }, (_, c) => map.at(this.example, this.layer, this.head, this.step, c));
    }
    /** The rows of weights of the chosen sequence, layer and head. */
    get rows() {
      return this.map ? matrix(this.map, ...this.size, this.example, this.layer, this.head) : [];
    }
    /** The end of the colour scale: 1, or the largest weight of the heatmap. */
    get largest() {
      return this.endAtLargest ? Math.max(1e-6, ...this.rows.flat().filter((weight) => weight !== null)) : 1;
    }
    /** The true source step of each target step, where the task has one. */
    get trueSteps() {
      return this.kind === "cross" && this.alignment ? this.alignment[this.example].slice(0, this.size[0]) : [];
    }
    /** The horizontal places of the source and target steps: dates as ISO text, numbers, or the steps counted from 1. */
    get places() {
      const [S, T] = this.lengths;
      const { stepTimes, examples: { times } } = this;
      const counted = (first, count) => Array.from({ length: count }, (_, k) => first + k + 1);
      if (!stepTimes || !times) return [counted(0, S), counted(S, T)];
      const text2 = (time) => times.is_date ? new Date(time).toISOString() : time;
      const [source, target] = stepTimes.map((array, side) => this.points(array, [S, T][side]));
      return [source.map(text2), target.map(text2)];
    }
    /** Return the first values of an array (N, L, F) or (N, L) for the chosen sequence. */
    points(array, count, ...feature) {
      return Array.from({ length: count }, (_, k) => array.at(this.example, k, ...feature));
    }
    /** Return the unit of a feature with a space before it, or "". */
    unitOf(feature) {
      return Object.hasOwn(this.examples.units, feature) ? ` ${this.examples.units[feature]}` : "";
    }
    /** Return the name of a feature with its unit. */
    nameOf(feature) {
      return Object.hasOwn(this.examples.units, feature) ? this.examples.named[feature] : feature;
    }
    /** Return the range of a feature in the target and forecast of the sequence, or else in the source. */
    spread(feature) {
      const [S, T] = this.lengths;
      const targetIndex = this.examples.target_features.indexOf(feature);
      const values = targetIndex < 0 ? this.points(this.source, S, this.examples.features.indexOf(feature)) : [...this.points(this.target, T, targetIndex).filter(Number.isFinite), ...this.points(this.forecast, T, targetIndex)];
      return Math.max(...values) - Math.min(...values);
    }
  };

  // src/explorer/path.ts
  var ROW_GAP = 0.07;
  function litMarkers(view, count) {
    const { ink, soft } = theme();
    const { map, weights } = view;
    if (!map || !weights.length) return { size: 9, color: soft };
    const colours = colourScale(view.meaning, map, view.largest);
    const widest = Math.max(Math.abs(colours.zmin), colours.zmax);
    const strongest = Math.max(widest, ...weights.map(Math.abs).filter(Number.isFinite));
    const base = view.lengths[0] > 16 ? 4 : 8;
    const real = Array.from({ length: count }, (_, k) => Number.isFinite(weights[k]) ? weights[k] : 0);
    return {
      size: real.map((weight) => base + 20 * (Math.abs(weight) / strongest) ** 0.5),
      color: real,
      colorscale: colours.colorscale,
      cmin: colours.zmin,
      cmax: colours.zmax,
      line: { color: ink, width: 1 }
    };
  }
  function forecastMarkers(view, walked) {
    if (view.kind === "decoder_self") return litMarkers(view, walked);
    const { warn } = theme();
    const isChosen2 = (k) => k === view.step && view.kind !== "encoder_self";
    return { symbol: "diamond-open", size: Array.from({ length: walked }, (_, k) => isChosen2(k) ? 17 : 6), color: warn, line: { color: warn, width: 2.5 } };
  }
  function featureRows({ examples }) {
    return examples.plane ? [""] : [.../* @__PURE__ */ new Set([...examples.target_features, ...examples.features])];
  }
  function valueNames(view, rows) {
    const { plane, target_features: targets } = view.examples;
    const spreads = new Map((plane ? targets : rows).map((name) => [name, view.spread(name)]));
    const value = (name, number) => `${formatValue(number, spreads.get(name))}${escapeMarkup(view.unitOf(name))}`;
    return (feature, x, y) => plane ? targets.map((name, f) => value(name, f ? y : Number(x))).join(", ") : `${escapeMarkup(feature)} ${value(feature, y)}`;
  }
  function rowTraces(view, feature, axis, nameValue) {
    const { soft, warn, accent } = theme();
    const { examples: { plane, features, target_features: targets }, lengths: [S, T] } = view;
    const walked = view.kind === "encoder_self" ? T : view.step + 1;
    const [sourcePlaces, targetPlaces] = view.places;
    const across = (array, places, count) => plane ? view.points(array, count, 0) : places.slice(0, count);
    const trace = (name, names, xs, ys, extra) => ({
      x: xs,
      y: ys,
      text: names.map((point, k) => `${point}<br>${nameValue(feature, xs[k], ys[k])}`),
      yaxis: axis,
      mode: "lines+markers",
      name,
      legendgroup: name,
      hovertemplate: "%{text}<extra></extra>",
      ...extra
    });
    const traces = [];
    const given = plane ? 1 : features.indexOf(feature);
    const targetIndex = plane ? 1 : targets.indexOf(feature);
    if (given >= 0) {
      traces.push(trace(
        "source",
        pointNames(S),
        across(view.source, sourcePlaces, S),
        view.points(view.source, S, given),
        { line: { color: soft, width: 1.5 }, marker: view.kind === "decoder_self" ? { size: 7, color: soft } : litMarkers(view, S), meta: "source" }
      ));
    }
    if (targetIndex >= 0) {
      traces.push(trace(
        "truth",
        pointNames(T, S + 1),
        across(view.target, targetPlaces, T),
        view.points(view.target, T, targetIndex),
        { line: { color: accent, dash: "dot", width: 1.5 }, marker: { symbol: "x-thin-open", size: 9, color: accent }, meta: "target" }
      ));
      traces.push(trace(
        "forecast",
        pointNames(walked, S + 1),
        across(view.forecast, targetPlaces, walked),
        view.points(view.forecast, walked, targetIndex),
        { line: { color: warn, width: 1.5 }, marker: forecastMarkers(view, walked), meta: "target" }
      ));
    }
    return traces;
  }
  function rowAxes(view, rows) {
    const { examples } = view;
    if (examples.plane) return { yaxis: { title: { text: escapeMarkup(view.nameOf(examples.features[1])) }, scaleanchor: "x" } };
    const high = (1 - ROW_GAP * (rows.length - 1)) / rows.length;
    return Object.fromEntries(rows.map((feature, row) => {
      const top = 1 - row * (high + ROW_GAP);
      const name = view.nameOf(feature);
      const title = { text: escapeMarkup(shorten(name, name === feature ? 18 : 28)), font: { size: 12 } };
      return [row ? `yaxis${row + 1}` : "yaxis", { title, domain: [Math.max(0, top - high), top], nticks: rows.length > 2 ? 5 : 0 }];
    }));
  }
  function drawPath(view) {
    const { examples } = view;
    const every = featureRows(view);
    const rows = every.slice(0, MAX_ROWS);
    const nameValue = valueNames(view, rows);
    const shown = /* @__PURE__ */ new Set();
    const traces = rows.flatMap((feature, row) => rowTraces(view, feature, row ? `y${row + 1}` : "y", nameValue)).map((trace) => {
      const showlegend = !shown.has(trace.name);
      shown.add(trace.name);
      return { ...trace, showlegend };
    });
    const more = every.length - rows.length;
    const word = examples.times ? "time" : "step";
    const overSteps = more ? `${word} (${more} more features are not drawn)` : word;
    const below = examples.plane ? view.nameOf(examples.features[0]) : overSteps;
    draw("path", traces, {
      ...rowAxes(view, rows),
      xaxis: { title: { text: escapeMarkup(below) }, anchor: rows.length > 1 ? `y${rows.length}` : "y" },
      legend: { orientation: "h", yanchor: "bottom", y: 1.02 },
      hovermode: "closest",
      uirevision: String(view.example)
    });
  }

  // src/explorer/sentence.ts
  var MAX_ATTENDED = 5;
  function pointOfStep(view) {
    const [S] = view.lengths;
    return view.kind === "encoder_self" ? `point ${view.step + 1}` : `point ${S + view.step + 1}`;
  }
  function describeAttended(view) {
    const first = view.kind === "decoder_self" ? view.lengths[0] : 0;
    const digits = Math.min(3, view.map.decimals);
    const order = view.weights.map((weight, k) => [weight, k]).filter(([weight]) => Number.isFinite(weight)).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED);
    return order.map(([weight, k]) => `point ${first + k + 1} with ${withMinus(weight.toFixed(digits))}`).join(", ");
  }
  function describeForecast(view) {
    const names = view.examples.target_features;
    const each = names.slice(0, MAX_ROWS).map((feature, f) => {
      const [value, truth] = [view.forecast, view.target].map((array) => array.at(view.example, view.step, f));
      const truthText = Number.isFinite(truth) ? `truth ${formatValue(truth, view.spread(feature))}` : "not observed";
      return `${feature} ${formatValue(value, view.spread(feature))}${view.unitOf(feature)} (${truthText})`;
    });
    const more = names.length - each.length;
    return `${each.join(", ")}${more ? `, and ${more} more` : ""}`;
  }
  function describeStep(view, unit) {
    const step = `Step ${view.step + 1} (${pointOfStep(view)})`;
    let text2 = `${step}.`;
    if (view.map) {
      const attended3 = describeAttended(view);
      text2 = `${step} attends to ${view.kind === "decoder_self" && attended3 ? "the steps of " : ""}${attended3 || "nothing"}.`;
    }
    if (view.kind !== "encoder_self") text2 += ` Forecast: ${describeForecast(view)}.`;
    return `${text2} The mean squared error of the sequence${unit} is ${formatNumber(view.examples.losses[view.example])}.`;
  }

  // src/explorer/explorer.ts
  var Explorer = class {
    constructor(view, unit) {
      this.view = view;
      this.unit = unit;
    }
    view;
    unit;
    setStep(step) {
      const { view } = this;
      const [rows] = view.size;
      view.step = Math.max(0, Math.min(rows - 1, step));
      inputById("step").max = String(rows - 1);
      inputById("step").value = String(view.step);
      drawPath(view);
      markStep(view);
      byId("step-text").textContent = describeStep(view, this.unit);
      const name = `Step ${view.step + 1} of ${rows}, ${pointOfStep(view)}`;
      byId("step-name").textContent = name;
      byId("step").setAttribute("aria-valuetext", name);
    }
    /** Draw everything after a choice other than that of the step. */
    show() {
      const { view } = this;
      const [, layers, heads] = view.map?.shape ?? [0, 0, 0];
      view.layer = Math.max(0, Math.min(view.layer, layers - 1));
      view.head = Math.max(0, Math.min(view.head, heads - 1));
      fill(selectById("layer"), view.map ? indexNames(layers) : ["none"], view.layer);
      fill(selectById("head"), view.map ? indexNames(heads) : ["none"], view.head);
      selectById("example").value = String(view.example);
      markWorst(view.example);
      view.step = Math.min(view.step, view.size[0] - 1);
      drawMap(view);
      this.setStep(view.step);
    }
    choose(example) {
      const count = this.view.examples.ids.length;
      this.view.example = (example + count) % count;
      this.view.step = 0;
      this.show();
    }
    /** Prepare the controls and follow them. */
    addControls() {
      const { view } = this;
      const { examples, kinds: kinds2, meaning } = view;
      fill(selectById("example"), sequenceNames(examples.ids, examples.labels));
      fill(selectById("kind"), kinds2.length ? kinds2.map((kind) => KIND_NAMES[kind]) : ["no attention"]);
      const colours = selectById("colours");
      colours.value = Math.max(...examples.source_lengths) > MAX_UNIT_SCALE_COLUMNS ? "largest" : "1";
      view.endAtLargest = colours.value === "largest";
      colours.disabled = meaning === "strength" || !kinds2.length;
      colours.parentElement.hidden = colours.disabled;
      const onChange2 = (id, change) => {
        byId(id).addEventListener("change", () => {
          change();
          this.show();
        });
      };
      onChange2("colours", () => {
        view.endAtLargest = colours.value === "largest";
      });
      onChange2("kind", () => {
        view.kind = kinds2[numberOf("kind")];
      });
      onChange2("layer", () => {
        view.layer = numberOf("layer");
      });
      onChange2("head", () => {
        view.head = numberOf("head");
      });
      byId("example").addEventListener("change", () => {
        this.choose(numberOf("example"));
      });
      byId("before").addEventListener("click", () => {
        this.choose(view.example - 1);
      });
      byId("after").addEventListener("click", () => {
        this.choose(view.example + 1);
      });
      byId("step").addEventListener("input", () => {
        this.setStep(numberOf("step"));
      });
    }
    /** Follow the pointer over heatmap and path, which are drawn. */
    addHover() {
      const { view } = this;
      const setStep = (step) => {
        if (step !== view.step) this.setStep(step);
      };
      if (view.map) plotById("map").on("plotly_hover", (event) => {
        setStep(event.points[0].pointIndex[0]);
      });
      plotById("path").on("plotly_hover", (event) => {
        const [point] = event.points;
        if (point.data.meta === (view.kind === "encoder_self" ? "source" : "target")) setStep(point.pointNumber);
      });
    }
    /** Show a target step; encoder self-attention has none. */
    setTargetStep(step) {
      if (this.view.kind !== "encoder_self") this.setStep(step);
    }
  };
  async function showExplorer(content) {
    const explorer = new Explorer(await View.of(content), content.unit_of_one);
    explorer.addControls();
    showErrors(content, {
      section: "explorer",
      chooseExample: (example) => {
        explorer.choose(example);
      },
      chooseStep: (step) => {
        explorer.setTargetStep(step);
      }
    });
    explorer.show();
    explorer.addHover();
    onThemeChange(() => {
      explorer.show();
    });
  }

  // src/history.ts
  function largestWeight(weights, rows, columns, indices) {
    let most = 1e-6;
    for (let frame = 0; frame < weights.shape[0]; frame += 1) {
      for (const weight of matrix(weights, rows, columns, frame, ...indices).flat()) most = Math.max(most, weight ?? 0);
    }
    return most;
  }
  function drawFrame(history2, weights, largest2) {
    const [k, layer, head, frame] = ["history-example", "history-layer", "history-head", "history-frame"].map(numberOf);
    const [S, T] = [history2.source_lengths[k], history2.target_lengths[k]];
    const z = matrix(weights, T, S, frame, k, layer, head);
    const known = history2.alignment ? history2.alignment[k].slice(0, T) : [];
    const epoch = history2.epochs[frame];
    const name = epoch ? `After epoch ${epoch}` : "Before training";
    byId("history-name").textContent = name;
    byId("history-frame").setAttribute("aria-valuetext", name);
    const title = history2.meaning === "strength" ? "read strength" : "attention weight";
    const down = pointNames(T, S + 1);
    draw("history-map", [heatmap(z, pointNames(S), down, colourScale(history2.meaning, weights, largest2), title, weights.decimals)], {
      xaxis: { title: { text: "attended source point" } },
      yaxis: { autorange: "reversed", title: { text: "forecast point" } },
      shapes: outlines(known, ALIGNMENT_COLOUR)
    });
  }
  function addPlayButton(frames, show) {
    const slider = inputById("history-frame");
    let playing;
    const pause = () => {
      clearInterval(playing);
      playing = void 0;
      byId("history-play").textContent = "Play";
    };
    byId("history-play").addEventListener("click", () => {
      if (playing !== void 0) {
        pause();
        return;
      }
      if (Number(slider.value) === frames - 1) slider.value = "0";
      byId("history-play").textContent = "Pause";
      playing = setInterval(() => {
        const next = Number(slider.value) + 1;
        if (next >= frames) {
          pause();
          return;
        }
        slider.value = String(next);
        show();
      }, Math.max(60, Math.min(500, 6e3 / frames)));
    });
  }
  async function showHistory(history2) {
    const weights = await unpack(history2.weights);
    const [frames, , layers, heads] = weights.shape;
    fill(selectById("history-example"), sequenceNames(history2.ids, history2.labels));
    fill(selectById("history-layer"), indexNames(layers));
    fill(selectById("history-head"), indexNames(heads));
    inputById("history-frame").max = String(frames - 1);
    const isLong = Math.max(...history2.source_lengths) > MAX_UNIT_SCALE_COLUMNS;
    let most = 1;
    const show = () => {
      drawFrame(history2, weights, most);
    };
    const choose = () => {
      const [k, layer, head] = ["history-example", "history-layer", "history-head"].map(numberOf);
      if (isLong) most = largestWeight(weights, history2.target_lengths[k], history2.source_lengths[k], [k, layer, head]);
      show();
    };
    for (const id of ["history-example", "history-layer", "history-head"]) byId(id).addEventListener("change", choose);
    byId("history-frame").addEventListener("input", show);
    addPlayButton(frames, show);
    onThemeChange(show);
    choose();
  }

  // src/live/force.ts
  var isEmpty = (array) => Array.isArray(array) ? array.every(isEmpty) : array === null;
  function depth(array) {
    if (!Array.isArray(array)) return 0;
    return 1 + Math.max(0, ...array.filter((entry2) => entry2 !== null).map(depth));
  }
  var isIndex = (value, count) => typeof value === "number" && Number.isInteger(value) && value >= 0 && value < count;
  function checkPlace({ step, layer, head }, { steps, layers, heads }) {
    if (!isIndex(step - 1, steps)) throw new Error(`force, step ${step}: the forecast has ${steps} steps.`);
    if (layer !== void 0 && !isIndex(layer, layers)) throw new Error(`force, step ${step}, layer ${layer}: the model has ${layers}, counted from 0.`);
    if (head !== void 0 && !isIndex(head, heads)) throw new Error(`force, step ${step}, head ${head}: the model has ${heads}, counted from 0.`);
  }
  function checkRow(row, source, place3) {
    if (row.length !== source) throw new Error(`${place3}: has ${row.length} weights; the source has ${source} points.`);
    return row.map((weight) => {
      if (typeof weight !== "number" || !Number.isFinite(weight)) throw new Error(`${place3}: every weight must be a number.`);
      return weight;
    });
  }
  function* rowsOfNested(force, shape) {
    if (isEmpty(force)) return;
    const levels = depth(force);
    let nested = force;
    if (levels === 2) {
      if (shape.layers !== 1 || shape.heads !== 1) throw new Error(`force: the model has ${shape.layers} layers and ${shape.heads} heads, so it must be [layer][head][step][source].`);
      nested = [[force]];
    } else if (levels !== 4) throw new Error("force: must be [layer][head][step][source], or [step][source] for one layer and head.");
    for (const [layer, heads] of nested.entries()) {
      for (const [head, steps] of (heads ?? []).entries()) {
        for (const [step, weights] of (steps ?? []).entries()) {
          if (weights === null || weights.every((weight) => weight === null)) continue;
          yield { step: step + 1, layer, head, weights };
        }
      }
    }
  }
  var isRows = (force) => typeof force === "object" && force !== null && "rows" in force;
  function packForce(force, shape) {
    const { steps, layers, heads, source } = shape;
    const packed = new Float32Array(steps * layers * heads * source).fill(NaN);
    if (force === null || force === void 0) return packed;
    for (const row of isRows(force) ? force.rows : rowsOfNested(force, shape)) {
      const { step, layer, head } = row;
      checkPlace(row, shape);
      const weights = checkRow(row.weights, source, `force, step ${step}`);
      for (let l = layer ?? 0; l <= (layer ?? layers - 1); l += 1) {
        for (let h = head ?? 0; h <= (head ?? heads - 1); h += 1) {
          const first = (((step - 1) * layers + l) * heads + h) * source;
          if (!Number.isNaN(packed[first])) throw new Error(`force, step ${step}, layer ${l}, head ${h}: has two rows.`);
          packed.set(weights, first);
        }
      }
    }
    return packed;
  }

  // src/live/runtime.ts
  var RuntimeError = class extends Error {
    name = "RuntimeError";
  };
  var SCRIPT_ID = "ort-script";
  var WASM_ID = "ort-wasm";
  var FATAL = 4;
  var runtime;
  var hasRuntime = () => document.getElementById(SCRIPT_ID) !== null;
  async function decodeGzip(text2) {
    return new Uint8Array(await decompress(decodeBase64(text2.trim()), "gzip"));
  }
  async function embedded(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no element #${id}`);
    const bytes = await decodeGzip(element.textContent);
    element.remove();
    return bytes;
  }
  async function load() {
    const [script, wasm] = await Promise.all([embedded(SCRIPT_ID), embedded(WASM_ID)]);
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    try {
      const ort = await import(address);
      ort.env.wasm.numThreads = 1;
      ort.env.wasm.wasmBinary = wasm;
      ort.env.logLevel = "fatal";
      return ort;
    } finally {
      URL.revokeObjectURL(address);
    }
  }
  function toNumbers({ type, data, dims }) {
    return data instanceof BigInt64Array ? { type: "float64", data: Float64Array.from(data, Number), dims } : { type, data, dims };
  }
  function loaded() {
    runtime ??= load().catch((error2) => {
      throw new RuntimeError(`The model cannot run in this browser: ONNX Runtime did not load (${messageOf(error2)}).`);
    });
    return runtime;
  }
  async function createSession(graphBytes) {
    const ort = await loaded();
    let session;
    try {
      session = await ort.InferenceSession.create(graphBytes, { executionProviders: ["wasm"], graphOptimizationLevel: "disabled", logSeverityLevel: FATAL });
    } catch (error2) {
      throw new RuntimeError(`The model in this page is damaged: ONNX Runtime cannot read its graph (${messageOf(error2)}).`);
    }
    let last = Promise.resolve();
    const runOnce = async (inputs, outputs) => {
      const feeds = {};
      for (const [name, { type, data, dims }] of Object.entries(inputs)) feeds[name] = new ort.Tensor(type, data, dims);
      const found = await session.run(feeds, outputs);
      return Object.fromEntries(Object.entries(found).map(([name, { type, data, dims }]) => [name, toNumbers({ type, data, dims })]));
    };
    return {
      inputNames: session.inputNames,
      outputNames: session.outputNames,
      run: (inputs, outputs = session.outputNames) => {
        const run = last.then(() => runOnce(inputs, outputs));
        last = run.catch(() => void 0);
        return run;
      },
      release: () => session.release()
    };
  }

  // src/live/weights.ts
  var uniformRow = (count) => new Array(count).fill(1 / count);
  var oneHotRow = (count, index) => Array.from({ length: count }, (_, k) => k === index ? 1 : 0);
  function setWeight(row, index, weight) {
    const chosen = Math.min(1, Math.max(0, weight));
    const others = row.reduce((sum, each, k) => k === index ? sum : sum + Math.max(0, each), 0);
    return row.map((each, k) => {
      if (k === index) return row.length === 1 ? 1 : chosen;
      return others > 0 ? Math.max(0, each) / others * (1 - chosen) : (1 - chosen) / (row.length - 1);
    });
  }
  function shuffleRow(row, random = Math.random) {
    const shuffled = [...row];
    for (let k = shuffled.length - 1; k > 0; k -= 1) {
      const other = Math.floor(random() * (k + 1));
      [shuffled[k], shuffled[other]] = [shuffled[other], shuffled[k]];
    }
    return shuffled;
  }
  var ForcedRows = class _ForcedRows {
    rows = /* @__PURE__ */ new Map();
    static key = (step, layer, head) => `${step}/${layer}/${head}`;
    get(step, layer, head) {
      return this.rows.get(_ForcedRows.key(step, layer, head))?.weights;
    }
    set(step, layer, head, weights) {
      this.rows.set(_ForcedRows.key(step, layer, head), { step, layer, head, weights });
    }
    delete(step, layer, head) {
      this.rows.delete(_ForcedRows.key(step, layer, head));
    }
    /** Return a copy. */
    copy() {
      const copy2 = new _ForcedRows();
      for (const { step, layer, head, weights } of this.rows.values()) copy2.set(step, layer, head, weights);
      return copy2;
    }
    clear() {
      this.rows.clear();
    }
    get size() {
      return this.rows.size;
    }
    get list() {
      return [...this.rows.values()].sort((a, b) => a.step - b.step || a.layer - b.layer || a.head - b.head);
    }
  };

  // src/live/state.ts
  var isSame = (one, other) => one.model === other.model && one.run === other.run;
  var distinct = (subjects) => subjects.filter((each, k) => subjects.findIndex((other) => isSame(each, other)) === k);
  function withFirst(subjects, first) {
    const [before, ...others] = subjects;
    return distinct([first, ...others.map((each) => isSame(each, first) ? before : each)]);
  }
  function copyState(state) {
    const { force, ...others } = state;
    return { ...structuredClone(others), force: force.copy() };
  }
  var FRAGMENT_PREFIX = "#state=";
  var MAX_INDEX = 1e6;
  var MAX_POINTS = 5e3;
  var MAX_VALUE = 1e15;
  function toFragment(state, page) {
    const shared = {
      p: page,
      e: state.example,
      m: state.subjects.map(({ model, run, epoch }) => [model, run, epoch]),
      k: state.kind,
      v: [state.layer, state.head, state.step, state.point]
    };
    if (state.isChanged || state.example === null) shared.s = state.source;
    if (state.isRelative) shared.r = 1;
    if (state.force.size) shared.f = state.force.list;
    return FRAGMENT_PREFIX + encodeURIComponent(JSON.stringify(shared));
  }
  var isRow = (row) => Array.isArray(row) && row.every((value) => typeof value === "number" && Math.abs(value) <= MAX_VALUE);
  function isSource(source, { features, fixed, longest }) {
    if (!Array.isArray(source) || source.length < 1 || source.length > (longest ?? MAX_POINTS)) return false;
    return (fixed === null || source.length === fixed) && source.every((row) => isRow(row) && row.length === features);
  }
  var isKind = (kind) => typeof kind === "string" && ["cross", "encoder_self", "decoder_self"].includes(kind);
  function isForced({ step, layer, head, weights }, { steps, layers, heads }, points2) {
    return isRow(weights) && weights.length === points2 && isIndex(step - 1, steps) && isIndex(layer, layers) && isIndex(head, heads);
  }
  function readSubjects(m, { runs }) {
    if (!Array.isArray(m) || m.length < 1 || m.length > 4 || !m.every(isRow)) return null;
    const subjects = distinct(m.map(([model, run, epoch]) => ({ model, run, epoch })));
    return subjects.every(({ model, run, epoch }) => isIndex(model, runs.length) && isIndex(run, runs[model].length) && runs[model][run].includes(epoch)) ? subjects : null;
  }
  var isView = (v) => isRow(v) && v.length === 4 && v.every((value) => isIndex(value, MAX_INDEX));
  function check({ p, e, s, f = [], m, k, v, r }, limits) {
    if (p !== limits.page || s !== void 0 && !isSource(s, limits)) return null;
    if (e === null ? s === void 0 : !isIndex(e, limits.examples.length)) return null;
    const points2 = s ? s.length : limits.examples[e];
    const subjects = readSubjects(m, limits);
    if (!subjects || !isKind(k) || !isView(v) || !f.every((row) => isForced(row, limits, points2))) return null;
    const force = new ForcedRows();
    for (const row of f) force.set(row.step, row.layer, row.head, row.weights);
    const [layer, head, step, point] = v;
    return { example: e ?? null, source: s ?? null, subjects, force, kind: k, layer, head, step, point, isRelative: r === 1 };
  }
  function fromFragment(fragment, limits) {
    if (!fragment.startsWith(FRAGMENT_PREFIX)) return null;
    try {
      return check(JSON.parse(decodeURIComponent(fragment.slice(FRAGMENT_PREFIX.length))), limits);
    } catch {
      return null;
    }
  }
  var SAMPLE = 4096;
  function pageKey(models) {
    const parts = models.flatMap(({ sha256, runs }) => [sha256, ...runs.flatMap(({ name, seed, best_epoch: best, parameters: { data } }) => [name, seed, best, data.slice(0, SAMPLE), data.slice(-SAMPLE)])]);
    let hash = 2166136261;
    for (const character of parts.join("\n")) hash = Math.imul(hash ^ character.codePointAt(0), 16777619) >>> 0;
    return hash.toString(36);
  }

  // src/live/model.ts
  var tensor = (type, data, dims) => ({ type, data, dims });
  var MAP_NAMES = { weights: "cross", encoder_self: "encoder_self", decoder_self: "decoder_self" };
  var TRACE = "trace/";
  var FORECAST = "forecast";
  function chooseOutputs(names, outputs) {
    if (outputs === "forecast") return [FORECAST];
    return names.filter((name) => outputs !== "weights" || !name.startsWith(TRACE));
  }
  var isFinite = (numbers) => Array.isArray(numbers) ? numbers.every(isFinite) : Number.isFinite(numbers);
  function checkAnswer({ forecast, maps }) {
    if (isFinite([forecast, ...Object.values(maps)])) return;
    throw new Error("The model gives no number for this source: its values are too far from those of the training.");
  }
  function checkValues(values) {
    for (const value of values) {
      if (typeof value !== "number" || !Number.isFinite(value)) throw new Error("Every value of the source must be a number.");
      if (Math.abs(value) > MAX_VALUE) throw new Error(`${value}: a value of the source must lie between \u2212${MAX_VALUE} and ${MAX_VALUE}.`);
    }
  }
  function nest(data, dims, offset = 0) {
    if (dims.length === 0) throw new Error("A single number has no nested form.");
    const [count, ...rest] = dims;
    if (rest.length === 0) return Array.from({ length: count }, (_, k) => data[offset + k]);
    const size = rest.reduce((a, b) => a * b, 1);
    return Array.from({ length: count }, (_, k) => nest(data, rest, offset + k * size));
  }
  var canForce = ({ layers, config }) => layers > 0 && config.kind !== "fast_weights";
  var meaningOf = ({ config }) => config.kind === "fast_weights" ? "strength" : "distribution";
  function readAttended(results) {
    const found = { weights: [], maps: {}, trace: {} };
    for (const [name, { data, dims }] of Object.entries(results)) {
      const nested = () => nest(data, dims.slice(1));
      if (name.startsWith(TRACE)) found.trace[name.slice(TRACE.length)] = nested();
      else if (name in MAP_NAMES) found.maps[MAP_NAMES[name]] = nested();
    }
    found.weights = found.maps.cross ?? [];
    return found;
  }
  var GraphModel = class {
    constructor(content, session) {
      this.content = content;
      this.session = session;
    }
    content;
    session;
    frames = /* @__PURE__ */ new Map();
    /** Unpack the parameters. */
    async unpackRuns() {
      for (const run of this.content.runs) this.frames.set(run, await unpack(run.parameters));
    }
    /** Return a run by its index or name.
     *
     * @throws Error - if the model has no such run.
     */
    findRun(run = 0) {
      const found = typeof run === "number" ? this.content.runs[run] : this.content.runs.find(({ name }) => name === run);
      if (!found) throw new Error(`run ${run}: this model has ${this.content.runs.map(({ name }) => name).join(", ")}.`);
      return found;
    }
    parameters(run, epoch = run.best_epoch) {
      const frame = run.epochs.indexOf(epoch);
      if (frame < 0) throw new Error(`epoch ${epoch}: the page has the parameters of epochs ${run.epochs.join(", ")}.`);
      const frames = this.frames.get(run);
      const [, count] = frames.shape;
      return frames.row(frame, count);
    }
    /** Return the inputs of the graph that do not depend on what a step is. */
    feeds(length, steps, count, { force, epoch, run }) {
      const { layers, heads } = this.content;
      const parameters = this.parameters(this.findRun(run), epoch ?? void 0);
      const feeds = {
        source_lengths: tensor("int64", new BigInt64Array(count).fill(BigInt(length)), [count]),
        parameters: tensor("float32", parameters, [parameters.length]),
        steps: tensor("int64", BigInt64Array.from([BigInt(steps)]), [])
      };
      if (canForce(this.content)) {
        const packed = repeatSteps(packForce(force, { steps, layers, heads, source: length }), steps, count);
        feeds.force = tensor("float32", packed, [steps, count, layers, heads, length]);
      } else if (force !== null && force !== void 0) {
        throw new Error(layers > 0 ? "Fast weights have signed read strengths, not a distribution over the source, so no weights can be forced." : "This model has no attention, so no weights can be forced.");
      }
      return feeds;
    }
    /** Return a parameter of a run at an epoch, as nested arrays; undefined if the model has none of that name. */
    parameter(name, run, epoch) {
      let start = 0;
      for (const [each, shape] of this.content.layout) {
        const size = shape.reduce((a, b) => a * b, 1);
        if (each === name) return nest(this.parameters(run, epoch), shape, start);
        start += size;
      }
      return void 0;
    }
  };
  function repeatSteps(array, steps, count) {
    if (count === 1) return array;
    const size = array.length / steps;
    const repeated = new Float32Array(array.length * count);
    for (let t = 0; t < steps; t += 1) {
      for (let n = 0; n < count; n += 1) repeated.set(array.subarray(t * size, (t + 1) * size), (t * count + n) * size);
    }
    return repeated;
  }
  var LiveModel = class _LiveModel extends GraphModel {
    /** Load a model.
     *
     * @throws Error - if the graph is damaged.
     */
    static async load(content) {
      const model = new _LiveModel(content, await createSession(await decodeGzip(content.graph)));
      await model.unpackRuns();
      return model;
    }
    /** Check that a source has the form that the model accepts.
     *
     * @throws Error - if it has not.
     */
    checkSource(source) {
      const { features, fixed_source: fixed, max_length: longest } = this.content;
      if (!source.length) throw new Error("The source has no points.");
      if (source.some((point) => point.length !== features.length)) throw new Error(`Every source point must have ${features.length} values: ${features.join(", ")}.`);
      checkValues(source.flat());
      if (fixed !== null && source.length !== fixed) throw new Error(`The linear skip of this model needs sources of ${fixed} points; this one has ${source.length}.`);
      if (longest !== null && source.length > longest) throw new Error(`This Transformer has learned ${longest} positions; the source has ${source.length} points.`);
    }
    /** Forecast a source.
     *
     * @param source - (S, F), in units of the data.
     * @throws Error - if the source, the forced weights, the epoch or the run do not fit the model, or if the answer is not finite.
     */
    async run(source, options = {}) {
      this.checkSource(source);
      const { features, steps } = this.content;
      const [S, F] = [source.length, features.length];
      const feeds = { source: tensor("float64", Float64Array.from(source.flat()), [1, S, F]), ...this.feeds(S, steps, 1, options) };
      const results = await this.session.run(feeds, chooseOutputs(this.session.outputNames, options.outputs));
      const { data, dims } = results[FORECAST];
      const answer = { forecast: nest(data, dims.slice(1)), ...readAttended(results) };
      checkAnswer(answer);
      return answer;
    }
  };

  // src/live/loss.ts
  function meanSquaredError(forecast, truth, scale) {
    let sum = 0;
    let count = 0;
    for (const [t, row] of (truth ?? []).entries()) {
      for (const [g, value] of row.entries()) {
        if (!Number.isFinite(value) || t >= forecast.length) continue;
        sum += ((forecast[t][g] - value) / scale[g]) ** 2;
        count += 1;
      }
    }
    return count ? sum / count : null;
  }
  function largestChange(one, other) {
    return Math.max(0, ...one.flatMap((row, t) => row.map((value, g) => Math.abs(value - other[t][g]))));
  }

  // src/live/matrix.ts
  function weightScale(rows, meaning, isRelative) {
    const largest2 = Math.max(1e-6, ...rows.map((row) => Math.max(...row.map(Math.abs))));
    if (meaning === "strength") return { low: -largest2, high: largest2, title: "read strength", colour: (weight) => weightColour(weight, largest2, true) };
    const high = isRelative ? largest2 : 1;
    const title = isRelative ? "weight, relative to the largest" : "weight";
    return { low: 0, high, title, colour: (weight) => weightColour(weight, high, false) };
  }

  // src/live/scene.ts
  function weightsOf(answer, kind, layer, head) {
    return answer.maps[kind]?.[layer]?.[head] ?? [];
  }
  function pointNames2({ kind, source }) {
    const ofSource = (k) => `source point ${k + 1}`;
    const ofForecast = (k) => `forecast point ${source.length + k + 1}`;
    return { row: kind === "encoder_self" ? ofSource : ofForecast, column: kind === "decoder_self" ? ofForecast : ofSource };
  }
  var isKnockedOut = (row) => row.length > 0 && row.every((weight) => weight === 0);
  var isForced2 = ({ state: { kind, force, layer, head }, canForce: canForce2 }, step) => canForce2 && kind === "cross" && force.get(step + 1, layer, head) !== void 0;
  function scaleOf({ state: { kind, layer, head, isRelative } }, { answer, meaning }) {
    return weightScale(weightsOf(answer, kind, layer, head), meaning, isRelative);
  }
  function matrixOf(scene, shown) {
    const { state, alignment, canForce: canForce2 } = scene;
    const { kind, source: { length: S } } = state;
    const rows = weightsOf(shown.answer, kind, state.layer, state.head);
    const isCross = kind === "cross";
    const isOfSource = kind === "encoder_self";
    const numbers = (count, first) => Array.from({ length: count }, (_, k) => String(first + k));
    return {
      rows,
      scale: scaleOf(scene, shown),
      names: pointNames2(state),
      isNumbered: true,
      rowLabels: numbers(rows.length, isOfSource ? 1 : S + 1),
      columnLabels: numbers(rows[0]?.length ?? 0, kind === "decoder_self" ? S + 1 : 1),
      down: isOfSource ? "source point" : "forecast point",
      across: kind === "decoder_self" ? "attended forecast point" : "attended source point",
      chosen: Math.min(state.step, rows.length - 1),
      canForce: canForce2 && isCross,
      isForced: (row) => isForced2(scene, row),
      links: isCross ? alignment.flatMap((column, row) => column < 0 ? [] : [{ row, column, isPossible: false }]) : []
    };
  }
  function hasOwnScales(shown) {
    return shown.some(({ scale }) => scale.some((each, g) => each !== shown[0].scale[g]));
  }
  function shareOfRange({ state: { source, truth }, features, targetFeatures }, one, other) {
    const shares = targetFeatures.map((name, g) => {
      const change = largestChange(one.map((row) => [row[g]]), other.map((row) => [row[g]]));
      const f = features.indexOf(name);
      const values = [...f < 0 ? [] : source.map((row) => row[f]), ...[...truth ?? [], ...one, ...other].map((row) => row[g])].filter(Number.isFinite);
      return change === 0 ? 0 : change / (Math.max(...values) - Math.min(...values));
    });
    return Math.max(0, ...shares);
  }

  // src/live/shared_controls.ts
  var NONE = "none";
  function runChoices(explorer) {
    return explorer.models.flatMap(({ content }, model) => content.runs.map(({ name, best_epoch: epoch }, run) => ({ name, subject: { model, run, epoch } })));
  }
  var choiceOf = (choices, { model, run }) => choices.findIndex(({ subject }) => subject.model === model && subject.run === run);
  var onClick = (id, act) => {
    byId(id).addEventListener("click", act);
  };
  var onChange = (id, act) => {
    byId(id).addEventListener("change", act);
  };
  function addSharedControls(explorer) {
    const { state } = explorer;
    const names = explorer.exampleNames;
    fill(selectById("live-example"), [...names, "your own"], state.example ?? names.length);
    onChange("live-example", () => {
      const example = numberOf("live-example");
      if (example < names.length) explorer.chooseExample(example);
      else explorer.chooseOwn();
    });
    onClick("live-before", () => {
      explorer.chooseExample((state.example ?? 0) - 1);
    });
    onClick("live-after", () => {
      explorer.chooseExample((state.example ?? -1) + 1);
    });
    onClick("live-reset", () => {
      explorer.resetSource();
    });
    onClick("live-undo", () => {
      explorer.undo();
    });
    onClick("live-redo", () => {
      explorer.redo();
    });
    onChange("live-kind", () => {
      explorer.change(() => {
        state.kind = kinds(explorer)[numberOf("live-kind")];
      });
    });
    onChange("live-layer", () => {
      explorer.change(() => {
        state.layer = numberOf("live-layer");
      });
    });
    onChange("live-head", () => {
      explorer.change(() => {
        state.head = numberOf("live-head");
      });
    });
    onChange("live-colours", () => {
      explorer.setRelative(selectById("live-colours").value === "largest");
    });
    byId("live-step").addEventListener("input", () => {
      explorer.chooseStep(numberOf("live-step"));
    });
    onClick("live-own", () => {
      explorer.freeRow();
    });
    onClick("live-own-all", () => {
      explorer.freeAll();
    });
    onClick("live-uniform", () => {
      explorer.forceUniform();
    });
    onClick("live-shuffle", () => {
      explorer.forceShuffled();
    });
    onClick("live-knock-head", () => {
      explorer.knockOut(false);
    });
    onClick("live-knock-layer", () => {
      explorer.knockOut(true);
    });
    addSubjectControls(explorer);
  }
  function addSubjectControls(explorer) {
    const { state } = explorer;
    const choices = runChoices(explorer);
    const names = choices.map(({ name }) => name);
    for (const id of ["live-run", "live-other"]) selectById(id).parentElement.hidden = choices.length < 2;
    fill(selectById("live-run"), names);
    fill(selectById("live-other"), [NONE, ...names]);
    showSubjects(explorer);
    onChange("live-run", () => {
      const chosen = { ...choices[numberOf("live-run")].subject };
      explorer.change(() => {
        state.subjects = withFirst(state.subjects, chosen);
      });
    });
    onChange("live-other", () => {
      const chosen = numberOf("live-other");
      explorer.change(() => {
        state.subjects = chosen ? distinct([state.subjects[0], { ...choices[chosen - 1].subject }]) : [state.subjects[0]];
      });
    });
    byId("live-epoch").addEventListener("input", () => {
      const { epochs } = epochsOf(explorer);
      explorer.change(() => {
        for (const subject of state.subjects) subject.epoch = nearest(explorer, subject, epochs[numberOf("live-epoch")]);
      });
    });
  }
  function showSubjects(explorer) {
    const choices = runChoices(explorer);
    const [first, second] = explorer.state.subjects;
    selectById("live-run").value = String(choiceOf(choices, first));
    const other = selectById("live-other");
    other.value = String(second ? choiceOf(choices, second) + 1 : 0);
    for (const [k, option] of [...other.options].entries()) option.disabled = k === choiceOf(choices, first) + 1;
  }
  function nearest(explorer, { model, run }, epoch) {
    const { epochs } = explorer.models[model].content.runs[run];
    return epochs.reduce((best, each) => Math.abs(each - epoch) < Math.abs(best - epoch) ? each : best);
  }
  function epochsOf(explorer) {
    const [{ model, run }] = explorer.state.subjects;
    const { epochs, best_epoch: best } = explorer.models[model].content.runs[run];
    return { epochs, best };
  }
  function kinds(explorer) {
    return Object.keys(explorer.scene?.shown[0].answer.maps ?? {});
  }
  var countedNames = (count) => Array.from({ length: count }, (_, k) => String(k + 1));
  function showSharedControls(explorer, names) {
    const { state, first, rowCount: rows } = explorer;
    const scene = explorer.scene;
    selectById("live-example").value = String(state.example ?? explorer.exampleNames.length);
    byId("live-reset").disabled = !state.isChanged;
    byId("live-undo").disabled = !explorer.canUndo;
    byId("live-redo").disabled = !explorer.canRedo;
    const all = kinds(explorer);
    if (!all.includes(state.kind) && all.length) [state.kind] = all;
    fill(selectById("live-kind"), all.length ? all.map((kind) => KIND_NAMES[kind]) : ["no attention"], Math.max(0, all.indexOf(state.kind)));
    fill(selectById("live-layer"), countedNames(first.layers), state.layer);
    fill(selectById("live-head"), countedNames(first.heads), state.head);
    for (const id of ["live-kind", "live-layer", "live-head"]) selectById(id).parentElement.hidden = selectById(id).options.length < 2;
    selectById("live-colours").value = state.isRelative ? "largest" : "1";
    selectById("live-colours").parentElement.hidden = all.length === 0 || scene.shown[0].meaning === "strength";
    inputById("live-step").max = String(rows - 1);
    inputById("live-step").value = String(state.step);
    const name = names.row(state.step);
    byId("live-step-name").textContent = `${capitalize(name)} (${state.step + 1} of ${rows})`;
    byId("live-step").setAttribute("aria-valuetext", `${name}, ${state.step + 1} of ${rows}`);
    showSubjects(explorer);
    showEpoch(explorer);
    const row = state.kind === "cross" ? state.force.get(state.step + 1, state.layer, state.head) : void 0;
    byId("live-weights-name").textContent = `Weights of ${name}${!row ? "" : isKnockedOut(row) ? ": knocked out, so all are 0" : ": forced by you"}`;
    byId("live-force").hidden = !scene.canForce || state.kind !== "cross";
    byId("live-knock-layer").hidden = first.layers < 2 && first.heads < 2;
    byId("live-own").disabled = row === void 0;
    byId("live-own-all").disabled = state.force.size === 0;
  }
  function describeEpochs(shown) {
    if (shown.every(({ epochs, recorded }) => epochs.length < 2 && recorded < 2)) return "";
    const [first, ...others] = shown;
    const lacking = shown.filter(({ epochs, recorded }) => epochs.length < recorded).map(({ name, epochs, recorded }) => `The page has the parameters of ${name} at ${epochs.length} of ${recorded} recorded epochs; all would be too large.`);
    const elsewhere = others.filter(({ epoch }) => epoch !== first.epoch).map(({ name, epoch, epochs, best_epoch: best }) => {
      const when = epoch === 0 ? "before training" : `after epoch ${epoch}`;
      return `${name} is shown ${when}${epoch === best ? ", which had its lowest validation loss" : ""}${epochs.length < 2 ? "; the page has no other epoch of it" : ""}.`;
    });
    return [...lacking, ...elsewhere].join(" ");
  }
  function showEpoch(explorer) {
    const { epochs, best } = epochsOf(explorer);
    const [{ epoch }] = explorer.state.subjects;
    byId("live-epochs").hidden = epochs.length < 2;
    inputById("live-epoch").max = String(epochs.length - 1);
    inputById("live-epoch").value = String(epochs.indexOf(epoch));
    const name = epoch === 0 ? "Before training" : `After epoch ${epoch}${epoch === best ? " (lowest validation loss)" : ""}`;
    byId("live-epoch-name").textContent = name;
    byId("live-epoch").setAttribute("aria-valuetext", name);
    const note = describeEpochs(explorer.state.subjects.map(({ model, run, epoch: each }) => ({ ...explorer.models[model].content.runs[run], epoch: each })));
    byId("live-epoch-note").textContent = note;
    byId("live-epoch-note").hidden = note === "";
  }

  // src/live/controls.ts
  var MAX_INPUTS = 8;
  function addControls(explorer) {
    addSharedControls(explorer);
    onClick("live-blank", () => {
      explorer.chooseBlank();
    });
    onClick("live-add", () => {
      explorer.addPoint();
    });
    onClick("live-remove", () => {
      explorer.removePoint();
    });
  }
  function showControls(explorer, scene) {
    showSharedControls(explorer, pointNames2(explorer.state));
    showPoint(explorer, scene);
  }
  function valueField(explorer, name, feature) {
    const label = textElement("label", `${name} `);
    const input = document.createElement("input");
    const fault = textElement("span", "");
    input.type = "number";
    input.step = "any";
    fault.className = "fault";
    fault.id = `live-fault-${feature}`;
    fault.setAttribute("role", "status");
    input.setAttribute("aria-describedby", fault.id);
    input.addEventListener("input", () => {
      const { source, point } = explorer.state;
      const problem = faultOf(input);
      showFault(input, problem && `${problem} The model still reads ${formatValue(source[point][feature], 1)}.`);
      if (!problem) explorer.movePoint(point, { [feature]: input.valueAsNumber });
    });
    label.append(input, fault);
    return label;
  }
  function faultOf(input) {
    if (input.value === "") return input.validity.badInput ? "This is no number." : "Type a number.";
    try {
      checkValues([input.valueAsNumber]);
      return "";
    } catch (error2) {
      return messageOf(error2);
    }
  }
  function showFault(input, text2) {
    input.nextElementSibling.textContent = text2;
    input.setAttribute("aria-invalid", String(text2 !== ""));
  }
  function showPoint(explorer, { features, state }) {
    const place3 = byId("live-values");
    byId("live-point-name").textContent = `Source point ${state.point + 1} of ${state.source.length}`;
    const shown = features.slice(0, MAX_INPUTS);
    if (place3.children.length !== shown.length) place3.replaceChildren(...shown.map((name, f) => valueField(explorer, name, f)));
    for (const [f, input] of [...place3.querySelectorAll("input")].entries()) {
      if (document.activeElement === input) continue;
      input.value = formatValue(state.source[state.point][f], 1).replace("\u2212", "-");
      showFault(input, "");
    }
    byId("live-add").disabled = !explorer.accepts(state.source.length + 1);
    byId("live-remove").disabled = !explorer.accepts(state.source.length - 1);
  }

  // src/live/announce.ts
  var REST = 700;
  function announcer(element, rest = REST) {
    let timer;
    return (text2) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (element.textContent !== text2) element.textContent = text2;
      }, rest);
    };
  }

  // src/live/bars.ts
  var HEIGHT = 140;
  var MARGIN = { left: 44, right: 6, top: 20, bottom: 22 };
  var STEP = 0.05;
  var WeightBars = class {
    constructor(place3, events) {
      this.place = place3;
      this.events = events;
      place3.replaceChildren(this.root);
    }
    place;
    events;
    root = svg("svg", { role: "group" });
    isDragging = false;
    /** The bar that Tab reaches. */
    member = 0;
    /** Draw a row of weights. Nothing can be dragged if `canForce` is false. */
    draw(weights, { scale, labels, isForced: isForced3, canForce: canForce2 }) {
      const width = Math.max(220, this.place.clientWidth);
      const { low: lowest, high: largest2 } = scale;
      const high = HEIGHT - MARGIN.top - MARGIN.bottom;
      const bar = (width - MARGIN.left - MARGIN.right) / weights.length;
      const toY = (weight) => MARGIN.top + (largest2 - weight) / (largest2 - lowest) * high;
      const { line, soft, warn, ink, ground } = theme();
      const focused = document.activeElement instanceof SVGElement ? document.activeElement.dataset.bar : void 0;
      this.root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.root.setAttribute("width", String(width));
      this.root.setAttribute("height", String(HEIGHT));
      this.root.setAttribute("aria-label", canForce2 ? `Weights of the step. Arrow keys change a weight; ${MEMBER_KEYS}.` : "Weights of the step");
      this.member = Math.min(this.member, weights.length - 1);
      const parts = (lowest < 0 ? [lowest, 0, largest2] : [0, largest2]).map((tick) => svg("g", { "font-size": 13, fill: soft }, svg("line", { x1: MARGIN.left, x2: width, y1: toY(tick), y2: toY(tick), stroke: line }), svg("text", { x: MARGIN.left - 5, y: toY(tick) + 4, "text-anchor": "end" }, withMinus(String(Number(tick.toPrecision(2)))))));
      const every = Math.ceil(Math.max(...labels.map((label) => textWidth(label.slice(0, 2), 13) + 3)) / bar);
      for (const [s, weight] of weights.entries()) {
        const x = MARGIN.left + s * bar;
        const [top, bottom] = [Math.min(toY(weight), toY(0)), Math.max(toY(weight), toY(0))];
        parts.push(svg("rect", { x: x + bar * 0.1, y: top, width: bar * 0.8, height: Math.max(1, bottom - top), fill: rgb(scale.colour(weight)), stroke: isForced3 ? warn : ink, "stroke-width": isForced3 ? 2 : 0.5 }));
        if (bar >= 9 && s % every === 0) parts.push(svg("text", { x: x + bar / 2, y: HEIGHT - 6, "text-anchor": "middle", "font-size": Math.min(13, bar + 1), fill: soft }, shorten(labels[s], Math.max(2, Math.floor(every * bar / 8)))));
        if (bar >= 34) parts.push(svg("text", { x: x + bar / 2, y: top - 3, "text-anchor": "middle", "font-size": 13, fill: soft, ...halo(ground) }, weight.toFixed(2).replace("-", "\u2212")));
        if (canForce2) parts.push(this.handle(s, labels[s], weight, x, bar, (y) => largest2 - (y - MARGIN.top) / high * (largest2 - lowest)));
      }
      this.root.replaceChildren(...parts);
      if (focused !== void 0 && !this.isDragging) this.root.querySelector(`[data-bar="${focused}"]`)?.focus();
    }
    handle(column, label, weight, x, width, toWeight) {
      const handle = svg("rect", {
        x,
        y: 0,
        width,
        height: HEIGHT - MARGIN.bottom,
        fill: "transparent",
        class: "bar-handle",
        "data-bar": column,
        tabindex: column === this.member ? 0 : -1,
        role: "slider",
        "aria-label": `weight of source step ${column + 1}${label === String(column + 1) ? "" : `, ${label}`}`,
        "aria-valuemin": 0,
        "aria-valuemax": 1,
        "aria-valuenow": weight.toFixed(3)
      });
      handle.style.cursor = "ns-resize";
      keepFromScrolling(handle);
      handle.addEventListener("focus", () => {
        this.root.querySelector(`[data-bar="${this.member}"]`)?.setAttribute("tabindex", "-1");
        handle.setAttribute("tabindex", "0");
        this.member = column;
      });
      handle.addEventListener("keydown", (event) => {
        const next = memberAfter(event.key, column, this.root.querySelectorAll("[data-bar]").length);
        if (next !== null) {
          event.preventDefault();
          this.root.querySelector(`[data-bar="${next}"]`)?.focus();
          return;
        }
        const change = { ArrowUp: STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowLeft: -STEP }[event.key];
        if (change === void 0) return;
        event.preventDefault();
        this.events.setWeight(column, weight + change);
      });
      handle.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.isDragging = true;
        const set = (at) => {
          const box = this.root.getBoundingClientRect();
          this.events.setWeight(column, toWeight((at.clientY - box.top) * (HEIGHT / box.height)));
        };
        const stop = () => {
          this.isDragging = false;
          window.removeEventListener("pointermove", set);
          window.removeEventListener("pointerup", stop);
          window.removeEventListener("pointercancel", stop);
        };
        set(event);
        window.addEventListener("pointermove", set);
        window.addEventListener("pointerup", stop);
        window.addEventListener("pointercancel", stop);
      });
      return handle;
    }
  };

  // src/live/explorer_base.ts
  var COLOURS = ["#009e73", "#811aff", "#8d503b"];
  var ONE_CHANGE = 600;
  var MAX_UNDO = 200;
  var Explorer2 = class {
    constructor(models) {
      this.models = models;
      this.key = pageKey(models.map(({ content }) => content));
      this.bars = new WeightBars(byId("live-bars"), { setWeight: (column, weight) => {
        this.forceRow((row) => setWeight(row, column, weight), this.drawnSteps);
      } });
      onThemeChange(() => {
        this.draw();
      });
      window.addEventListener("resize", () => {
        this.draw();
      });
      window.addEventListener("hashchange", () => {
        this.followFragment();
      });
      window.addEventListener("keydown", (event) => {
        this.followKey(event);
      });
    }
    models;
    scene = null;
    /** Say whether the intermediate results of the first model are shown, so that it must return them. */
    traceUsers = [];
    pointFollowers = [];
    key;
    maps = [];
    bars;
    /** Ends when the answer to the last change is shown. */
    settling = null;
    isOutdated = false;
    followers = [];
    speak = announcer(byId("live-spoken"));
    past = [];
    future = [];
    lastChange = -Infinity;
    /** Call a function after each answer. */
    onAnswer(follow) {
      this.followers.push(follow);
      if (this.scene) follow(this.scene);
    }
    /** Ask the first model for its intermediate results while a function returns true. */
    useTrace(isShown) {
      this.traceUsers.push(isShown);
    }
    get needsTrace() {
      return this.traceUsers.some((isShown) => isShown());
    }
    /** Call a function when the reader points at a source step, or no longer does (null). */
    onPoint(follow) {
      this.pointFollowers.push(follow);
    }
    /** Mark a source step in all pictures. */
    pointAt(column) {
      for (const map of this.maps) map.mark(column);
      for (const follow of this.pointFollowers) follow(column);
    }
    /** Whether the last change has been answered. */
    get isIdle() {
      return this.settling === null;
    }
    get first() {
      return this.models[this.state.subjects[0].model].content;
    }
    get canForce() {
      return canForce(this.first);
    }
    // --- changes -----------------------------------------------------------------------------------
    /** Change the state, and show what the models answer. */
    change(apply) {
      this.remember();
      apply(this.state);
      void this.update();
    }
    /** Keep the state for `undo`. A drag makes many changes, of which only the state before the first is kept. */
    remember() {
      const now = performance.now();
      if (now - this.lastChange > ONE_CHANGE) this.past.push(copyState(this.state));
      if (this.past.length > MAX_UNDO) this.past.shift();
      this.lastChange = now;
      this.future.length = 0;
    }
    get canUndo() {
      return this.past.length > 0;
    }
    get canRedo() {
      return this.future.length > 0;
    }
    undo() {
      this.goBack(this.past, this.future);
    }
    redo() {
      this.goBack(this.future, this.past);
    }
    goBack(from, to) {
      const found = from.pop();
      if (!found) return;
      to.push(copyState(this.state));
      Object.assign(this.state, found);
      this.lastChange = -Infinity;
      void this.update();
    }
    /** Undo with Ctrl+Z, and redo with Ctrl+Shift+Z or Ctrl+Y. A text field has an undo of its own. */
    followKey(event) {
      const isText2 = event.target instanceof HTMLTextAreaElement || event.target instanceof HTMLInputElement && ["text", "number"].includes(event.target.type);
      if (!(event.ctrlKey || event.metaKey) || isText2) return;
      const key2 = event.key.toLowerCase();
      if (key2 !== "z" && key2 !== "y") return;
      event.preventDefault();
      if (key2 === "y" || event.shiftKey) this.redo();
      else this.undo();
    }
    chooseStep(step) {
      this.state.step = step;
      if (this.scene) this.scene.state.step = step;
      this.draw();
    }
    setRelative(isRelative) {
      this.state.isRelative = isRelative;
      if (this.scene) this.scene.state.isRelative = isRelative;
      this.draw();
    }
    /** Change the row of weights of the chosen step, layer and head, when the model's own row is known.
     *
     * Nothing changes if the row has other source steps by then.
     *
     * @param steps - The number of source steps that the change is made for.
     */
    forceRow(change, steps = this.lengthOf(this.state)) {
      if (!this.canForce || this.state.kind !== "cross") return;
      const { step, layer, head } = this.state;
      const apply = () => {
        const { state, scene, settling } = this;
        const forced = state.force.get(step + 1, layer, head);
        if (!forced && settling) {
          void settling.then(apply);
          return;
        }
        const row = forced ?? (scene ? weightsOf(scene.shown[0].answer, "cross", layer, head)[step] : void 0);
        if (row?.length !== steps || this.lengthOf(state) !== steps) return;
        this.change(({ force }) => {
          force.set(step + 1, layer, head, change(row));
        });
      };
      apply();
    }
    /** Force the chosen step to attend to one source step only; if it does already, take that back. */
    forceCell(step, column) {
      this.state.step = step;
      const { force, layer, head } = this.state;
      if (force.get(step + 1, layer, head)?.[column] === 1) this.freeRow();
      else if (this.canForce && this.state.kind === "cross") this.forceRow((row) => oneHotRow(row.length, column), this.drawnSteps);
      else this.draw();
    }
    forceUniform() {
      this.forceRow((row) => uniformRow(row.length));
    }
    forceShuffled() {
      this.forceRow((row) => shuffleRow(row));
    }
    /** Give all steps equal weights, in all layers and heads. */
    forceUniformEverywhere() {
      const { heads, layers, steps } = this.first;
      if (!this.canForce) return;
      this.change((state) => {
        for (let layer = 0; layer < layers; layer += 1) {
          for (let head = 0; head < heads; head += 1) {
            for (let step = 1; step <= steps; step += 1) state.force.set(step, layer, head, uniformRow(this.lengthOf(state)));
          }
        }
      });
    }
    freeRow() {
      this.change(({ force, step, layer, head }) => {
        force.delete(step + 1, layer, head);
      });
    }
    freeAll() {
      this.change(({ force }) => {
        force.clear();
      });
    }
    /** Give the chosen head, or all heads of the chosen layer, no weight in any step. */
    knockOut(allHeads) {
      const { heads, steps } = this.first;
      this.change((state) => {
        const { force, layer, head } = state;
        for (let h = allHeads ? 0 : head; h <= (allHeads ? heads - 1 : head); h += 1) {
          for (let step = 1; step <= steps; step += 1) force.set(step, layer, h, new Array(this.lengthOf(state)).fill(0));
        }
      });
    }
    /** The number of source steps in the pictures, which may be those before the last change. */
    get drawnSteps() {
      return this.lengthOf((this.scene ?? this).state);
    }
    /** The shown models. */
    get shownContents() {
      return this.state.subjects.map(({ model }) => this.models[model].content);
    }
    /** Return whether all shown models accept a source of a length. */
    accepts(length, contents = this.shownContents) {
      return length > 0 && contents.every(({ fixed_source: fixed, max_length: longest }) => (fixed === null || length === fixed) && (longest === null || length <= longest));
    }
    followFragment() {
      const restored = this.restore();
      if (restored) this.change((state) => Object.assign(state, restored));
    }
    // --- the state at the beginning ----------------------------------------------------------------
    /** Return the models that are shown first. */
    firstSubjects(isSideBySide) {
      const subject = (model, run) => ({ model, run, epoch: this.models[model].content.runs[run].best_epoch });
      const all = this.models.flatMap(({ content }, model) => content.runs.map((_, run) => subject(model, run)));
      return isSideBySide ? all.slice(0, 4) : [subject(0, 0)];
    }
    /** What a link to this page may contain.
     *
     * @param lengths - the source length of each test sequence.
     */
    limitsOf(lengths) {
      const contents = this.models.map(({ content }) => content);
      const most = (count) => Math.max(...contents.map(count));
      const longest = contents.flatMap(({ max_length: each }) => each === null ? [] : [each]);
      return {
        page: this.key,
        examples: lengths,
        runs: contents.map(({ runs }) => runs.map(({ epochs }) => epochs)),
        fixed: contents.find(({ fixed_source: fixed }) => fixed !== null)?.fixed_source ?? null,
        longest: longest.length ? Math.min(...longest) : null,
        steps: most(({ steps }) => steps),
        layers: most(({ layers }) => layers),
        heads: most(({ heads }) => heads)
      };
    }
    /** Return the view at the beginning. */
    firstView(subjects, example) {
      return { example, isChanged: false, subjects, force: new ForcedRows(), kind: "cross", layer: 0, head: 0, step: 0, isRelative: false };
    }
    // --- answers -----------------------------------------------------------------------------------
    /** Ask the models. While one answers, later changes wait, and only the last is asked. */
    async update() {
      this.isOutdated = true;
      this.settling ??= this.settle();
      return this.settling;
    }
    async settle() {
      while (this.isOutdated) {
        this.isOutdated = false;
        try {
          this.scene = await this.ask();
          this.draw();
          byId("live-error").textContent = "";
        } catch (error2) {
          byId("live-error").textContent = messageOf(error2) + (this.scene ? " The pictures still show the last answer." : "");
        }
      }
      this.settling = null;
    }
    /** Return the name of a subject with its epoch, if that is not the best one. */
    nameOfSubject({ model, run, epoch }) {
      const { best_epoch: best, epochs } = this.models[model].content.runs[run];
      return this.nameOf(model, run) + (epochs.length > 1 && epoch !== best ? `, epoch ${epoch}` : "");
    }
    /** Return the name of a run. It says whether the model has attention, if the models of the page differ in that. */
    nameOf(model, run) {
      const { runs, layers } = this.models[model].content;
      const differ = this.models.some(({ content }) => content.layers === 0 !== (layers === 0));
      return differ ? `${runs[run].name} (${layers === 0 ? "without" : "with"} attention)` : runs[run].name;
    }
    /** The forced rows that exist in a model with other layers and heads. */
    rowsFor({ content: { layers, heads, steps } }, force = this.state.force) {
      return force.list.filter(({ layer, head, step }) => layer < layers && head < heads && step <= steps);
    }
    /** Bring the kind of attention, layer and head into the range of the first model. */
    fitView() {
      const { state, first } = this;
      if (first.config.kind !== "transformer") state.kind = "cross";
      state.layer = Math.min(state.layer, Math.max(0, first.layers - 1));
      state.head = Math.min(state.head, Math.max(0, first.heads - 1));
    }
    draw() {
      const { scene } = this;
      if (!scene) return;
      this.drawMaps(scene);
      this.drawOwn(scene);
      const text2 = this.describe(scene);
      byId("live-text").textContent = text2;
      this.speak(text2);
      for (const follow of this.followers) follow(scene);
    }
    drawMaps(scene) {
      const place3 = byId("live-map");
      while (this.maps.length < scene.shown.length) {
        const own = document.createElement("div");
        place3.append(own);
        const caption = document.createElement("p");
        const picture = document.createElement("div");
        own.append(caption, picture);
        this.maps.push(new HeatmapPlot(picture, { chooseStep: (step) => {
          this.chooseStep(step);
        }, chooseCell: (step, column) => {
          this.forceCell(step, column);
        }, pointAt: (column) => {
          this.pointAt(column);
        } }));
      }
      for (const [k, own] of [...place3.children].entries()) {
        own.hidden = k >= scene.shown.length;
        if (k >= scene.shown.length) continue;
        const { name } = scene.shown[k];
        const view2 = this.matrix(scene, k);
        own.firstElementChild.textContent = scene.shown.length === 1 ? "" : view2.rows.length ? name : `${name}: there are no such weights to show.`;
        this.maps[k].draw(view2);
      }
      const view = this.matrix(scene, 0);
      const row = view.rows[scene.state.step];
      byId("live-weights").hidden = row === void 0;
      if (row) this.bars.draw(row, { scale: view.scale, labels: view.columnLabels, isForced: isForced2(scene, scene.state.step), canForce: view.canForce });
    }
  };

  // src/live/path_plot.ts
  var MAX_ROWS2 = 4;
  var MAX_NUMBERED = 16;
  var HEIGHT2 = 420;
  var MARGIN2 = { left: 58, right: 14, top: 14, bottom: 40 };
  var ROW_GAP2 = 22;
  var CLICK_PIXELS = 3;
  var MARGIN_SHARE = 0.18;
  var HIT_RADIUS = 16;
  var TOUCH_RADIUS = 24;
  function extent(values) {
    const finite = values.filter(Number.isFinite);
    if (!finite.length) return [0, 1];
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const margin = (high - low || Math.abs(high) || 1) * MARGIN_SHARE;
    return [low - margin, high + margin];
  }
  var PathPlot = class {
    constructor(place3, events) {
      this.place = place3;
      this.events = events;
      this.root = svg("svg", { role: "group", "aria-label": `The sequence. Arrow keys move a source point; ${MEMBER_KEYS}.` });
      this.root.style.touchAction = "pan-y";
      place3.replaceChildren(this.root);
    }
    place;
    events;
    panels = [];
    width = 0;
    dragged = null;
    root;
    /** Draw the scene. Axes stay while a point is dragged. */
    draw(scene) {
      this.width = Math.max(260, this.place.clientWidth);
      if (this.dragged === null) this.panels = this.layOut(scene);
      const focused = document.activeElement instanceof SVGElement ? document.activeElement.dataset.member : void 0;
      this.root.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT2}`);
      this.root.setAttribute("width", String(this.width));
      this.root.setAttribute("height", String(HEIGHT2));
      this.root.replaceChildren(...this.panels.flatMap((panel, k) => [this.axes(panel, scene, k === this.panels.length - 1), this.lines(panel, scene), this.sourcePoints(panel, scene)]));
      if (focused !== void 0 && this.dragged === null) this.root.querySelector(`[data-member="${focused}"]`)?.focus();
    }
    layOut(scene) {
      const { features, targetFeatures, plane, axisNames } = scene;
      const inner = [MARGIN2.left, this.width - MARGIN2.right];
      if (plane) {
        const [x2, y] = equalScales(extent(valuesOf(scene, 0, 0)), extent(valuesOf(scene, 1, 1)), inner, [HEIGHT2 - MARGIN2.bottom, MARGIN2.top]);
        return [{ x: x2, y, sourceX: 0, sourceY: 1, targetX: 0, targetY: 1, title: axisNames[features[1]] ?? features[1] }];
      }
      const rows = [.../* @__PURE__ */ new Set([...targetFeatures, ...features])].slice(0, MAX_ROWS2);
      const space = rows.length > 1 ? ROW_GAP2 : MARGIN2.top;
      const high = (HEIGHT2 - space - MARGIN2.bottom - ROW_GAP2 * (rows.length - 1)) / rows.length;
      const length = scene.state.source.length + Math.max(...scene.shown.map(({ answer }) => answer.forecast.length));
      const x = linearScale([0.5, length + 0.5], inner);
      return rows.map((name, k) => {
        const top = space + k * (high + ROW_GAP2);
        const [sourceY, targetY] = [features.indexOf(name), targetFeatures.indexOf(name)];
        const y = linearScale(extent(valuesOf(scene, sourceY, targetY)), [top + high, top]);
        return { x, y, sourceX: null, sourceY, targetX: null, targetY, title: axisNames[name] ?? name };
      });
    }
    axes(panel, scene, isLast) {
      const { line, soft } = theme();
      const group = svg("g", { "font-size": 13, fill: soft, "aria-hidden": "true" });
      const [left, right] = [MARGIN2.left, this.width - MARGIN2.right];
      const [bottom, top] = [panel.y(panel.y.domain[0]), panel.y(panel.y.domain[1])];
      const yTicks = roundTicks(panel.y.domain, bottom - top > 150 ? 6 : 3);
      for (const tick of yTicks) {
        const y = panel.y(tick);
        group.append(svg("line", { x1: left, x2: right, y1: y, y2: y, stroke: line }), svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, tickText(tick, yTicks)));
      }
      const hasTimes = !scene.plane && scene.times.length > 0;
      const xTicks = roundTicks(panel.x.domain, hasTimes ? 3 : this.width > 420 ? 7 : 4).filter((tick) => scene.plane || Number.isInteger(tick));
      const xText = (tick) => hasTimes ? scene.times[tick - 1] ?? "" : tickText(tick, xTicks);
      for (const tick of xTicks) {
        const x = panel.x(tick);
        group.append(svg("line", { x1: x, x2: x, y1: top, y2: bottom, stroke: line }));
        if (isLast) group.append(svg("text", { x, y: bottom + 15, "text-anchor": "middle" }, xText(tick)));
      }
      const below = scene.plane ? scene.axisNames[scene.features[0]] ?? scene.features[0] : hasTimes ? "time" : "step";
      if (isLast) group.append(svg("text", { x: (left + right) / 2, y: bottom + 32, "text-anchor": "middle", "font-size": 14 }, shorten(below, 40)));
      const middle = (top + bottom) / 2;
      const isTurned = this.panels.length === 1;
      const title = isTurned ? { x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` } : { x: left, y: top - 5 };
      group.append(svg("text", { ...title, "font-size": 14, class: "panel-name" }, shorten(panel.title, isTurned ? 24 : 40)));
      return group;
    }
    /** Source line, truth, the models' own forecasts where weights are forced, and the forecasts. */
    lines(panel, scene) {
      const { soft, accent } = theme();
      const { state: { source, truth, step }, shown } = scene;
      const group = svg("g", {});
      if (panel.sourceY >= 0) group.append(polyline(source.map((row, k) => place2(panel, row, k, "source")), { stroke: soft, "stroke-width": 1.5 }));
      if (panel.targetY < 0) return group;
      const S = source.length;
      const known = (truth ?? []).map((row, t) => place2(panel, row, S + t, "target")).filter((at) => at.every(Number.isFinite));
      group.append(polyline(known, { stroke: accent, "stroke-width": 1.5, "stroke-dasharray": "2 4" }));
      for (const [x, y] of known) group.append(svg("path", { d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`, stroke: accent, "stroke-width": 1.5 }));
      const pixels = (forecast) => forecast.map((row, t) => place2(panel, row, S + t, "target"));
      for (const { answer, colour } of shown) group.append(polyline(pixels(answer.forecast), { stroke: colour, "stroke-width": 2, class: "forecast" }));
      for (const { answer, own, colour } of shown) {
        if (own !== answer) group.append(polyline(pixels(own.forecast), { stroke: colour, "stroke-width": 2.5, "stroke-dasharray": "6 5", class: "own-forecast" }));
      }
      for (const { answer, colour } of shown) {
        for (const [t, [x, y]] of pixels(answer.forecast).entries()) group.append(this.forecastPoint(x, y, t, S + t + 1, t === step, colour));
      }
      return group;
    }
    forecastPoint(x, y, step, number, isChosen2, colour) {
      const r = isChosen2 ? 9 : 5;
      const { ground } = theme();
      const point = svg("path", { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`, fill: isChosen2 ? colour : ground, stroke: colour, "stroke-width": 2, class: "forecast-point" }, svg("title", {}, `forecast point ${number}`));
      point.addEventListener("pointerenter", () => {
        if (this.dragged === null) this.events.chooseStep(step);
      });
      point.addEventListener("click", () => {
        this.events.chooseStep(step);
      });
      return point;
    }
    sourcePoints(panel, scene) {
      const group = svg("g", {});
      if (panel.sourceY < 0) return group;
      const { ground, ink, soft } = theme();
      const { state } = scene;
      const rows = state.kind === "decoder_self" ? [] : weightsOf(scene.shown[0].answer, state.kind, state.layer, state.head);
      const weights = rows[state.step] ?? [];
      const scale = scaleOf(scene, scene.shown[0]);
      const many = state.source.length > MAX_NUMBERED;
      const word = isForced2(scene, state.step) ? "forced weight" : "weight";
      for (const [k, row] of state.source.entries()) {
        const [x, y] = place2(panel, row, k, "source");
        const weight = weights[k];
        const r = weight === void 0 ? 6 : (many ? 3.5 : 5) + 9 * Math.sqrt(Math.min(1, Math.abs(weight) / scale.high));
        const colour = weight === void 0 ? soft : rgb(scale.colour(weight));
        const values = scene.features.map((name, f) => `${name} ${formatValue(row[f], 1)}`).join(", ");
        const circle = svg("circle", {
          cx: x,
          cy: y,
          r,
          fill: colour,
          stroke: ink,
          "stroke-width": k === state.point ? 3 : 1,
          class: "source-point",
          tabindex: k === state.point ? 0 : -1,
          role: "slider",
          "data-point": k,
          "data-member": memberName(this.panels.indexOf(panel), k),
          "aria-label": `source point ${k + 1}`,
          "aria-valuetext": values + (weight === void 0 ? "" : `, ${word} ${weight.toFixed(3)}`),
          "aria-valuemin": panel.y.domain[0],
          "aria-valuemax": panel.y.domain[1],
          "aria-valuenow": row[panel.sourceY]
        }, svg("title", {}, `point ${k + 1}: ${values}${weight === void 0 ? "" : `; ${word} ${weight.toFixed(3)}`}`));
        circle.style.cursor = "grab";
        this.follow(circle, k, panel, scene);
        if (!many) group.prepend(this.hitArea(x, y, k, panel));
        group.append(circle);
        if (!many) group.append(svg("text", { x: x + r + 3, y: y - r - 1, "font-size": 14, "font-weight": 600, fill: soft, "aria-hidden": "true", class: "point-number", ...halo(ground) }, String(k + 1)));
      }
      return group;
    }
    /** A place below a point that a finger can hit. */
    hitArea(x, y, point, panel) {
      const area = svg("circle", { cx: x, cy: y, r: matchMedia("(pointer: coarse)").matches ? TOUCH_RADIUS : HIT_RADIUS, fill: "transparent", "data-only": "page" });
      area.style.cursor = "grab";
      area.addEventListener("pointerdown", (event) => {
        this.startDrag(event, point, panel);
      });
      keepFromScrolling(area);
      return area;
    }
    follow(circle, point, panel, scene) {
      circle.addEventListener("focus", () => {
        if (scene.state.point !== point) this.events.choosePoint(point);
      });
      circle.addEventListener("pointerdown", (event) => {
        this.startDrag(event, point, panel);
      });
      keepFromScrolling(circle);
      circle.addEventListener("keydown", (event) => {
        const next = memberAfter(event.key, point, scene.state.source.length);
        if (next !== null) {
          event.preventDefault();
          this.root.querySelector(`[data-member="${memberName(this.panels.indexOf(panel), next)}"]`)?.focus();
          return;
        }
        const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
        if (!direction) return;
        event.preventDefault();
        const size = event.shiftKey ? 0.1 : 0.02;
        const row = scene.current.source[point];
        const moved2 = {};
        const along = (scale) => (scale.domain[1] - scale.domain[0]) * size;
        if (panel.sourceX !== null && direction[0]) moved2[panel.sourceX] = row[panel.sourceX] + direction[0] * along(panel.x);
        if (direction[1]) moved2[panel.sourceY] = row[panel.sourceY] + direction[1] * along(panel.y);
        if (Object.keys(moved2).length) this.events.move(point, moved2);
      });
    }
    startDrag(event, point, panel) {
      event.preventDefault();
      this.dragged = point;
      this.events.choosePoint(point);
      const [startX, startY] = [event.clientX, event.clientY];
      let isMoved = false;
      const moveTo = (at) => {
        isMoved ||= Math.hypot(at.clientX - startX, at.clientY - startY) > CLICK_PIXELS;
        if (!isMoved) return;
        const box = this.root.getBoundingClientRect();
        const [x, y] = [(at.clientX - box.left) * (this.width / box.width), (at.clientY - box.top) * (HEIGHT2 / box.height)];
        const moved2 = { [panel.sourceY]: clamp(panel.y.invert(y), panel.y.domain) };
        if (panel.sourceX !== null) moved2[panel.sourceX] = clamp(panel.x.invert(x), panel.x.domain);
        this.events.move(point, moved2);
      };
      const onMove = (at) => {
        moveTo(at);
      };
      const onUp = (at) => {
        window.removeEventListener("pointermove", onMove);
        window.removeEventListener("pointerup", onUp);
        window.removeEventListener("pointercancel", onUp);
        this.dragged = null;
        if (at.type === "pointerup") moveTo(at);
      };
      window.addEventListener("pointermove", onMove);
      window.addEventListener("pointerup", onUp);
      window.addEventListener("pointercancel", onUp);
    }
  };
  var memberName = (panel, point) => `${panel}/${point}`;
  var clamp = (value, [low, high]) => Math.min(high, Math.max(low, value));
  function valuesOf({ state: { source, truth }, shown }, sourceFeature, targetFeature) {
    const values = sourceFeature < 0 ? [] : source.map((row) => row[sourceFeature]);
    if (targetFeature < 0) return values;
    const forecasts = shown.flatMap(({ answer, own }) => [...answer.forecast, ...own.forecast]);
    return [...values, ...[...truth ?? [], ...forecasts].map((row) => row[targetFeature])];
  }
  function equalScales(x, y, [left, right], [bottom, top]) {
    const perPixel = Math.max((x[1] - x[0]) / (right - left), (y[1] - y[0]) / (bottom - top));
    const widen = ([low, high], pixels) => {
      const middle = (low + high) / 2;
      return [middle - perPixel * pixels / 2, middle + perPixel * pixels / 2];
    };
    return [linearScale(widen(x, right - left), [left, right]), linearScale(widen(y, bottom - top), [bottom, top])];
  }
  function place2(panel, row, position, side) {
    const [fx, fy] = side === "source" ? [panel.sourceX, panel.sourceY] : [panel.targetX, panel.targetY];
    return [panel.x(fx === null ? position + 1 : row[fx]), panel.y(row[fy])];
  }
  function polyline(points2, attributes) {
    return svg("polyline", { points: points2.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", ...attributes });
  }

  // src/live/sentence.ts
  var MAX_ATTENDED2 = 3;
  var MAX_FEATURES = 4;
  function attended(row, names) {
    return row.map((weight, k) => [weight, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED2).map(([weight, k]) => `${names.column(k)} with ${withMinus(weight.toFixed(3))}`).join(", ");
  }
  function describeSource({ state: { source, isChanged }, trainedLength }) {
    const longer = source.length > trainedLength ? ` The source has ${source.length} points, more than every training source: the longest has ${trainedLength}.` : "";
    return longer + (isChanged ? " The source was changed, so the true continuation is unknown." : "");
  }
  function errorText(loss, { units, targetFeatures }, scale) {
    const unit = targetFeatures.length === 1 ? units[targetFeatures[0]] : void 0;
    const squared = (value) => `${formatNumber(value)} ${unit ?? ""}${unit === void 0 ? "" : "\xB2"}`.trim();
    if (scale.every((each) => each === 1)) return squared(loss);
    const own = targetFeatures.length === 1 ? ` (${squared(loss * scale[0] ** 2)}${unit === void 0 ? " in units of the data" : ""})` : "";
    return `${formatNumber(loss)} in scaled units${own}`;
  }
  function commonUnit({ units, targetFeatures }) {
    const found = new Set(targetFeatures.map((name) => units[name]));
    const [unit] = found;
    return found.size === 1 && unit !== void 0 ? ` ${unit}` : "";
  }
  function describe(scene) {
    const { state, shown, targetFeatures } = scene;
    const names = pointNames2(state);
    const [{ answer, meaning }] = shown;
    const row = weightsOf(answer, state.kind, state.layer, state.head)[state.step];
    const isEncoder = state.kind === "encoder_self";
    let text2 = capitalize(names.row(state.step));
    if (!row) text2 += ".";
    else if (meaning === "distribution" && isKnockedOut(row)) text2 += " attends to nothing: its weights are knocked out, so all are 0 and do not add up to 1.";
    else if (isForced2(scene, state.step)) text2 += ` has weights that you forced, so they are not the model's choice: ${attended(row, names)}.`;
    else text2 += ` attends to ${attended(row, names)}.`;
    if (!isEncoder) {
      const values = targetFeatures.slice(0, MAX_FEATURES).map((name, g) => {
        const truth = state.truth?.[state.step]?.[g];
        const known = truth !== void 0 && Number.isFinite(truth) ? ` (truth ${formatValue(truth, 1)})` : "";
        const unit = scene.units[name];
        return `${name} ${formatValue(answer.forecast[state.step][g], 1)}${unit === void 0 ? "" : ` ${unit}`}${known}`;
      });
      text2 += ` Forecast: ${values.join(", ")}.`;
    }
    for (const { name, answer: forced, own, scale } of shown) {
      const label = shown.length > 1 ? ` ${name}:` : "";
      const loss = meanSquaredError(forced.forecast, state.truth, scale);
      if (loss !== null) text2 += `${label} Mean squared error of the sequence: ${errorText(loss, scene, scale)}.`;
      if (forced !== own) {
        const before = meanSquaredError(own.forecast, state.truth, scale);
        text2 += `${loss === null ? label : ""} The forced weights move the forecast by up to ${formatNumber(largestChange(forced.forecast, own.forecast))}${commonUnit(scene)}${before === null ? "" : `; with its own weights the error is ${errorText(before, scene, scale)}`}.`;
      }
    }
    if (state.truth && hasOwnScales(shown)) text2 += " The errors are in the scaled units of each model, so they cannot be compared.";
    return text2 + describeSource(scene);
  }

  // src/live/sequences.ts
  var Sequences = class _Sequences {
    constructor(examples, sources, targets, alignments, stepTimes) {
      this.examples = examples;
      this.sources = sources;
      this.targets = targets;
      this.alignments = alignments;
      this.stepTimes = stepTimes;
      this.names = sequenceNames(examples.ids, examples.labels);
    }
    examples;
    sources;
    targets;
    alignments;
    stepTimes;
    names;
    static async load(examples, alignment) {
      const times = examples.times && [await unpack(examples.times.source), await unpack(examples.times.target)];
      return new _Sequences(examples, await unpack(examples.source), await unpack(examples.target), alignment, times);
    }
    get count() {
      return this.names.length;
    }
    /** Return the source (S, F) of a sequence. */
    source(index) {
      return points(this.sources, index, this.examples.source_lengths[index], this.examples.features.length);
    }
    /** Return the true target (T, G) of a sequence; NaN where it was not observed. */
    target(index) {
      return points(this.targets, index, this.examples.target_lengths[index], this.examples.target_features.length);
    }
    /** Return the names of the times of the source and target steps; empty if the times are unknown. */
    times(index) {
      const { stepTimes, examples: { times, source_lengths: S, target_lengths: T } } = this;
      if (!stepTimes || !times) return [];
      const [source, target] = stepTimes.map((array, side) => Array.from({ length: [S, T][side][index] }, (_, k) => array.at(index, k)));
      return timeNames([...source, ...target], times.is_date);
    }
    /** Return the true source step of each target step; -1 where there is none. */
    alignment(index) {
      return this.alignments ? this.alignments[index].slice(0, this.examples.target_lengths[index]) : [];
    }
  };
  function points(array, index, count, features) {
    return Array.from({ length: count }, (_, k) => Array.from({ length: features }, (_unused, f) => array.at(index, k, f)));
  }
  function blankSource(model, plane, count) {
    const { shift, scale } = model.scaling.source;
    const at = (f, offset) => shift[f % shift.length] + offset * scale[f % scale.length];
    return Array.from({ length: count }, (_, k) => {
      const angle = Math.PI * (0.75 - 2 * k / count);
      if (plane) return [at(0, Math.cos(angle)), at(1, Math.sin(angle))];
      return model.features.map((_name, f) => at(f, 0));
    });
  }

  // src/live/explorer.ts
  function livePage(content) {
    const { live } = content;
    const examples = live?.examples ?? (content.kind === "run" ? content.examples : void 0);
    if (!live?.models.length || !examples || live.words) return null;
    const alignment = live.alignment ?? (content.kind === "run" ? content.alignment : null) ?? null;
    return { live, examples, alignment };
  }
  var LiveExplorer = class _LiveExplorer extends Explorer2 {
    constructor(page, models, sequences) {
      super(models);
      this.page = page;
      this.sequences = sequences;
      this.state = this.restore() ?? this.start();
      this.path = new PathPlot(byId("live-path"), {
        move: (point, values) => {
          this.movePoint(point, values);
        },
        choosePoint: (point) => {
          this.change((state) => {
            state.point = point;
          });
        },
        chooseStep: (step) => {
          this.chooseStep(step);
        }
      });
      addControls(this);
    }
    page;
    sequences;
    state;
    path;
    static async load(page, models) {
      const explorer = new _LiveExplorer(page, models, await Sequences.load(page.examples, page.alignment));
      await explorer.update();
      return explorer;
    }
    lengthOf({ source }) {
      return source.length;
    }
    get rowCount() {
      return this.state.kind === "encoder_self" ? this.state.source.length : this.first.steps;
    }
    get fragment() {
      return toFragment(this.state, this.key);
    }
    get exampleNames() {
      return this.sequences.names;
    }
    chooseOwn() {
      this.chooseBlank();
    }
    chooseExample(example) {
      const count = this.sequences.count;
      const index = (example % count + count) % count;
      this.change((state) => {
        Object.assign(state, { example: index, source: this.sequences.source(index), truth: this.sequences.target(index), isChanged: false, step: 0, point: 0 });
        state.force.clear();
      });
    }
    chooseBlank() {
      this.change((state) => {
        Object.assign(state, { example: null, source: blankSource(this.first, this.page.examples.plane, this.blankLength), truth: null, isChanged: true, step: 0, point: 0 });
        state.force.clear();
      });
    }
    resetSource() {
      const { example } = this.state;
      if (example === null) {
        this.chooseBlank();
        return;
      }
      this.change((state) => {
        const source = this.sequences.source(example);
        if (source.length !== state.source.length) state.force.clear();
        Object.assign(state, { source, truth: this.sequences.target(example), isChanged: false, point: Math.min(state.point, source.length - 1) });
      });
    }
    movePoint(point, values) {
      try {
        checkValues(Object.values(values));
      } catch (error2) {
        byId("live-error").textContent = messageOf(error2);
        return;
      }
      this.change((state) => {
        for (const [feature, value] of Object.entries(values)) state.source[point][Number(feature)] = value;
        state.point = point;
        this.markChanged();
      });
    }
    /** Add a point after the chosen one, half way to the next. */
    addPoint() {
      if (!this.accepts(this.state.source.length + 1)) return;
      this.change((state) => {
        const [row, next] = [state.source[state.point], state.source[state.point + 1]];
        state.source.splice(state.point + 1, 0, row.map((value, f) => next ? (value + next[f]) / 2 : value));
        state.point += 1;
        state.force.clear();
        this.markChanged();
      });
    }
    removePoint() {
      if (!this.accepts(this.state.source.length - 1)) return;
      this.change((state) => {
        state.source.splice(state.point, 1);
        state.point = Math.max(0, state.point - 1);
        state.force.clear();
        this.markChanged();
      });
    }
    get blankLength() {
      const lengths = this.shownContents.flatMap(({ fixed_source: fixed, source_length: trained }) => fixed === null ? [trained] : [fixed, trained]);
      return [...lengths, ...lengths.map((_, k) => k + 1)].find((length) => this.accepts(length)) ?? this.first.source_length;
    }
    markChanged() {
      this.state.isChanged = true;
      this.state.truth = null;
    }
    start() {
      const subjects = this.firstSubjects(this.page.live.side_by_side === true);
      const contents = subjects.map(({ model }) => this.models[model].content);
      const example = Math.max(0, this.page.examples.source_lengths.findIndex((length) => this.accepts(length, contents)));
      return { ...this.firstView(subjects, example), source: this.sequences.source(example), truth: this.sequences.target(example), point: 0 };
    }
    restore() {
      const shared = fromFragment(location.hash, { ...this.limitsOf(this.page.examples.source_lengths), features: this.page.examples.features.length });
      if (!shared) return null;
      const example = shared.example ?? 0;
      const unchanged = shared.source === null;
      return { ...shared, source: shared.source ?? this.sequences.source(example), truth: unchanged ? this.sequences.target(example) : null, isChanged: !unchanged };
    }
    async ask() {
      const { page } = this;
      this.fitView();
      this.state.point = Math.min(this.state.point, this.state.source.length - 1);
      this.state.step = Math.min(this.state.step, this.rowCount - 1);
      const hasTrace = this.needsTrace;
      const state = this.state;
      const answered = copyState(state);
      const shown = [];
      const { warn } = theme();
      for (const [k, { model, run, epoch }] of answered.subjects.entries()) {
        const live = this.models[model];
        const { source } = answered;
        const isForced3 = answered.force.size > 0 && canForce(live.content);
        const options = { run, epoch, outputs: hasTrace && k === 0 ? "all" : "weights" };
        const own = await live.run(source, isForced3 ? { run, epoch, outputs: "weights" } : options);
        const answer = isForced3 ? await live.run(source, { ...options, force: { rows: this.rowsFor(live, answered.force) } }) : own;
        shown.push({ name: this.nameOfSubject({ model, run, epoch }), colour: k ? COLOURS[k - 1] : warn, answer, own, scale: live.content.loss_scale, meaning: meaningOf(live.content) });
      }
      const { features, target_features: targetFeatures, named, plane, units } = page.examples;
      const alignment = answered.example !== null && !answered.isChanged ? this.sequences.alignment(answered.example) : [];
      const isWhole = answered.example !== null && answered.source.length === page.examples.source_lengths[answered.example];
      const times = isWhole ? this.sequences.times(answered.example) : [];
      return { state: answered, current: state, shown, features, targetFeatures, units, axisNames: named, plane, hasTrace, alignment, times, canForce: this.canForce, trainedLength: Math.min(...this.shownContents.map(({ source_length }) => source_length)) };
    }
    matrix(scene, index) {
      return matrixOf(scene, scene.shown[index]);
    }
    drawOwn(scene) {
      this.path.draw(scene);
      showControls(this, scene);
    }
    describe(scene) {
      return describe(scene);
    }
  };

  // src/live/glossary.ts
  var TERMS = [
    { name: "attention", definition: "A way for the [decoder] to look back at every source point for each forecast point. It weighs the source points and reads a mixture of them." },
    { name: "attention weight", definition: "How much one forecast point reads from one source point. The weights of a forecast point are usually between 0 and 1 and add up to 1; if a head is knocked out, all of them are 0." },
    { name: "baseline", definition: "A simple forecast that needs no neural network, such as repeating the last value. A model is only useful if its error is lower." },
    { name: "context", definition: "What attention hands to the [decoder]: the sum of the [values|value] of all source points, each multiplied by its weight." },
    { name: "decoder", definition: "The part of the model that writes the forecast, one point after the other." },
    { name: "encoder", definition: "The part of the model that reads the source and turns each of its points into a list of numbers, the encoder state." },
    { name: "encoder state", definition: "The numbers that the [encoder] writes for a source point. It carries what it has read along, so a state also knows the points around it." },
    { name: "entropy", definition: "A measure of how widely the weights of a forecast point are spread. It is 0 if all weight is on one source point, and largest if all weights are equal." },
    { name: "epoch", definition: "One pass of the training through all training sequences. Epoch 0 is the model before its training, with random parameters." },
    { name: "forecast point", definition: "A point that the model computes. Its number continues the count of the source: after a source of 2 points, forecast point 3 is the first one, which commands call step 1." },
    { name: "free running", definition: "Forecasting as in real use: each forecast point starts from the model's own previous one, so errors can add up. The opposite is [teacher forcing]." },
    { name: "head", definition: "One of several attentions that work side by side in a layer, each with its own [queries|query], [keys|key] and [weights|attention weight]." },
    { name: "key", definition: "The numbers of a source point that a [query] is compared with. The comparison gives the [score]." },
    { name: "mean squared error", definition: "The mean of the squared differences between forecast and truth. 0 is a perfect forecast; large mistakes count more than small ones." },
    { name: "noise floor", definition: "The [mean squared error] of a forecast that knows the data without noise. No model is reliably better, and a model that sees only noisy sources may not be able to reach it." },
    { name: "own weights", definition: "The [attention weights|attention weight] that the model computes itself. The opposite are forced weights, which a reader gives to it." },
    { name: "parameter-free", definition: "Describes a [baseline] that is a fixed rule, so that nothing is trained." },
    { name: "query", definition: "The numbers with which the [decoder] asks what it needs for a forecast point. They are compared with the [key] of each source point." },
    { name: "score", definition: "A number that says how well a [query] fits a [key]. Scores become weights by a normalizer such as [softmax]." },
    { name: "softmax", definition: "The function that turns scores into weights: all are positive, they add up to 1, and a higher [score] gives a larger weight." },
    { name: "source point", definition: "A point that the model is given. The source points are counted from 1." },
    { name: "teacher forcing", definition: "Giving the [decoder] the true previous point instead of its own forecast. It makes training easier, but it is impossible in real use." },
    { name: "temperature", definition: "A number by which the [scores|score] are divided before the [softmax]. The model was trained with 1; below it, the weights become more extreme, and above it more equal." },
    { name: "value", definition: "The numbers of a source point that attention passes on. The weights decide how much of each value is in the [context]." }
  ];
  var OF_NUMBERS = ["forecast point", "mean squared error", "noise floor", "parameter-free", "source point"];
  var OF_SYMBOLS = [
    { name: "alignment", definition: "Which source symbols an output symbol stands for. [Attention weights|attention weight] resemble it, but they say what the [decoder] read: states of the [encoder] that also carry the symbols around them." },
    { name: "beam search", definition: "A search that keeps several beginnings of the output at each step, and so finds more probable outputs than the greedy search, which keeps only the most probable symbol." },
    { name: "greedy search", definition: "A search that writes the most probable symbol at each step. A [beam search] also follows less probable ones." },
    { name: "output symbol", definition: "A symbol that the model writes. The output symbols are counted from 1, and the last one is the end." },
    { name: "perplexity", definition: "Among how many equally likely symbols the model would be as uncertain as it is. 1 is certainty." },
    { name: "vocabulary", definition: "The symbols that the model knows, from its training data. Every other symbol is read as one and the same unknown symbol." },
    { name: "source symbol", definition: "A symbol that the model is given: a character, a word or a part of a word." }
  ];
  function termsOf(hasSymbols) {
    if (!hasSymbols) return TERMS;
    const renamed = TERMS.filter(({ name }) => !OF_NUMBERS.includes(name)).map(({ name, definition }) => ({
      name,
      definition: definition.replace(/a forecast point/g, "an output symbol").replace(/forecast point/g, "output symbol").replace(/source point/g, "source symbol").replace("knows the points around", "knows the symbols around").replace("Forecasting as", "Writing as").replace("A simple forecast that", "A simple output that").replace("repeating the last value", "a copy of the source").replace("its error is", "its errors are").replace("writes the forecast, one point", "writes the output, one symbol").replace("each of its points", "each of its symbols").replace("own forecast.", "own symbol.").replace("true previous point", "true previous symbol")
    }));
    return [...renamed, ...OF_SYMBOLS].sort((a, b) => a.name < b.name ? -1 : 1);
  }
  var shownTerms = TERMS;
  var idOf = (name) => `term-${name.replaceAll(" ", "-")}`;
  function showGlossary(hasSymbols) {
    shownTerms = termsOf(hasSymbols);
    const list = document.createElement("dl");
    list.append(...shownTerms.flatMap(({ name, definition }) => {
      const term2 = document.createElement("dt");
      term2.id = idOf(name);
      term2.append(textElement("dfn", name));
      const meaning = document.createElement("dd");
      meaning.append(...withTerms(definition));
      return [term2, meaning];
    }));
    byId("glossary").append(list);
    for (const marked of document.querySelectorAll("[data-term]")) {
      const term2 = shownTerms.find(({ name }) => name === marked.dataset.term);
      if (term2) marked.replaceWith(termElement(marked.textContent, term2));
    }
  }
  function card() {
    const found = document.getElementById("term-card");
    if (found) return found;
    const made = document.createElement("div");
    made.id = "term-card";
    made.popover = "auto";
    made.setAttribute("role", "note");
    document.body.append(made);
    return made;
  }
  var CARD_GAP = 10;
  function placeCard(place3, word) {
    const tour = word.closest("#live-tour-panel")?.getBoundingClientRect();
    const at = word.getBoundingClientRect();
    const { width, height } = place3.getBoundingClientRect();
    const fit = (position, size, room) => Math.max(CARD_GAP, Math.min(position, room - size - CARD_GAP));
    const isBeside = tour !== void 0 && tour.right + CARD_GAP + width < innerWidth;
    const left = isBeside ? tour.right + CARD_GAP : at.left;
    const isAbove = tour ? true : at.bottom + CARD_GAP + height > innerHeight;
    const top = isBeside ? at.top : isAbove ? (tour ?? at).top - height - CARD_GAP : at.bottom + CARD_GAP;
    place3.style.left = `${fit(left, width, innerWidth)}px`;
    place3.style.top = `${fit(top, height, innerHeight)}px`;
  }
  function showCard({ name, definition }, word) {
    const place3 = card();
    place3.setAttribute("aria-label", name);
    const close = textElement("button", "Close");
    close.type = "button";
    close.addEventListener("click", () => {
      place3.hidePopover();
      word.focus();
    });
    const text2 = document.createElement("p");
    text2.append(...withTerms(definition, (term2) => {
      showCard(term2, word);
    }));
    place3.replaceChildren(textElement("strong", name), text2, close);
    place3.showPopover();
    placeCard(place3, word);
    close.focus();
  }
  function termElement(words, term2, show) {
    if (!("popover" in HTMLElement.prototype)) {
      const link = textElement("a", words);
      link.href = `#${idOf(term2.name)}`;
      return link;
    }
    const button = textElement("button", words);
    button.type = "button";
    button.className = "term";
    button.setAttribute("aria-label", `${words}: what is it?`);
    button.addEventListener("click", () => {
      (show ?? ((shown) => {
        showCard(shown, button);
      }))(term2);
    });
    return button;
  }
  var isCardOpen = () => document.getElementById("term-card")?.matches(":popover-open") ?? false;
  function splitTerms(text2) {
    return text2.split(/\[([^\]]+)\]/);
  }
  var markTerms = (sentence) => sentence.includes("[") ? sentence : sentence.replace(/mean squared error|noise floor/g, "[$&]");
  function withTerms(text2, show) {
    return splitTerms(text2).map((part, k) => {
      const [words, name = words] = part.split("|");
      const term2 = k % 2 ? shownTerms.find((each) => each.name === name) : void 0;
      return term2 ? termElement(words, term2, show) : part;
    });
  }
  function paragraph(text2) {
    const made = document.createElement("p");
    made.append(...withTerms(text2));
    return made;
  }

  // src/live/arithmetic/record.ts
  var DECIMALS = 4;
  var MAX_PRINTED_SIDE = 8;
  var MAX_TERMS = 8;
  function round(x, decimals) {
    const scaled = x * 10 ** decimals;
    const floor = Math.floor(scaled);
    const part = scaled - floor;
    const isUp = part > 0.5 || part === 0.5 && floor % 2 !== 0;
    return (isUp ? floor + 1 : floor) / 10 ** decimals;
  }
  var SIGNIFICANT_DIGITS = 6;
  var wholeDigits = (x) => Math.floor(Math.log10(Math.max(1, Math.abs(x)))) + 1;
  function printed(x) {
    const result = round(x, DECIMALS);
    const unit = 10 ** Math.max(0, wholeDigits(result) + DECIMALS - SIGNIFICANT_DIGITS);
    return (unit > 1 ? round(round(result / unit, DECIMALS) * unit, DECIMALS) : result) + 0;
  }
  var printedRow = (row) => row.map(printed);
  var printedRows = (rows) => rows.map(printedRow);
  var dot = (left, right) => left.reduce((sum, x, k) => sum + x * right[k], 0);
  var affine = (weight, bias, x) => weight.map((row, k) => dot(row, x) + (bias ? bias[k] : 0));
  function formatCell(x, digits = null) {
    if (!Number.isFinite(x)) return "none";
    return withMinus(digits === null ? x.toFixed(Math.min(DECIMALS, Math.max(0, SIGNIFICANT_DIGITS - wholeDigits(x)))) : String(Number(x.toPrecision(digits))));
  }
  var factor = (x) => x < 0 ? `(${formatCell(x)})` : formatCell(x);
  function sumText(terms) {
    if (terms.length <= MAX_TERMS) return terms.join(" + ");
    return `${terms.slice(0, MAX_TERMS - 1).join(" + ")} + \u2026 + ${terms[terms.length - 1]} (${terms.length} terms)`;
  }
  var productsText = (left, right) => sumText(left.map((x, k) => `${factor(x)} \xD7 ${factor(right[k])}`));
  var refs = (vector) => vector.values.map((_, k) => vector.ref(k));
  var rowOf = (matrix2, row) => ({ values: matrix2.values[row], ref: (k) => matrix2.ref(row, k) });
  var columnOf = (matrix2, column) => ({ values: matrix2.values.map((row) => row[column]), ref: (k) => matrix2.ref(k, column) });
  var pointNames3 = (count) => Array.from({ length: count }, (_, k) => `point ${k + 1}`);
  var columnNumbers = (count) => Array.from({ length: count }, (_, k) => String(k + 1));
  var StageRecord = class {
    /** @param sourceNames - the names of the source steps. */
    constructor(sourceNames) {
      this.sourceNames = sourceNames;
    }
    sourceNames;
    stages = [];
    /** Add a stage of (rows, columns) and return its printed numbers; the rows are the source steps unless they are named. */
    add(name, formula, numbers, options = {}) {
      const { rows, columns, own = null, ownAs = "origin", isByModel = false, digits = null, origin = () => null } = options;
      const values = digits === null ? printedRows(numbers) : numbers.map((row) => row.map((x) => Number(x.toPrecision(digits))));
      const stage = this.stages.length;
      this.stages.push({
        name,
        formula,
        own,
        ownAs,
        isByModel,
        digits,
        origin,
        numbers: values,
        rows: rows ?? this.sourceNames.slice(0, values.length),
        columns: columns ?? columnNumbers(values[0]?.length ?? 0),
        hasPointRows: rows === void 0
      });
      return { values, stage, ref: (row, column) => ({ stage, row, column }) };
    }
    /** Add a stage of one row. */
    addRow(name, formula, row, numbers, options = {}) {
      const own = options.ownRow ? [[...options.ownRow]] : null;
      return rowOf(this.add(name, formula, [numbers], { rows: [row], own, ownAs: "rows", ...options }), 0);
    }
    /** Add a stage whose last column follows from the others, and return it. `own`: the model's own numbers of that column. */
    addColumns(name, formula, columns, options = {}) {
      const names = Object.keys(columns);
      const lists = Object.values(columns);
      const count = Math.max(...lists.map((list) => typeof list === "number" ? 1 : list.length));
      const numbers = Array.from({ length: count }, (_, k) => lists.map((list) => typeof list === "number" ? list : list[k]));
      const { own, ...others } = options;
      const last = names.length - 1;
      const ownNumbers = own ? [...own].map((x) => names.map((_, column) => column === last ? x : NaN)) : null;
      return columnOf(this.add(name, formula, numbers, { columns: names, own: ownNumbers, ownAs: "column", ...others }), last);
    }
    /** The index of the next stage. */
    get next() {
      return this.stages.length;
    }
  };

  // src/live/arithmetic/locations.ts
  var CONTENT_WEIGHTS = "Content weights";
  var sigmoid = (x) => 1 / (1 + Math.exp(-x));
  var softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
  var modulo = (a, b) => (a % b + b) % b;
  var wholeText = (x) => String(x);
  function addLocalWindow(step, normalize, scores, window2) {
    const { record } = step;
    const S = scores.values.length;
    const hidden = affine(step.linear("attention.location.predict").weight, null, step.query).map(Math.tanh);
    const fraction = sigmoid(dot(step.linear("attention.location.combine").weight[step.input.head], hidden));
    const centerRow = record.addRow("Window center", "p = (S - 1) sigmoid(v . tanh(W h)), from the checkpoint", "p", [fraction * (S - 1)], { columns: ["p"], isByModel: true });
    const [center] = centerRow.values;
    const inside = scores.values.map((_, s) => Math.abs(s - center) <= window2);
    const content = normalize(record, { name: CONTENT_WEIGHTS, scores, inside, own: void 0 });
    const gaussian = printedRow(scores.values.map((_, s) => Math.exp(-2 * ((s - center) / window2) ** 2)));
    const stage = record.next;
    const origin = (row, column) => {
      if (column === 0) return { expression: "the content weight of this point", cells: [content.ref(row)] };
      if (column === 1) return { expression: `exp(\u2212(${row} \u2212 ${formatCell(center)})\xB2 / (2 \xD7 (${wholeText(window2)} / 2)\xB2))`, cells: [centerRow.ref(0)] };
      return { expression: `${formatCell(content.values[row])} \xD7 ${formatCell(gaussian[row])}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
    };
    const columns = { content: content.values, window: gaussian, weight: content.values.map((x, s) => x * gaussian[s]) };
    return record.addColumns("Weights", `times exp(-(s - p)^2 / (2 (D/2)^2)), D = ${wholeText(window2)}, s from 0`, columns, { own: step.weights, origin });
  }
  function addControl(step) {
    const { weight, bias } = step.linear("attention.location.control");
    const [gate, sharpness, ...shift] = step.headSlice(affine(weight, bias, step.query));
    const largest2 = Math.max(...shift);
    const exponentials = shift.map((x) => Math.exp(x - largest2));
    const sum = exponentials.reduce((a, b) => a + b, 0);
    const reach = Math.floor(shift.length / 2);
    const names = shift.map((_, k) => `s(${k - reach < 0 ? "" : "+"}${k - reach})`);
    const numbers = [sigmoid(gate), 1 + softplus(sharpness), ...exponentials.map((x) => x / sum)];
    return step.record.addRow("Gate, sharpness and shift", "from h, by the checkpoint", "value", numbers, { columns: ["g", "gamma", ...names], isByModel: true });
  }
  function addLocationShift(step, normalize, scores) {
    const { record } = step;
    const S = scores.values.length;
    const content = normalize(record, { name: CONTENT_WEIGHTS, scores, inside: scores.values.map(() => true), own: void 0 });
    const control = addControl(step);
    const [g, gamma, ...s] = control.values;
    const reach = Math.floor(s.length / 2);
    const previous = printedRow(step.previousWeights ?? scores.values.map((_, k) => k === S - 1 ? 1 : 0));
    const gated = printedRow(content.values.map((x, k) => g * x + (1 - g) * previous[k]));
    const from = (row) => s.map((_, k) => modulo(row - (k - reach), S));
    const shifted = printedRow(gated.map((_, row) => from(row).reduce((sum, place3, k) => sum + s[k] * gated[place3], 0)));
    const powers = shifted.map((x) => printed(x ** gamma));
    const total = powers.reduce((a, b) => a + b, 0);
    const stage = record.next;
    const at = (row, column) => ({ stage, row, column });
    const origins = [
      (row) => ({ expression: step.previousWeights ? "the weight of this point in the step before" : row === S - 1 ? "1: before the first step all weight is on the last point" : "0: before the first step all weight is on the last point", cells: [] }),
      (row) => ({ expression: `${formatCell(g)} \xD7 ${formatCell(content.values[row])} + (1 \u2212 ${formatCell(g)}) \xD7 ${formatCell(previous[row])}`, cells: [control.ref(0), content.ref(row), at(row, 0)] }),
      (row) => ({ expression: sumText(from(row).map((place3, k) => `${formatCell(gated[place3])} \xD7 ${formatCell(s[k])}`)), cells: from(row).flatMap((place3, k) => [at(place3, 1), control.ref(2 + k)]) }),
      (row) => ({ expression: `${formatCell(shifted[row])}^${factor(gamma)}`, cells: [at(row, 2), control.ref(1)] }),
      (row) => ({ expression: `${formatCell(powers[row])} / (${sumText(powers.map((x) => formatCell(x)))})`, cells: powers.map((_, k) => at(k, 3)) })
    ];
    const formula = "gated = g content + (1 - g) previous; shifted(i) = sum of gated(i - j) s(j), circular; weight = shifted^gamma / sum of these";
    const columns = { previous, gated, shifted, "shifted^gamma": powers, weight: powers.map((x) => x / total) };
    return record.addColumns("Weights", formula, columns, { own: step.weights, origin: (row, column) => origins[column](row) });
  }
  function addMonotonic(step, scores) {
    const { record } = step;
    const r = printed(step.vector("attention.location.offset.value")[step.input.head]);
    const previous = printedRow(step.previousWeights ?? scores.values.map((_, k) => k === 0 ? 1 : 0));
    const stops = scores.values.map((score) => score + r > 0);
    const p = scores.values.map((score) => sigmoid(score + r));
    const from = (row) => {
      if (!stops[row]) return [];
      const first = stops.slice(0, row).lastIndexOf(true) + 1;
      return Array.from({ length: row + 1 - first }, (_, k) => first + k);
    };
    const weight = scores.values.map((_, row) => from(row).reduce((sum, k) => sum + previous[k], 0));
    const stage = record.next;
    const at = (row, column) => ({ stage, row, column });
    const origins = [
      (row) => ({ expression: "the score of this point", cells: [scores.ref(row)] }),
      () => ({ expression: "a learned number of this head", cells: [] }),
      (row) => ({ expression: `1 / (1 + exp(\u2212(${formatCell(scores.values[row])} + ${factor(r)})))`, cells: [at(row, 0), at(row, 1)] }),
      (row) => ({ expression: step.previousWeights ? "the weight of this point in the step before" : row === 0 ? "1: before the first step all weight is on the first point" : "0: before the first step all weight is on the first point", cells: [] }),
      (row) => stops[row] ? { expression: sumText(from(row).map((k) => formatCell(previous[k]))), cells: [at(row, 2), ...from(row).map((k) => at(k, 3))] } : { expression: `0, since ${formatCell(p[row])} is not above 1/2`, cells: [at(row, 2)] }
    ];
    const formula = "p = 1 / (1 + exp(-(score + r))); each previous weight moves on to the first point with p > 1/2, starting at its own point";
    const columns = { score: scores.values, r, p, previous, weight };
    return record.addColumns("Weights", formula, columns, { own: step.weights, origin: (row, column) => origins[column](row) });
  }

  // src/live/arithmetic/normalizers.ts
  var cell = (stage, row, column) => ({ stage, row, column });
  var scoreOrigin = (scores, row) => ({ expression: "the score of this point", cells: [scores.ref(row)] });
  function addSoftmax(record, { name, scores, inside, own }) {
    const { values } = scores;
    const largest2 = Math.max(...values.filter((_, k) => inside[k]));
    const exponentials = printedRow(values.map((score, k) => inside[k] ? Math.exp(score - largest2) : 0));
    const sum = exponentials.reduce((a, b) => a + b, 0);
    const stage = record.next;
    const origin = (row, column) => {
      if (column === 0) return scoreOrigin(scores, row);
      if (column === 1 && !inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
      if (column === 1) return { expression: `exp(${formatCell(values[row])} \u2212 ${factor(largest2)})`, cells: [cell(stage, row, 0), cell(stage, values.indexOf(largest2), 0)] };
      return { expression: `${formatCell(exponentials[row])} / (${sumText(exponentials.map((x) => formatCell(x)))})`, cells: values.map((_, k) => cell(stage, k, 1)) };
    };
    const columns = { score: values, "exp(score - largest)": exponentials, weight: exponentials.map((x) => x / sum) };
    return record.addColumns(name, "softmax: weight = exp(score - largest) / sum of these", columns, { own, origin });
  }
  function addSparsemax(record, { name, scores, inside, own }) {
    const { values } = scores;
    const order = values.map((_, k) => k).filter((k) => inside[k]).sort((a, b) => values[b] - values[a]);
    let total = 0;
    const support = order.filter((point, k) => {
      total += values[point];
      return 1 + (k + 1) * values[point] > total;
    });
    const count = support.length;
    const tau = printed((support.reduce((sum, k) => sum + values[k], 0) - 1) / count);
    const stage = record.next;
    const origin = (row, column) => {
      if (column === 0) return scoreOrigin(scores, row);
      if (column === 1) return { expression: `(${sumText(support.map((k) => factor(values[k])))} \u2212 1) / ${count}`, cells: support.map((k) => cell(stage, k, 0)) };
      if (!inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
      return { expression: `max(${formatCell(values[row])} \u2212 ${factor(tau)}, 0)`, cells: [cell(stage, row, 0), cell(stage, row, 1)] };
    };
    const formula = `sparsemax: weight = max(score - tau, 0), tau = (sum of the ${count} largest - 1) / ${count}`;
    const weight = values.map((score, k) => inside[k] ? Math.max(score - tau, 0) : 0);
    return record.addColumns(name, formula, { score: values, tau, weight }, { own, origin });
  }
  function entmaxThreshold(scaled, exponent) {
    let low = Math.max(...scaled) - 1;
    for (let width = 0.5; low + width > low; width /= 2) {
      const total = scaled.reduce((sum, x) => sum + Math.max(x - low - width, 0) ** exponent, 0);
      if (total >= 1) low += width;
    }
    return low;
  }
  function entmaxOf(alpha) {
    return (record, { name, scores, inside, own }) => {
      const { values } = scores;
      const less = alpha - 1;
      const tau = printed(entmaxThreshold(values.filter((_, k) => inside[k]).map((score) => less * score), 1 / less));
      const stage = record.next;
      const origin = (row, column) => {
        if (column === 0) return scoreOrigin(scores, row);
        if (column === 1) return { expression: "a key of the config, or learned", cells: [] };
        if (column === 2) return { expression: "the number for which the weights sum to 1", cells: values.map((_, k) => cell(stage, k, 0)) };
        if (!inside[row]) return { expression: "0, since the point is outside the window", cells: [] };
        const base = `max((${formatCell(alpha)} \u2212 1) \xD7 ${factor(values[row])} \u2212 ${factor(tau)}, 0)`;
        return { expression: `${base}^(1 / (${formatCell(alpha)} \u2212 1))`, cells: [0, 1, 2].map((each) => cell(stage, row, each)) };
      };
      const formula = "entmax: weight = max((alpha - 1) score - tau, 0)^(1 / (alpha - 1)); with tau, the weights sum to 1";
      const weight = values.map((score, k) => inside[k] ? Math.max(less * score - tau, 0) ** (1 / less) : 0);
      return record.addColumns(name, formula, { score: values, alpha, tau, weight }, { own, origin });
    };
  }
  function addHard(record, { name, scores, inside, own }) {
    const { values } = scores;
    const largest2 = Math.max(...values.filter((_, k) => inside[k]));
    const chosen = values.findIndex((score, k) => inside[k] && score === largest2);
    const stage = record.next;
    const origin = (row, column) => {
      if (column === 0) return scoreOrigin(scores, row);
      const text2 = row === chosen ? `1, since ${formatCell(values[row])} is the largest score` : `0, since ${formatCell(values[row])} is not the largest score, ${formatCell(largest2)}`;
      return { expression: text2, cells: [cell(stage, row, 0), cell(stage, chosen, 0)] };
    };
    const weight = values.map((_, k) => k === chosen ? 1 : 0);
    return record.addColumns(name, "hard: all weight on the largest score", { score: values, weight }, { own, origin });
  }
  var NORMALIZERS = { softmax: addSoftmax, sparsemax: addSparsemax, hard: addHard };
  var normalizerOf = (name, alpha) => name === "entmax" ? entmaxOf(alpha) : NORMALIZERS[name];

  // src/live/arithmetic/step.ts
  var AttentionStep = class {
    constructor(input) {
      this.input = input;
      this.record = new StageRecord(input.kind.sourceNames);
    }
    input;
    record;
    /** Return an intermediate result; see seqattn/export/live_parts.py. */
    trace(name) {
      const found = this.input.answer.trace[name];
      if (found === void 0) throw new Error(`The model of this page does not return its ${name}.`);
      return found;
    }
    parameter(name) {
      const found = this.input.parameter(name);
      if (found === void 0) throw new Error(`The model has no parameter ${name}.`);
      return found;
    }
    vector(name) {
      return this.parameter(name);
    }
    linear(name) {
      return { weight: this.parameter(`${name}.weight`), bias: this.input.parameter(`${name}.bias`) ?? null };
    }
    /** The output layer. One that is tied to the embedding of symbols has its weights, perhaps after a map to its width. */
    get outputLayer() {
      if (this.has("output")) return this.linear("output");
      const weight = this.parameter("target_modality.embedding.weight");
      const bias = this.vector("output.bias");
      return { weight, bias };
    }
    has(name) {
      return this.input.parameter(`${name}.weight`) !== void 0;
    }
    /** The number of heads. */
    get heads() {
      return Math.max(1, this.input.content.heads);
    }
    /** Return the part of an axis that belongs to the head. */
    headSlice(values) {
      const width = values.length / this.heads;
      return values.slice(this.input.head * width, (this.input.head + 1) * width);
    }
    /** The encoder states (S, H), the decoder state (H,) and the keys, values, scores and weights of the head, not rounded. */
    get states() {
      return this.trace("states");
    }
    get query() {
      return this.trace("query")[this.input.layer][this.input.step];
    }
    /** The query (K,) of the head of a Transformer. */
    get headQuery() {
      return this.trace("query")[this.input.layer][this.input.head][this.input.step];
    }
    get keys() {
      return this.trace("keys")[this.input.layer][this.input.head];
    }
    get values() {
      return this.trace("values")[this.input.layer][this.input.head];
    }
    get scores() {
      return this.trace("scores")[this.input.layer][this.input.head][this.input.step];
    }
    get weights() {
      return this.input.answer.weights[this.input.layer][this.input.head][this.input.step];
    }
    get previousWeights() {
      const { answer, layer, head, step } = this.input;
      return step > 0 ? answer.weights[layer][head][step - 1] : null;
    }
    /** The sum of the weights of all steps before this one, for each source point. */
    get coverage() {
      const { answer, layer, head, step } = this.input;
      const past = answer.weights[layer][head].slice(0, step);
      return this.states.map((_, s) => past.reduce((sum, weights) => sum + weights[s], 0));
    }
    get context() {
      return this.contexts[this.input.head];
    }
    /** The contexts (A, V) of all heads. */
    /** What the network reads in this step: a point, or the vector of a symbol. */
    get decoderInput() {
      const { answer: { trace }, step } = this.input;
      return ("embedded_input" in trace ? trace.embedded_input : trace.input)[step];
    }
    get contexts() {
      return this.trace("context")[this.input.layer].map((head) => head[this.input.step]);
    }
    /** Add the decoder state as query (K,). */
    addStateAsQuery() {
      const query = this.headSlice(this.query);
      const first = this.input.head * query.length;
      return this.record.addRow("Query", "q = h", "q", query, { origin: this.copyOf("Decoder state h", 0, first) });
    }
    /** Add the encoder states as keys (S, K). */
    addStatesAsKeys() {
      const keys = this.states.map((state) => this.headSlice(state));
      return this.record.add("Keys", "k = s, the encoder's states", keys, { origin: this.copyOf("Encoder states", null, this.input.head * keys[0].length) });
    }
    /** Return the origin of numbers that are those of another stage, whose name begins with `name`. */
    copyOf(name, row, first = 0) {
      const stage = this.record.stages.findIndex((each) => each.name.startsWith(name));
      return (r, c) => stage < 0 ? null : { expression: `the same number of \u201C${this.record.stages[stage].name}\u201D`, cells: [{ stage, row: row ?? r, column: first + c }] };
    }
    /** Add a projection of the decoder state as query (K,). */
    mapQuery(formula, name, row = "q") {
      const map = this.linear(name);
      const ofModel = this.headSlice(affine(map.weight, map.bias, this.query));
      const inputs = this.vectorOf("Decoder state h", this.query);
      return rowOf(this.addMap("Query", formula, map, inputs, [ofModel], { rows: [row], ownAs: "rows" }), 0);
    }
    /** Add a projection of the encoder states, (S, K). */
    mapStates(name, formula, module, ofModel) {
      return this.addMap(name, formula, this.linear(module), this.matrixOf("Encoder states", this.states), ofModel);
    }
    /** Return a stage of vectors that was added before. */
    matrixOf(name, numbers) {
      const stage = this.record.stages.findIndex((each) => each.name.startsWith(name));
      return { values: printedRows(numbers), stage, ref: (row, column) => ({ stage, row, column }) };
    }
    vectorOf(name, numbers) {
      return this.matrixOf(name, [numbers]);
    }
    /** Add the outputs of a linear layer that belong to the head, after its weights if they are small. */
    addMap(name, formula, map, inputs, ofModel, options = {}) {
      const { record } = this;
      const weight = printedRows(this.headSlice(map.weight));
      if (Math.max(weight.length, weight[0].length) > MAX_PRINTED_SIDE) {
        return record.add(name, `${formula}; the matrix is too large to print; it is in the checkpoint file of the run`, ofModel, { ...options, isByModel: true });
      }
      const bias = map.bias === null ? null : printedRow(this.headSlice(map.bias));
      const table = addWeights(record, `${name}: the map`, weight, bias, columnNumbers(weight.length));
      const numbers = inputs.values.map((x) => affine(weight, bias, x));
      return record.add(name, formula, numbers, { ...options, own: ofModel, origin: (row, column) => affineOrigin(table, bias !== null, column, rowOf(inputs, row)) });
    }
  };
  function addWeights(record, name, weight, bias, rows) {
    const columns = columnNumbers(weight[0].length);
    const table = bias === null ? weight : weight.map((row, k) => [...row, bias[k]]);
    return record.add(name, "", table, { rows, columns: bias === null ? columns : [...columns, "bias"] });
  }
  function affineOrigin(table, hasBias, output2, input) {
    const row = rowOf(table, output2);
    const weights = row.values.slice(0, input.values.length);
    const bias = hasBias ? ` + ${factor(row.values[row.values.length - 1])}` : "";
    return { expression: productsText(weights, input.values) + bias, cells: [...refs(row), ...refs(input)] };
  }

  // src/live/arithmetic/context.ts
  var FORCED = "forced by you";
  function addWeightStages(step, scores) {
    const { record } = step;
    if (step.input.isForced) return addForced(step);
    const { normalizer = "softmax", alpha, location: location2 } = step.input.content.config.attention ?? {};
    const normalize = normalizerOf(normalizer, alphaOf(step, alpha));
    if (!normalize) return record.addColumns("Weights", `by ${normalizer}, which does not explain its arithmetic`, { weight: step.weights }, { isByModel: true });
    if (location2?.kind === "local") return addLocalWindow(step, normalize, scores, Number(location2.window));
    if (location2?.kind === "location_shift") return addLocationShift(step, normalize, scores);
    if (location2?.kind === "monotonic") return addMonotonic(step, scores);
    return normalize(record, { name: "Weights", scores, inside: scores.values.map(() => true), own: step.weights });
  }
  function alphaOf(step, alpha) {
    if (alpha !== "learned") return alpha ?? 1.5;
    const theta = step.input.parameter("attention.normalizer.theta.value");
    return printed(1.01 + 0.99 / (1 + Math.exp(-theta[step.input.head])));
  }
  function addForced(step) {
    return step.record.addColumns("Weights", FORCED, { weight: step.weights }, { origin: () => ({ expression: "a weight that you forced", cells: [] }) });
  }
  function addWeighted(step, name, formula, weights, values, rows) {
    const numbers = values.values.map((row, s) => row.map((x) => weights.values[s] * x));
    return step.record.add(name, formula, numbers, {
      rows,
      origin: (row, column) => ({ expression: `${factor(weights.values[row])} \xD7 ${factor(values.values[row][column])}`, cells: [weights.ref(row), values.ref(row, column)] })
    });
  }
  function addSum(step, name, formula, row, parts, own) {
    const sums = parts.values[0].map((_, k) => parts.values.reduce((sum, part) => sum + part[k], 0));
    return step.record.addRow(name, formula, row, sums, {
      ownRow: own,
      origin: (_, column) => {
        const terms = columnOf(parts, column);
        return { expression: sumText(terms.values.map(factor)), cells: refs(terms) };
      }
    });
  }
  function addContext(step, weights, values) {
    const parts = addWeighted(step, "Weighted values", "weight times value", weights, values);
    return addSum(step, "Context", "the sum of the weighted values", "c", parts, step.context);
  }
  function addHeadContexts(step, context) {
    const { head } = step.input;
    const contexts = printedRows(step.contexts);
    contexts[head] = context.values;
    const table = step.record.add("Contexts of all heads", `this is head ${head + 1}, the others likewise`, contexts, {
      rows: contexts.map((_, k) => `head ${k + 1}`),
      isByModel: true,
      origin: (row, column) => row === head ? { expression: "the context of this head", cells: [context.ref(column)] } : null
    });
    const V = context.values.length;
    return { values: table.values.flat(), ref: (k) => table.ref(Math.floor(k / V), k % V) };
  }
  function addTiedInput(step, vector, name) {
    if (!step.has("output.inner")) return [vector, name];
    const { weight, bias } = step.linear("output.inner");
    const formula = `u = W_u ${name} + b_u, W_u and b_u are in the checkpoint file of the run`;
    return [step.record.addRow("Input of the output layer", formula, "u", affine(weight, bias, vector.values), { columns: columnNumbers(weight.length), isByModel: true }), "u"];
  }
  function addOutput(step, vector, name) {
    const { record, input: { kind: { outputs: { indices, names }, outputName, rowsNote }, content, step: t } } = step;
    const [input, inputName] = addTiedInput(step, vector, name);
    const { weight, bias } = step.outputLayer;
    const [W, b] = [printedRows(indices.map((k) => weight[k])), printedRow(indices.map((k) => bias[k]))];
    const table = addWeights(record, `Output layer W, b${rowsNote}`, W, b, names);
    const own = step.trace("output")[t];
    const stage = content.config.skip === "linear" ? "Network's share" : outputName;
    return record.addRow(stage, `y = W ${inputName} + b`, "y", affine(W, b, input.values), {
      columns: names,
      ownRow: indices.map((k) => own[k]),
      origin: (_, column) => affineOrigin(table, true, column, input)
    });
  }
  function concatenate(...vectors) {
    const places = vectors.flatMap((vector) => vector.values.map((_, k) => vector.ref(k)));
    return { values: vectors.flatMap((vector) => vector.values), ref: (k) => places[k] };
  }

  // src/live/arithmetic/fast_weights.ts
  var EPSILON = 1e-5;
  function memoryOf(step) {
    const { step: t, content: { config } } = step.input;
    const written = step.trace("readout").slice(0, t);
    const factors = step.trace("factors")[0][0][t];
    const later = written.map((_, k) => Number(config.rate) * Number(config.decay) ** (t - 1 - k));
    return { states: [...step.states, ...written], factors: [...factors, ...later], rows: [...step.input.kind.sourceNames, ...written.map((_, k) => `step ${k + 1}`)] };
  }
  function preactivation(step) {
    const { step: t } = step.input;
    const { states } = step;
    const hidden = t > 0 ? step.trace("readout")[t - 1] : states[states.length - 1];
    const { weight, bias } = step.linear("decoder_input");
    const projected = affine(weight, bias, step.decoderInput);
    return affine(step.linear("decoder_state").weight, null, hidden).map((x, k) => x + projected[k]);
  }
  function addStrengths(step, states, h, { factors, rows }) {
    const products = states.values.map((state) => printed(dot(state, h.values)));
    const rates = printedRow(factors);
    const stage = step.record.next;
    const at = (row, column) => ({ stage, row, column });
    const { rate, decay } = step.input.content.config;
    const origin = (row, column) => {
      const state = rowOf(states, row);
      if (column === 0) return { expression: productsText(state.values, h.values), cells: [...refs(state), ...refs(h)] };
      if (column === 1) return { expression: `${String(rate)} \xD7 ${String(decay)}^${rows.length - 1 - row}`, cells: [] };
      return { expression: `${factor(products[row])} \xD7 ${formatCell(rates[row])}`, cells: [at(row, 0), at(row, 1)] };
    };
    const columns = { "h(tau) . h": products, "rate decay^age": rates, strength: products.map((x, k) => x * rates[k]) };
    const own = rows.map((_, k) => step.weights[k] ?? NaN);
    const strengths = step.record.addColumns("Strengths", "strength = rate decay^age (h(tau) . h)", columns, { rows, own, origin });
    step.record.stages[stage].hasPointRows = true;
    return strengths;
  }
  function addNorm(step, z) {
    const { record } = step;
    const [gain, bias] = ["gain", "bias"].map((name) => printedRow(step.vector(`decoder_norm.${name}.value`)));
    const table = record.add("Layer norm's input, gain and bias", z.formula, [z.values, gain, bias], {
      rows: ["z", "gain", "bias"],
      origin: (row, column) => row === 0 ? z.origin(column) : null
    });
    const input = rowOf(table, 0);
    const mean = z.values.reduce((a, b) => a + b, 0) / z.values.length;
    const variance = z.values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / z.values.length;
    const moments = record.addRow("Mean and deviation of z", "", "z", [mean, Math.sqrt(variance + EPSILON)], {
      columns: ["mean", "deviation"],
      origin: (_, column) => ({ expression: column === 0 ? `the mean of the ${z.values.length} numbers of z` : `sqrt(the mean of (z \u2212 mean)\xB2 + ${EPSILON})`, cells: refs(input) })
    });
    const [m, deviation] = moments.values;
    const values = printedRow(z.values.map((x, k) => (x - m) / deviation * gain[k] + bias[k]));
    return {
      values,
      formula: "(z - mean) / deviation * gain + bias",
      origin: (k) => ({
        expression: `(${formatCell(z.values[k])} \u2212 ${factor(m)}) / ${formatCell(deviation)} \xD7 ${factor(gain[k])} + ${factor(bias[k])}`,
        cells: [0, 1, 2].map((row) => table.ref(row, k)).concat(refs(moments))
      })
    };
  }
  function addFastWeights(step) {
    const { record, input: { content: { config }, step: t } } = step;
    step.input.kind.addDecoderInput(step);
    const held = record.addRow("Input to the inner loop", "W h + C x, held through the inner loop", "held", preactivation(step), { isByModel: true });
    const readings = Number(config.inner_steps) - 1;
    const h = record.addRow("Query state", `after ${readings} readings`, "h", step.query, { isByModel: true });
    const memory = memoryOf(step);
    const states = record.add("States in memory", "", memory.states, { rows: memory.rows, isByModel: true });
    record.stages[states.stage].hasPointRows = true;
    const strengths = addStrengths(step, states, h, memory);
    const parts = addWeighted(step, "Weighted states", "strength times state", strengths, states, memory.rows);
    record.stages[parts.stage].hasPointRows = true;
    const read = addSum(step, "Read vector", "A h, the sum of the weighted states", "A h", parts, step.context);
    const z = {
      values: printedRow(held.values.map((x, k) => x + read.values[k])),
      formula: "held + A h",
      origin: (k) => ({ expression: `${formatCell(held.values[k])} + ${factor(read.values[k])}`, cells: [held.ref(k), read.ref(k)] })
    };
    const norm = step.input.parameter("decoder_norm.gain.value") === void 0 ? z : addNorm(step, z);
    const readout = step.trace("readout")[t];
    const state = record.addRow("New state", `tanh(${norm.formula})`, "h'", norm.values.map(Math.tanh), {
      ownRow: readout,
      origin: (_, k) => {
        const { expression, cells } = norm.origin(k);
        return { expression: `tanh(${expression})`, cells };
      }
    });
    return addOutput(step, state, "h'");
  }

  // src/live/arithmetic/scores.ts
  var squares = (x) => productsText(x, x);
  function productOrigin(query, keys, row) {
    const key2 = rowOf(keys, row);
    return { expression: productsText(query.values, key2.values), cells: [...refs(query), ...refs(key2)] };
  }
  function addProducts(step, query, keys) {
    const score = keys.values.map((key2) => dot(key2, query.values));
    return step.record.addColumns("Scores", "score = q . k", { score }, { own: step.scores, origin: (row) => productOrigin(query, keys, row) });
  }
  function addScaledProducts(step, query, keys) {
    const K = query.values.length;
    const root = printed(Math.sqrt(K));
    const products = keys.values.map((key2) => printed(dot(key2, query.values)));
    const columns = { "q . k": products, "sqrt(K)": root, score: products.map((x) => x / root) };
    const stage = step.record.next;
    const origin = (row, column) => {
      if (column === 0) return productOrigin(query, keys, row);
      if (column === 1) return { expression: `sqrt(${K})`, cells: [] };
      return { expression: `${formatCell(products[row])} / ${formatCell(root)}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
    };
    return step.record.addColumns("Scores", `score = q . k / sqrt(K), K = ${K}`, columns, { own: step.scores, origin });
  }
  function addMaps(step, keys) {
    if (!step.has("attention.score.query")) return [step.addStateAsQuery(), step.addStatesAsKeys()];
    const query = step.mapQuery("q = W_q h + b_q", "attention.score.query");
    return [query, step.mapStates("Keys", "k = W_k s + b_k of the encoder's states", "attention.score.key", keys)];
  }
  function addUniform(step) {
    const score = step.states.map(() => 0);
    return step.record.addColumns("Scores", "0 for every source point", { score }, { own: step.scores });
  }
  function addScaledDot(step) {
    const root = Math.sqrt(step.keys[0].length);
    const [query, keys] = addMaps(step, step.keys.map((key2) => key2.map((x) => x * root)));
    return addScaledProducts(step, query, keys);
  }
  function addAdditive(step) {
    const { record } = step;
    const query = step.mapQuery("W h", "attention.score.query", "W h");
    const keys = step.mapStates("Keys", "U s + b", "attention.score.key", step.keys);
    const v = record.addRow("Vector v", "", "v", step.headSlice(step.linear("attention.score.combine").weight[0]));
    const hidden = record.add("Hidden layer", "tanh(W h + U s + b)", keys.values.map((key2) => key2.map((x, k) => Math.tanh(x + query.values[k]))), {
      origin: (row, k) => ({ expression: `tanh(${formatCell(query.values[k])} + ${factor(keys.values[row][k])})`, cells: [query.ref(k), keys.ref(row, k)] })
    });
    const score = hidden.values.map((row) => dot(row, v.values));
    return record.addColumns("Scores", "score = v . tanh(W h + U s + b)", { score }, { own: step.scores, origin: (row) => productOrigin(v, hidden, row) });
  }
  function addCoverage(step) {
    const { record } = step;
    const query = step.mapQuery("W h", "attention.score.query", "W h");
    const keys = step.mapStates("Keys", "U s + b", "attention.score.key", step.keys);
    const coverage = record.add("Coverage", "the sum of the past weights", step.coverage.map((c) => [c]), {
      columns: ["c"],
      origin: () => ({ expression: "the sum of the weights of this point in the steps before", cells: [] })
    });
    const w = record.addRow("Vector w", "", "w", step.headSlice(step.linear("attention.score.coverage").weight.map(([x]) => x)));
    const v = record.addRow("Vector v", "", "v", step.headSlice(step.linear("attention.score.combine").weight[0]));
    const formula = "tanh(W h + U s + w c + b)";
    const before = (row, k) => keys.values[row][k] + query.values[k] + coverage.values[row][0] * w.values[k];
    const hidden = record.add("Hidden layer", formula, keys.values.map((key2, row) => key2.map((_, k) => Math.tanh(before(row, k)))), {
      origin: (row, k) => ({
        expression: `tanh(${formatCell(query.values[k])} + ${factor(keys.values[row][k])} + ${factor(w.values[k])} \xD7 ${factor(coverage.values[row][0])})`,
        cells: [query.ref(k), keys.ref(row, k), w.ref(k), coverage.ref(row, 0)]
      })
    });
    const score = hidden.values.map((row) => dot(row, v.values));
    return record.addColumns("Scores", `score = v . ${formula}`, { score }, { own: step.scores, origin: (row) => productOrigin(v, hidden, row) });
  }
  function cosineKeys(step) {
    if (!step.has("attention.score.key")) return step.keys;
    const { weight, bias } = step.linear("attention.score.key");
    return step.keys.map((key2, s) => {
      const projected = step.headSlice(affine(weight, bias, printedRow(step.states[s])));
      return key2.map((x) => x * Math.sqrt(dot(projected, projected)));
    });
  }
  function addCosine(step) {
    const { record } = step;
    const [q, k] = addMaps(step, cosineKeys(step));
    const length = (x) => Math.sqrt(dot(x, x)) || 1;
    const unit = (x) => ({ expression: `sqrt(${squares(x.values)})`, cells: refs(x) });
    const query = record.addRow("Query, at length 1", "q / |q|", "q", q.values.map((x) => x / length(q.values)), {
      origin: (_, column) => ({ expression: `${formatCell(q.values[column])} / ${unit(q).expression}`, cells: refs(q) })
    });
    const keys = record.add("Keys, at length 1", "k / |k|", k.values.map((key2) => key2.map((x) => x / length(key2))), {
      own: step.keys,
      origin: (row, column) => ({ expression: `${formatCell(k.values[row][column])} / ${unit(rowOf(k, row)).expression}`, cells: refs(rowOf(k, row)) })
    });
    const cos = keys.values.map((key2) => printed(dot(key2, query.values)));
    const temperature = Math.exp(step.vector("attention.score.log_temperature.value")[0]);
    const strength = printed(1 / temperature);
    const stage = record.next;
    const origin = (row, column) => {
      if (column === 0) return productOrigin(query, keys, row);
      if (column === 1) return { expression: `1 / temperature, with the learned temperature ${formatCell(temperature)}`, cells: [] };
      return { expression: `${factor(cos[row])} \xD7 ${formatCell(strength)}`, cells: [{ stage, row, column: 0 }, { stage, row, column: 1 }] };
    };
    const formula = "score = cos(q, k) times the learned strength, 1 / temperature";
    return record.addColumns("Scores", formula, { cos, strength, score: cos.map((x) => x * strength) }, { own: step.scores, origin });
  }
  function addLinear(step) {
    const { record } = step;
    const map = step.has("attention.score.key") ? step.linear("attention.score.key") : null;
    const states = step.states.map((state) => step.headSlice(map ? affine(map.weight, map.bias, state) : state));
    const [q, k] = addMaps(step, states);
    const phi = (x) => x > 0 ? x + 1 : Math.exp(x);
    const text2 = (x) => x > 0 ? `${formatCell(x)} + 1` : `exp(${formatCell(x)})`;
    const formula = "phi(x) = x + 1 if x > 0, otherwise exp(x)";
    const query = record.addRow("Query, positive", formula, "phi(q)", q.values.map(phi), {
      origin: (_, column) => ({ expression: text2(q.values[column]), cells: [q.ref(column)] })
    });
    const keys = record.add("Keys, positive", formula, k.values.map((key2) => key2.map(phi)), {
      own: step.keys,
      origin: (row, column) => ({ expression: text2(k.values[row][column]), cells: [k.ref(row, column)] })
    });
    const products = keys.values.map((key2) => printed(dot(key2, query.values)));
    const stage = record.next;
    const origin = (row, column) => column === 0 ? productOrigin(query, keys, row) : { expression: `log(${formatCell(products[row])})`, cells: [{ stage, row, column: 0 }] };
    const columns = { "phi(q) . phi(k)": products, score: products.map((x) => Math.log(Math.max(x, 1e-4))) };
    return record.addColumns("Scores", "score = log(phi(q) . phi(k))", columns, { own: step.scores, origin });
  }
  var SCORES = {
    uniform: addUniform,
    dot: (step) => addProducts(step, step.addStateAsQuery(), step.addStatesAsKeys()),
    scaled_dot: addScaledDot,
    general: (step) => addProducts(step, step.addStateAsQuery(), step.mapStates("Keys", "k = W s of the encoder's states", "attention.score.key", step.keys)),
    additive: addAdditive,
    coverage: addCoverage,
    cosine: addCosine,
    linear: addLinear
  };
  function addScores(step) {
    const { score } = step.input.content.config.attention;
    const explain = SCORES[score];
    if (explain) return explain(step);
    return step.record.addColumns("Scores", `by ${score}, which does not explain its arithmetic`, { score: step.scores }, { isByModel: true });
  }

  // src/live/arithmetic/recurrent.ts
  function addValues(step) {
    if (step.has("attention.value")) return step.mapStates("Values", "v = W_v s + b_v of the encoder's states", "attention.value", step.values);
    const width = step.values[0].length;
    return step.record.add("Values", "the encoder's states", step.values, { origin: step.copyOf("Encoder states", null, step.input.head * width) });
  }
  function addReadout(step, query, context) {
    const { record, input: { content } } = step;
    const readout = step.trace("readout")[step.input.step];
    if (content.config.context === "input") {
      const formula = "from the decoder input, the context and h, by the recurrent cell";
      return [record.addRow("New state h'", formula, "h'", readout, { isByModel: true }), "h'"];
    }
    const parts = concatenate(context, query);
    const joined = record.addRow("Joined", "[context; h]", "[c; h]", parts.values, {
      origin: (_, k) => ({ expression: k < context.values.length ? "the same number of the context" : "the same number of the decoder state h", cells: [parts.ref(k)] })
    });
    if (!step.has("combine")) return [joined, "[context; h]"];
    const { weight, bias } = step.linear("combine");
    const numbers = affine(printedRows(weight), printedRow(bias), joined.values).map(Math.tanh);
    const attentional = record.addRow("Attentional vector a", "a = tanh(W_a [context; h] + b_a), W_a and b_a are in the checkpoint file of the run", "a", numbers, {
      isByModel: true,
      ownRow: readout,
      origin: (_, k) => ({ expression: `tanh(row ${k + 1} of W_a times [context; h] + b_a), with numbers of the checkpoint file`, cells: refs(joined) })
    });
    return [attentional, "a"];
  }
  function addRecurrent(step) {
    const { record, input: { content } } = step;
    step.input.kind.addDecoderInput(step);
    record.add("Encoder states", "s, from the source, by the recurrent cell", step.states, { isByModel: true });
    const when = content.config.context === "input" ? "before this step" : "after reading that input";
    const query = rowOf(record.add(`Decoder state h, ${when}`, "", [step.query], { rows: ["h"], isByModel: true }), 0);
    const weights = addWeightStages(step, addScores(step));
    const own = addContext(step, weights, addValues(step));
    const context = step.heads > 1 ? addHeadContexts(step, own) : own;
    const readout = addReadout(step, query, context);
    return content.config.copying === true ? null : addOutput(step, ...readout);
  }

  // src/live/arithmetic/transformer.ts
  function addTransformer(step) {
    const { record, input: { layer, head } } = step;
    const query = rowOf(record.add("Query", `layer ${layer + 1}, head ${head + 1}: q = W_q x + b_q of the decoder's state`, [step.headQuery], { rows: ["q"], isByModel: true }), 0);
    const keys = record.add("Keys", "k = W_k s + b_k of the encoder's output", step.keys, { isByModel: true });
    const weights = addWeightStages(step, addScaledProducts(step, query, keys));
    const values = record.add("Values", "v = W_v s + b_v of the encoder's output", step.values, { isByModel: true });
    const contexts = addHeadContexts(step, addContext(step, weights, values));
    const { weight, bias } = step.linear(`decoder.${layer}.cross.out`);
    const output2 = affine(printedRows(weight), printedRow(bias), contexts.values);
    record.addRow("Cross-attention output", "W_o [contexts] + b_o, W_o and b_o are in the checkpoint file of the run; the rest of the decoder follows", "+", output2, {
      isByModel: true,
      origin: (_, k) => ({ expression: `row ${k + 1} of W_o times [contexts] + b_o, with numbers of the checkpoint file`, cells: refs(contexts) })
    });
  }

  // src/live/arithmetic.ts
  var MAX_POINTS2 = 8;
  function explainStep(input) {
    if (input.content.layers === 0) throw new Error("This model has no attention.");
    const step = new AttentionStep(input);
    const { kind } = input;
    kind.addSource(step);
    let output2 = null;
    if (input.content.config.kind === "recurrent") output2 = addRecurrent(step);
    else if (input.content.config.kind === "fast_weights") output2 = addFastWeights(step);
    else {
      kind.addDecoderInput(step);
      addTransformer(step);
    }
    kind.addResult(step, output2);
    return step.record.stages;
  }
  function shownRows(weights) {
    const order = weights.map((_, k) => k);
    if (order.length <= MAX_POINTS2) return order;
    return order.sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b).slice(0, MAX_POINTS2).sort((a, b) => a - b);
  }
  function describeCell2(stages, stage, row, column) {
    const { numbers, own, origin, formula, isByModel, digits } = stages[stage];
    const number = formatCell(numbers[row][column], digits);
    const found = origin(row, column);
    let text2 = found ? `${number} = ${found.expression}` : number;
    if (!found) {
      if (isByModel) text2 += `, from the model, by parameters that are not printed${formula ? ` (${formula})` : ""}`;
      else text2 += formula ? ` (${formula})` : ", given";
    }
    const exact = own?.[row]?.[column];
    if (exact !== void 0 && Number.isFinite(exact)) text2 += `. Without rounding, it is ${formatCell(exact, DECIMALS + 4)}.`;
    return text2;
  }

  // src/live/arithmetic_panel.ts
  var HINT = "Move over a number, or choose one with Tab and the arrow keys: this line shows where it comes from.";
  var KEYS = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1]
  };
  var key = (row, column) => `${row}/${column}`;
  var hasOwn = (stage) => stage.own !== null && stage.ownAs !== "origin";
  var ArithmeticPanel = class _ArithmeticPanel {
    constructor(explorer, source) {
      this.explorer = explorer;
      this.source = source;
      explorer.useTrace(() => this.details.open);
      this.details.addEventListener("toggle", () => {
        this.show();
      });
      this.place.addEventListener("pointerover", (event) => {
        this.choose(this.find(event.target));
      });
      this.place.addEventListener("pointerleave", () => {
        this.choose(this.find(document.activeElement));
      });
      this.place.addEventListener("focusin", (event) => {
        this.choose(this.find(event.target));
      });
      this.place.addEventListener("focusout", () => {
        this.choose(null);
      });
      this.place.addEventListener("keydown", (event) => {
        this.move(event);
      });
    }
    explorer;
    source;
    details = byId("live-arithmetic");
    place = byId("live-arithmetic-stages");
    line = byId("live-arithmetic-line");
    stages = [];
    tables = [];
    /** The names, rows and columns of the tables on the page. Tables of the same form get new numbers only. */
    form = "";
    chosen = null;
    /** Called with the name of the stage whose number is chosen; null if none is. */
    onChoose = () => void 0;
    isPending = false;
    parameters = /* @__PURE__ */ new Map();
    parametersOf = "";
    /** Follow an answer; many in one frame are shown once. Nothing is computed while the panel is closed. */
    follow() {
      if (!this.details.open || this.isPending) return;
      this.isPending = true;
      requestAnimationFrame(() => {
        this.isPending = false;
        this.show();
      });
    }
    /** Open the panel at the first stage whose name begins with one of some words. */
    async reveal(names) {
      this.details.open = true;
      await this.explorer.update();
      this.show();
      const stage = this.stages.findIndex(({ name }) => names.some((each) => name.startsWith(each)));
      const cell3 = this.place.querySelector(`[data-stage="${stage}"] td[data-cell]`);
      cell3?.scrollIntoView({ block: "center" });
      cell3?.focus();
    }
    show() {
      const { scene } = this.explorer;
      if (!this.details.open || !scene) return;
      if (!scene.hasTrace) {
        void this.explorer.update();
        return;
      }
      const title = byId("live-arithmetic-title");
      try {
        const rows = this.explain(scene);
        title.textContent = describeStep2(this.explorer, this.source.name(), rows);
      } catch (error2) {
        this.place.replaceChildren();
        [this.stages, this.tables, this.form] = [[], [], ""];
        title.textContent = messageOf(error2);
      }
      this.choose(this.chosen);
    }
    /** Show the stages, and return the shown rows of the weights and their count. */
    explain({ state }) {
      if (state.kind === "encoder_self") throw new Error("The arithmetic is that of the attention to the source. Choose that attention to see it.");
      this.stages = explainStep(this.source.input((name) => this.parameter(name)));
      const weights = this.stages.find(({ name }) => name === "Weights" || name === "Strengths").numbers.map((row) => row[row.length - 1]);
      const rows = shownRows(weights);
      this.render(rows);
      return { shown: rows.length, count: weights.length };
    }
    /** Return a parameter of the first model. */
    parameter(name) {
      const [{ model, run, epoch }] = this.explorer.scene.state.subjects;
      const live = this.explorer.models[model];
      const frame = JSON.stringify([model, run, epoch]);
      if (frame !== this.parametersOf) this.parameters.clear();
      this.parametersOf = frame;
      if (!this.parameters.has(name)) this.parameters.set(name, live.parameter(name, live.findRun(run), epoch));
      return this.parameters.get(name);
    }
    /** Return the shown rows of a stage. Fast weights have stages of the source alone, and of the whole memory. */
    static rowsOf(stage, shown) {
      const all = stage.rows.map((_, k) => k);
      if (!stage.hasPointRows || all.length <= MAX_POINTS2) return all;
      const some = shown.filter((row) => row < all.length);
      return some.length ? some : all.slice(0, MAX_POINTS2);
    }
    render(shown) {
      const rows = this.stages.map((stage) => _ArithmeticPanel.rowsOf(stage, shown));
      const form = JSON.stringify(this.stages.map((stage, k) => [stage.name, stage.formula, stage.columns, rows[k].map((row) => stage.rows[row]), hasOwn(stage)]));
      if (form !== this.form) {
        this.tables = [];
        this.place.replaceChildren(...this.stages.map((stage, k) => this.build(stage, k, rows[k])));
        this.form = form;
      }
      for (const [k, stage] of this.stages.entries()) this.fill(stage, this.tables[k], rows[k]);
    }
    /** Write the numbers of a stage into its cells. */
    fill(stage, table, rows) {
      const set = (cell3, text2) => {
        if (cell3.textContent !== text2) cell3.textContent = text2;
      };
      table.rows = [...rows];
      for (const [place3, row] of rows.entries()) {
        for (const [column, x] of stage.numbers[row].entries()) set(table.cells.get(key(place3, column)), formatCell(x, stage.digits));
      }
      const own = !hasOwn(stage) ? [] : stage.ownAs === "column" ? rows.map((row) => stage.own[row][stage.columns.length - 1]) : stage.own.flat();
      for (const [k, cell3] of table.own.entries()) set(cell3, Number.isFinite(own[k]) ? formatCell(own[k], stage.digits) : "");
    }
    build(stage, index, rows) {
      const block = document.createElement("div");
      block.className = "stage";
      block.dataset.stage = String(index);
      const heading = textElement("h3", stage.name);
      heading.id = `live-stage-${index}`;
      block.append(heading);
      if (stage.formula) block.append(formulaElement(stage.formula));
      const table = document.createElement("table");
      table.setAttribute("aria-labelledby", heading.id);
      table.setAttribute("role", "grid");
      const built = { cells: /* @__PURE__ */ new Map(), rows: [...rows], own: [] };
      const isColumn = hasOwn(stage) && stage.ownAs === "column";
      const head = table.createTHead().insertRow();
      head.append(headerCell("", "col"), ...stage.columns.map((name) => headerCell(name, "col")), ...isColumn ? [headerCell("not rounded", "col")] : []);
      if (isColumn) head.lastElementChild.classList.add("exact");
      const body = table.createTBody();
      for (const [place3, row] of rows.entries()) {
        const line = body.insertRow();
        line.append(headerCell(stage.rows[row], "row"));
        for (const column of stage.columns.keys()) {
          const cell3 = line.insertCell();
          cell3.className = "number";
          cell3.tabIndex = place3 === 0 && column === 0 ? 0 : -1;
          cell3.dataset.cell = key(place3, column);
          built.cells.set(key(place3, column), cell3);
        }
        if (isColumn) built.own.push(ownCell(line));
      }
      if (hasOwn(stage) && !isColumn) {
        const line = body.insertRow();
        line.className = "exact";
        line.append(headerCell("not rounded", "row"));
        built.own.push(...stage.columns.map(() => ownCell(line)));
      }
      block.append(table);
      this.tables[index] = built;
      return block;
    }
    /** Return the number that an element of the panel shows; null if it shows none. */
    find(element) {
      const cell3 = element instanceof Element ? element.closest("td[data-cell]") : null;
      const block = cell3?.closest("[data-stage]");
      if (!cell3 || !block || !this.place.contains(cell3)) return null;
      const [place3, column] = cell3.dataset.cell.split("/").map(Number);
      const stage = Number(block.dataset.stage);
      return { stage, row: this.tables[stage].rows[place3], column };
    }
    cellOf({ stage, row, column }) {
      const table = this.tables[stage];
      return table?.cells.get(key(table.rows.indexOf(row), column));
    }
    /** Show where a number comes from, and mark the cells that it is computed from. */
    choose(ref) {
      for (const cell3 of this.place.querySelectorAll(".chosen, .origin")) cell3.classList.remove("chosen", "origin");
      this.chosen = ref && this.cellOf(ref) ? ref : null;
      this.onChoose(this.chosen && this.stages[this.chosen.stage].name);
      if (!this.chosen) {
        this.line.textContent = this.stages.length ? HINT : "";
        return;
      }
      const { stage, row, column } = this.chosen;
      this.cellOf(this.chosen).classList.add("chosen");
      for (const each of this.stages[stage].origin(row, column)?.cells ?? []) this.cellOf(each)?.classList.add("origin");
      this.line.textContent = describeCell2(this.stages, stage, row, column);
    }
    /** Move the focus within a table by the arrow keys. */
    move(event) {
      const direction = KEYS[event.key];
      const cell3 = event.target instanceof Element ? event.target.closest("td[data-cell]") : null;
      const table = this.tables[Number(cell3?.closest("[data-stage]")?.dataset.stage)];
      if (!direction || !cell3 || !table) return;
      const [place3, column] = cell3.dataset.cell.split("/").map(Number);
      const next = table.cells.get(key(place3 + direction[0], column + direction[1]));
      event.preventDefault();
      if (!next) return;
      cell3.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  };
  function formulaElement(formula) {
    const code = document.createElement("code");
    for (const [k, part] of formula.split(/(?<=[A-Za-z])_([A-Za-z0-9]+)/).entries()) {
      if (k % 2 === 0) {
        code.append(part);
        continue;
      }
      const index = document.createElement("sub");
      const underscore = textElement("span", "_");
      underscore.className = "spoken";
      index.append(underscore, part);
      code.append(index);
    }
    return code;
  }
  function headerCell(text2, scope) {
    const cell3 = textElement("th", text2);
    cell3.scope = scope;
    if (scope === "col") cell3.className = "number";
    return cell3;
  }
  function ownCell(line) {
    const cell3 = line.insertCell();
    cell3.className = "number exact";
    return cell3;
  }
  function describeStep2({ first: { layers, heads }, state, scene }, name, { shown, count }) {
    const all = scene.shown;
    const places = [name];
    if (layers > 1) places.push(`layer ${state.layer + 1}`);
    if (heads > 1) places.push(`head ${state.head + 1}`);
    if (all.length > 1) places.push(all[0].name);
    let text2 = `Attention to the source: ${places.join(", ")}. Each number is computed from the rounded numbers above it; "not rounded" marks the same numbers as the model computes them, without rounding in between.`;
    if (shown < count) text2 += ` The tables show the ${shown} of ${count} source steps with the largest weights; sums run over all of them.`;
    return text2;
  }
  function addArithmetic(explorer, source) {
    const panel = new ArithmeticPanel(explorer, source);
    explorer.onAnswer(() => {
      panel.follow();
    });
    return panel;
  }

  // src/live/legend.ts
  function entry(name, ...marks2) {
    const picture = svg("svg", { viewBox: "0 0 22 16", width: 22, height: 16, "aria-hidden": "true" }, ...marks2);
    const made = document.createElement("span");
    made.append(picture, textElement("span", name));
    return made;
  }
  function entries({ shown, state: { truth } }) {
    const { soft, accent, ink } = theme();
    const line = (colour, dashes) => svg("line", { x1: 0, x2: 22, y1: 8, y2: 8, stroke: colour, "stroke-width": 1.5, "stroke-dasharray": dashes });
    const found = [entry("source", line(soft, "none"), svg("circle", { cx: 11, cy: 8, r: 5, fill: soft, stroke: ink }))];
    if (truth) found.push(entry("truth", line(accent, "2 4"), svg("path", { d: "M7 4l8 8m0 -8l-8 8", stroke: accent, "stroke-width": 1.5 })));
    for (const { name, colour } of shown) {
      const label = shown.length > 1 ? `forecast of ${name}` : "forecast";
      found.push(entry(label, line(colour, "none"), svg("path", { d: "M11 3L16 8L11 13L6 8Z", fill: colour })));
    }
    const forced = shown.filter(({ answer, own }) => answer !== own);
    for (const { name, colour } of forced) found.push(entry(shown.length > 1 ? `forecast of ${name} with its own weights` : "forecast with the model's own weights", line(colour, "6 4")));
    return found;
  }
  function addLegend(explorer) {
    const place3 = document.createElement("p");
    place3.id = "live-legend";
    byId("live-path").after(place3);
    explorer.onAnswer((scene) => {
      place3.replaceChildren(...entries(scene));
    });
  }

  // src/words/decode.ts
  var LENGTH_PENALTY = 0.6;
  function logProbabilities(logits) {
    const isPossible = (symbol) => symbol !== PAD && symbol !== BEGIN;
    const largest2 = logits.reduce((most, x, k) => isPossible(k) && x > most ? x : most, -Infinity);
    const sum = logits.reduce((total, x, k) => isPossible(k) ? total + Math.exp(x - largest2) : total, 0);
    const normalizer = largest2 + Math.log(sum);
    return logits.map((x, k) => isPossible(k) ? x - normalizer : -Infinity);
  }
  function largest(values, count) {
    const found = [];
    for (const [k, value] of values.entries()) {
      if (value === -Infinity || found.length === count && value <= values[found[count - 1]]) continue;
      let place3 = found.length;
      while (place3 > 0 && values[found[place3 - 1]] < value) place3 -= 1;
      found.splice(place3, 0, k);
      found.length = Math.min(found.length, count);
    }
    return found;
  }
  var penalty = (length) => ((5 + length) / 6) ** LENGTH_PENALTY;
  async function beamSearch(ask, beam, steps, given = []) {
    let kept = [{ symbols: [], logProbability: 0, score: 0 }];
    let ended = [];
    const rank = (found) => found.sort((a, b) => b.score - a.score).slice(0, beam);
    for (let t = 0; t < steps && kept.length; t += 1) {
      const logits = await ask(kept.map(({ symbols }) => symbols));
      const candidates = kept.flatMap(({ symbols, logProbability }, k) => {
        const next = logProbabilities(logits[k]);
        const chosen = t < given.length ? [given[t]] : largest(next, 2 * beam);
        return chosen.map((symbol) => ({ symbols: [...symbols, symbol], logProbability: logProbability + next[symbol], score: 0 }));
      });
      const best = candidates.sort((a, b) => b.logProbability - a.logProbability).slice(0, 2 * beam);
      for (const each of best) each.score = each.logProbability / penalty(t + 1);
      ended = rank([...ended, ...best.filter(({ symbols }) => symbols[t] === END)]);
      kept = best.filter(({ symbols }) => symbols[t] !== END).slice(0, beam);
      if (ended.length === beam && kept.length && ended[beam - 1].score >= kept[0].logProbability / penalty(steps)) return ended;
    }
    for (const each of kept) each.score = each.logProbability / penalty(steps);
    return [...ended, ...kept].slice(0, beam);
  }

  // src/words/model.ts
  var OWN = -1n;
  var FIRST_STEPS = 16;
  var LOGITS = "logits";
  var firstSteps = (maps, T, isSelf) => maps.map((heads) => heads.map((rows) => rows.slice(0, T).map((row) => isSelf ? row.slice(0, T) : row)));
  function cut(answer) {
    const end = answer.symbols.indexOf(END);
    if (end < 0) return answer;
    const T = end + 1;
    const { cross, decoder_self: own } = answer.maps;
    const maps = { ...answer.maps, ...cross ? { cross: firstSteps(cross, T, false) } : {}, ...own ? { decoder_self: firstSteps(own, T, true) } : {} };
    return { ...answer, symbols: answer.symbols.slice(0, T), logits: answer.logits.slice(0, T), maps, weights: maps.cross ?? [] };
  }
  function withinSteps(force, steps) {
    return force && "rows" in force ? { rows: force.rows.filter(({ step }) => step <= steps) } : force;
  }
  var WordModel = class _WordModel extends GraphModel {
    source = new Vocabulary(this.content.source_vocabulary);
    target = new Vocabulary(this.content.target_vocabulary);
    /** Load a model.
     *
     * @throws Error - if the graph is damaged.
     */
    static async load(content) {
      const model = new _WordModel(content, await createSession(await decodeGzip(content.graph)));
      await model.unpackRuns();
      return model;
    }
    /** Check that the model can read a source.
     *
     * @throws Error - if it cannot.
     */
    checkSource(source) {
      const { max_length: longest } = this.content;
      if (!source.length) throw new Error("Type a source.");
      if (longest !== null && source.length > longest) throw new Error(`This Transformer has learned ${longest} positions; the source has ${source.length} symbols.`);
    }
    /** Find the output for a source of S symbols.
     *
     * @throws Error - if the source, the forced weights, the epoch or the run do not fit the model.
     */
    async answer(source, { beam, given }, options = {}) {
      this.checkSource(source);
      const { steps: most } = this.content;
      if (beam === 1) {
        for (let steps = Math.min(most, FIRST_STEPS); ; steps = Math.min(most, 2 * steps)) {
          const answer = await this.write(source, steps, given, options);
          if (answer.symbols.includes(END) || steps === most) return cut(answer);
        }
      }
      const ask = async (beginnings) => {
        const results = await this.compute(source, beginnings[0].length + 1, beginnings, options, [LOGITS]);
        const { data, dims: [, steps, V] } = results[LOGITS];
        return beginnings.map((_, n) => nest(data, [V], (n * steps + steps - 1) * V));
      };
      const hypotheses = await beamSearch(ask, beam, most, given);
      const [{ symbols }] = hypotheses;
      return { ...await this.write(source, symbols.length, symbols, options), hypotheses };
    }
    /** Write a number of steps, of which the first are given. */
    async write(source, steps, given, options) {
      const results = await this.compute(source, steps, [given], options, chooseOutputs(this.session.outputNames, options.outputs === "forecast" ? "weights" : options.outputs));
      const rows = (name) => nest(results[name].data, results[name].dims.slice(1));
      return { symbols: rows(FORECAST).map(([symbol]) => symbol), logits: rows(LOGITS), hypotheses: [], ...readAttended(results) };
    }
    compute(source, steps, beginnings, options, outputs) {
      const [S, N] = [source.length, beginnings.length];
      const numbers = beginnings.flatMap(() => source.map(BigInt));
      const given = Array.from({ length: steps }, (_, t) => beginnings.map((symbols) => t < symbols.length ? BigInt(symbols[t]) : OWN)).flat();
      return this.session.run({
        source: tensor("int64", BigInt64Array.from(numbers), [N, S, 1]),
        given: tensor("int64", BigInt64Array.from(given), [steps, N, 1]),
        ...this.feeds(S, steps, N, { ...options, force: withinSteps(options.force, steps) })
      }, outputs);
    }
  };
  var probabilities = (logits) => logProbabilities(logits).map(Math.exp);

  // src/words/alternatives.ts
  var MAX_ALTERNATIVES = 5;
  function alternativesOf(logits, count = MAX_ALTERNATIVES) {
    const found = probabilities(logits);
    return largest(found, count).map((symbol) => ({ symbol, probability: found[symbol] }));
  }
  function showAlternatives(place3, alternatives, nameOf, written, choose) {
    place3.replaceChildren(...alternatives.map(({ symbol, probability }) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "alternative";
      button.dataset.symbol = String(symbol);
      button.setAttribute("aria-pressed", String(symbol === written));
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${(8 * probability).toFixed(2)}rem`;
      const track = document.createElement("span");
      track.className = "bar-place";
      track.append(bar);
      button.append(textElement("strong", visible(nameOf(symbol))), track, textElement("span", probability < 5e-4 ? "<\xA00.001" : probability.toFixed(3)));
      button.addEventListener("click", () => {
        choose(symbol);
      });
      return button;
    }));
  }

  // src/words/heads_grid.ts
  function showHeads(place3, heads, isChosen2, choose) {
    place3.replaceChildren(...heads.map((picture) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "head-picture";
      button.setAttribute("aria-pressed", String(isChosen2(picture)));
      button.append(canvasOf(picture), textElement("span", picture.name));
      button.addEventListener("click", () => {
        choose(picture);
      });
      return button;
    }));
  }
  function canvasOf({ rows, scale }) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [rows[0].length, rows.length];
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(canvas.width, canvas.height);
    for (const [k, weight] of rows.flat().entries()) pixels.data.set([...scale.colour(weight), 255], 4 * k);
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  // src/words/lines_plot.ts
  var ROW = 22;
  var FONT2 = 15;
  var TOP2 = 26;
  var LONGEST = 18;
  var MIN_SHARE2 = 0.02;
  var PAD2 = 8;
  var LinesPlot = class {
    constructor(place3, events) {
      this.place = place3;
      this.events = events;
      place3.replaceChildren(this.root);
    }
    place;
    events;
    root = svg("svg", { role: "img" });
    draw(view) {
      const { rowLabels, columnLabels, chosen } = view;
      const width = Math.min(560, Math.max(240, this.place.clientWidth));
      const count = Math.max(rowLabels.length, columnLabels.length);
      const height = TOP2 + count * ROW + 8;
      this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.root.setAttribute("width", String(width));
      this.root.setAttribute("height", String(height));
      this.root.setAttribute("aria-label", `Lines from the symbols of the output to those of the source, as wide as their weights; the chosen one is ${rowLabels[chosen]}`);
      const side = (labels) => Math.max(60, ...labels.map((label) => textWidth(shorten(label, LONGEST), FONT2))) + 2 * PAD2;
      const [left, right] = [side(columnLabels), width - side(rowLabels)];
      const y = (k) => TOP2 + (k + 0.5) * ROW;
      const { soft } = theme();
      const title = (x, text2, anchor) => svg("text", { x, y: 15, "font-size": 13, fill: soft, "text-anchor": anchor }, text2);
      this.root.replaceChildren(
        title(left - PAD2, view.across, "end"),
        title(right + PAD2, view.down, "start"),
        ...this.lines(view, left, right, y),
        ...columnLabels.map((label, s) => this.symbol(label, { x: left - PAD2, y: y(s), anchor: "end", share: view.rows[chosen]?.[s] ?? 0 }, view, () => {
          this.events.chooseCell(chosen, s);
        })),
        ...rowLabels.map((label, t) => this.symbol(label, { x: right + PAD2, y: y(t), anchor: "start", share: t === chosen ? view.scale.high : 0 }, view, () => {
          this.events.chooseStep(t);
        }, view.isForced(t)))
      );
    }
    lines({ rows, chosen, scale, links }, left, right, y) {
      const { accent, warn, soft } = theme();
      const line = (t, s, weight) => {
        const share = Math.min(1, Math.abs(weight) / scale.high);
        if (share < MIN_SHARE2) return null;
        const isChosen2 = t === chosen;
        return svg("line", { x1: left, y1: y(s), x2: right, y2: y(t), stroke: isChosen2 ? weight < 0 ? warn : accent : soft, "stroke-width": 0.5 + 5.5 * share, "stroke-opacity": isChosen2 ? 0.35 + 0.65 * share : 0.28 * share, "stroke-linecap": "round" });
      };
      const order = [...rows.keys()].sort((a, b) => Number(a === chosen) - Number(b === chosen));
      const drawn = order.flatMap((t) => rows[t].map((weight, s) => line(t, s, weight)).filter((each) => each !== null));
      const known = links.filter(({ row, column }) => row < rows.length && column < rows[0].length).map(({ row, column, isPossible }) => svg("line", { x1: left, y1: y(column), x2: right, y2: y(row), stroke: warn, "stroke-width": 1.5, "stroke-dasharray": isPossible ? "2 5" : "7 4", "stroke-opacity": row === chosen ? 1 : 0.25 }));
      return [...drawn, ...known];
    }
    symbol(label, { x, y, anchor, share }, { scale }, act, isForced3 = false) {
      const { ink, warn, ground } = theme();
      const shown = shorten(label, LONGEST);
      const width = textWidth(shown, FONT2) + 8;
      const isStrong = Math.abs(share) >= MIN_SHARE2 * scale.high;
      const back = svg("rect", { x: anchor === "end" ? x - width + 4 : x - 4, y: y - ROW / 2 + 1, width, height: ROW - 2, rx: 4, fill: isStrong ? rgb(scale.colour(share)) : ground, "fill-opacity": isStrong ? 0.4 : 0, stroke: isForced3 ? warn : "none" });
      const group = svg("g", { class: "line-symbol" }, back, svg("text", { x, y: y + 5, "font-size": FONT2, "text-anchor": anchor, fill: ink }, shown), svg("title", {}, `${label}${share ? ` ${withMinus(share.toFixed(3))}` : ""}`));
      group.style.cursor = "pointer";
      group.addEventListener("click", act);
      return group;
    }
  };

  // src/words/scene.ts
  var MAX_ATTENDED3 = 3;
  var quoted = (symbol) => `\u201C${visible(symbol)}\u201D`;
  function symbolNames({ state: { kind, source }, shown: [{ symbols }] }) {
    const ofSource = (k) => `source symbol ${k + 1}, ${quoted(source[k])}`;
    const ofOutput = (k) => `output symbol ${k + 1}, ${quoted(symbols[k] ?? "")}`;
    const ofInput = (k) => k === 0 ? "the begin" : ofOutput(k - 1);
    return { row: kind === "encoder_self" ? ofSource : ofOutput, column: kind === "decoder_self" ? ofInput : ofSource };
  }
  function linksOf({ links, truth }, { answer: { symbols } }) {
    const wrong = symbols.findIndex((symbol, t) => symbol !== truth?.symbols[t]);
    return wrong < 0 ? links : links.filter(({ row }) => row < wrong);
  }
  function wordMatrix(scene, shown) {
    const { state, canForce: canForce2 } = scene;
    const { kind, source } = state;
    const rows = weightsOf(shown.answer, kind, state.layer, state.head);
    const isCross = kind === "cross";
    const [ofSource, ofOutput] = [source.map(visible), shown.symbols.map(visible)];
    return {
      rows,
      scale: scaleOf(scene, shown),
      names: symbolNames({ state, shown: [shown] }),
      isNumbered: false,
      rowLabels: kind === "encoder_self" ? ofSource : ofOutput,
      columnLabels: kind === "decoder_self" ? ["begin", ...ofOutput].slice(0, rows.length) : ofSource,
      down: kind === "encoder_self" ? "source" : "output",
      across: kind === "decoder_self" ? "symbols written before" : "source",
      chosen: Math.min(state.step, rows.length - 1),
      canForce: canForce2 && isCross,
      isForced: (row) => isForced2(scene, row),
      links: isCross ? linksOf(scene, shown) : []
    };
  }
  function attended2(row, names) {
    return row.map((weight, k) => [weight, k]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, MAX_ATTENDED3).map(([weight, k]) => `${names.column(k)}, with ${withMinus(weight.toFixed(3))}`).join("; ");
  }
  function describeAttention(scene) {
    const { state, shown: [first] } = scene;
    const names = symbolNames(scene);
    const row = weightsOf(first.answer, state.kind, state.layer, state.head)[state.step];
    const name = capitalize(names.row(state.step));
    if (!row) return `${name}.`;
    if (first.meaning === "distribution" && isKnockedOut(row)) return `${name}: its weights are knocked out, so all are 0 and do not add up to 1.`;
    if (isForced2(scene, state.step)) return `${name}: you changed its weights, so they are not the model's own. It reads ${attended2(row, names)}.`;
    return `${name}, reads ${attended2(row, names)}.${describeLink(scene, row)}`;
  }
  function describeLink(scene, row) {
    const { state: { kind, step, source }, readsAll, shown: [first] } = scene;
    const { meaning } = first;
    const linked = linksOf(scene, first).filter((link) => link.row === step).map(({ column }) => column).sort((a, b) => a - b);
    const most = row.indexOf(Math.max(...row));
    if (kind !== "cross" || meaning === "strength" || !linked.length || linked.includes(most)) return "";
    const numbers = linked.map((column) => column + 1);
    const isRange = linked.length > 2 && linked[linked.length - 1] - linked[0] + 1 === linked.length;
    const wanted = linked.length === 1 ? `source symbol ${numbers[0]}, ${quoted(source[linked[0]])}` : `source symbols ${isRange ? `${numbers[0]} to ${numbers[numbers.length - 1]}` : numbers.join(", ")}`;
    const isCarried = readsAll || linked.some((column) => column < most);
    const reason = readsAll ? "the encoder reads the whole source" : "the encoder carries along what it has read";
    return ` The known link is to ${wanted}.${isCarried ? ` The state that is read most can carry it too, because ${reason}.` : ""}`;
  }
  function isChosen({ answer: { symbols, logits }, own }, step) {
    const [best] = largest(logProbabilities(logits[step]), 1);
    return symbols[step] !== best && symbols[step] !== own.symbols[step];
  }
  function describeSymbol({ state: { kind, step, given }, shown: [first] }) {
    const { answer, symbols } = first;
    if (kind === "encoder_self" || step >= symbols.length) return "";
    const probability = probabilities(answer.logits[step])[answer.symbols[step]];
    const chosen = step < given.length && isChosen(first, step) ? " You chose this symbol." : "";
    return `${chosen} The model gives it the probability ${probability < 5e-4 ? "< 0.001" : probability.toFixed(3)}.`;
  }
  function describeOutput({ shown, truth }) {
    return shown.map(({ name, text: text2, ownText }) => {
      const label = shown.length > 1 ? `${name}: ` : "";
      const change = text2 === ownText ? "" : ` Left alone, the model writes \u201C${ownText}\u201D.`;
      const verdict = truth === null ? "" : text2 === truth.text ? " This is right." : ` The true output is \u201C${truth.text}\u201D.`;
      return `${label}Output: \u201C${text2}\u201D.${verdict}${change}`;
    }).join(" ");
  }
  function describeWords(scene) {
    const { state: { source }, isKnown, trainedLength } = scene;
    const unknown = source.filter((_, k) => !isKnown[k]).map(quoted);
    const strange = unknown.length ? ` Not in the vocabulary: ${[...new Set(unknown)].join(", ")}; the model reads an unknown symbol there.${scene.hint}` : "";
    const mostly = 3 * unknown.length > source.length ? " These are more than a third of the source, and the training says nothing about the output for such a source." : "";
    const longer = source.length > trainedLength ? ` The source has ${source.length} symbols, more than every training source: the longest has ${trainedLength}.` : "";
    return `${describeAttention(scene)}${describeSymbol(scene)} ${describeOutput(scene)}${strange}${mostly}${longer}`;
  }

  // src/words/state.ts
  var BEAMS = [1, 2, 5, 10];
  var PICTURES = ["heatmap", "lines", "heads"];
  var MAX_SYMBOLS = 2e3;
  function toWordFragment(state, page) {
    const shared = {
      p: page,
      e: state.example,
      m: state.subjects.map(({ model, run, epoch }) => [model, run, epoch]),
      k: state.kind,
      v: [state.layer, state.head, state.step, PICTURES.indexOf(state.picture)]
    };
    if (state.isChanged || state.example === null) shared.s = state.source;
    if (state.given.length) shared.g = state.given;
    if (state.beam > 1) shared.b = state.beam;
    if (state.force.size) shared.f = state.force.list;
    if (state.isRelative) shared.r = 1;
    return FRAGMENT_PREFIX + encodeURIComponent(JSON.stringify(shared));
  }
  var isText = (s, { longest }) => Array.isArray(s) && s.length >= 1 && s.length <= (longest ?? MAX_SYMBOLS) && s.every((symbol) => typeof symbol === "string" && symbol !== "");
  var areIndices = (list, counts) => Array.isArray(list) && list.length === counts.length && list.every((value, k) => isIndex(value, counts[k]));
  function hasSource({ p, e, s }, limits) {
    if (p !== limits.page || s !== void 0 && !isText(s, limits)) return false;
    return e === null ? s !== void 0 : isIndex(e, limits.examples.length);
  }
  function hasChoices({ e, s, g = [], b = 1, f = [] }, limits) {
    const length = s ? s.length : limits.examples[e];
    if (!Array.isArray(g) || !Array.isArray(f) || !BEAMS.includes(b) || g.length > limits.steps) return false;
    return g.every((symbol) => isIndex(symbol, limits.symbols)) && f.every((row) => isForced(row, limits, length));
  }
  function check2(shared, limits) {
    const { e, s, g = [], b = 1, f = [], m, k, v, r } = shared;
    const { layers, heads } = limits;
    if (!hasSource(shared, limits) || !hasChoices(shared, limits) || !isKind(k)) return null;
    const subjects = readSubjects(m, limits);
    if (!subjects || !areIndices(v, [Math.max(1, layers), Math.max(1, heads), MAX_SYMBOLS, PICTURES.length])) return null;
    const force = new ForcedRows();
    for (const row of f) force.set(row.step, row.layer, row.head, row.weights);
    const [layer, head, step, picture] = v;
    return { example: e ?? null, source: s ?? null, given: g, beam: b, subjects, force, kind: k, layer, head, step, picture: PICTURES[picture], isRelative: r === 1 };
  }
  function fromWordFragment(fragment, limits) {
    if (!fragment.startsWith(FRAGMENT_PREFIX)) return null;
    try {
      return check2(JSON.parse(decodeURIComponent(fragment.slice(FRAGMENT_PREFIX.length))), limits);
    } catch {
      return null;
    }
  }

  // src/words/explorer.ts
  var MAX_NAME2 = 40;
  var EMPTY = "The source is empty. The page still shows the last one.";
  var TYPING = 120;
  var PICTURE_NAMES = { heatmap: "Heatmap", lines: "Lines", heads: "All heads" };
  function wordPage({ live }) {
    if (!live?.models.length || !live.words) return null;
    return { live, examples: live.words };
  }
  var WordExplorer = class _WordExplorer extends Explorer2 {
    constructor(page, models) {
      super(models);
      this.page = page;
      const [{ source }] = models;
      this.names = page.examples.sources.map((numbers, k) => `${page.examples.ids[k]}: ${shorten(source.text(numbers), MAX_NAME2)}`);
      this.state = this.restore() ?? this.start();
      this.lines = new LinesPlot(byId("live-lines"), { chooseStep: (step) => {
        this.chooseStep(step);
      }, chooseCell: (step, column) => {
        this.forceCell(step, column);
      } });
      addSharedControls(this);
      this.addOwnControls();
    }
    page;
    state;
    lines;
    names;
    typing;
    /** The test sequence that was shown last. */
    lastExample = 0;
    static async load(page, models) {
      const explorer = new _WordExplorer(page, models);
      await explorer.update();
      return explorer;
    }
    get exampleNames() {
      return this.names;
    }
    lengthOf({ source }) {
      return source.length;
    }
    get rowCount() {
      const { state, scene } = this;
      return Math.max(1, state.kind === "encoder_self" ? state.source.length : scene?.shown[0].symbols.length ?? this.first.steps);
    }
    get fragment() {
      return toWordFragment(this.state, this.key);
    }
    // --- changes -----------------------------------------------------------------------------------
    chooseExample(example) {
      const { length: count } = this.names;
      const index = (example % count + count) % count;
      this.stopTyping();
      this.change((state) => {
        Object.assign(state, { example: index, source: this.sourceOf(index), isChanged: false, given: [], step: 0 });
        state.force.clear();
      });
    }
    chooseOwn() {
      inputById("live-source").focus();
      inputById("live-source").select();
    }
    resetSource() {
      const { example } = this.state;
      if (example === null) {
        this.chooseExample(this.lastExample);
        return;
      }
      this.stopTyping();
      this.change((state) => {
        const source = this.sourceOf(example);
        if (source.length !== state.source.length) state.force.clear();
        Object.assign(state, { source, isChanged: false, given: [] });
      });
    }
    /** Read the source from a text. */
    type(text2) {
      const source = this.models[this.state.subjects[0].model].source.split(text2);
      if (!source.length) byId("live-error").textContent = EMPTY;
      else if (byId("live-error").textContent === EMPTY) byId("live-error").textContent = "";
      if (!source.length || source.join("\n") === this.state.source.join("\n")) return;
      this.change((state) => {
        if (source.length !== state.source.length) state.force.clear();
        Object.assign(state, { example: null, source, isChanged: true, given: [] });
      });
    }
    /** Write a symbol in the chosen step, after those that the model has written before it. */
    chooseSymbol(symbol) {
      const { scene } = this;
      if (!scene) return;
      const { step } = this.state;
      this.change((state) => {
        state.given = [...scene.shown[0].answer.symbols.slice(0, step), symbol];
      });
    }
    sourceOf(example) {
      const { source } = this.models[0];
      return this.page.examples.sources[example].map((number) => source.symbol(number));
    }
    start() {
      const subjects = this.firstSubjects(this.page.live.side_by_side === true);
      const contents = subjects.map(({ model }) => this.models[model].content);
      const wanted = this.page.live.tour?.start?.example ?? 0;
      const example = [wanted, ...this.names.keys()].find((k) => this.accepts(this.page.examples.sources[k].length, contents)) ?? 0;
      return { ...this.firstView(subjects, example), source: this.sourceOf(example), given: [], beam: 1, picture: "heatmap" };
    }
    restore() {
      const limits = { ...this.limitsOf(this.page.examples.sources.map(({ length }) => length)), symbols: Math.min(...this.models.map(({ target }) => target.size)) };
      const shared = fromWordFragment(location.hash, limits);
      return shared && { ...shared, source: shared.source ?? this.sourceOf(shared.example ?? 0), isChanged: shared.source !== null };
    }
    // --- answers -----------------------------------------------------------------------------------
    async ask() {
      this.fitView();
      const hasTrace = this.needsTrace;
      const answered = copyState(this.state);
      const shown = [];
      for (const [k, subject] of answered.subjects.entries()) shown.push(await this.askModel(answered, k, hasTrace && k === 0, subject));
      const { source, target } = this.models[answered.subjects[0].model];
      const { examples } = this.page;
      const known = answered.example !== null && !answered.isChanged ? answered.example : null;
      const rows = answered.kind === "encoder_self" ? answered.source.length : shown[0].symbols.length;
      answered.step = this.state.step = Math.min(answered.step, rows - 1);
      const lower = answered.source.filter((symbol) => source.numberOf(symbol) === UNKNOWN && source.numberOf(symbol.toLowerCase()) !== UNKNOWN);
      return {
        readsAll: this.first.config.kind === "transformer" || this.first.config.bidirectional === true,
        hint: lower.length ? ` It knows ${quoted(lower[0].toLowerCase())}.` : "",
        state: answered,
        shown,
        hasTrace,
        canForce: this.canForce,
        isKnown: answered.source.map((symbol) => source.numberOf(symbol) !== UNKNOWN),
        truth: known === null ? null : { symbols: examples.targets[known], text: target.text(examples.targets[known]) },
        links: known === null ? [] : linksOf2(examples, known),
        trainedLength: Math.min(...this.shownContents.map(({ source_length }) => source_length))
      };
    }
    async askModel(state, index, hasTrace, subject) {
      const { model, run, epoch } = subject;
      const live = this.models[model];
      const source = state.source.map((symbol) => live.source.numberOf(symbol));
      const options = { run, epoch, outputs: hasTrace ? "all" : "weights" };
      const isForced3 = state.force.size > 0 && canForce(live.content);
      const isTouched = isForced3 || state.given.length > 0;
      const free = { beam: state.beam, given: [] };
      const own = await live.answer(source, free, isTouched ? { ...options, outputs: "weights" } : options);
      const answer = isTouched ? await live.answer(source, { ...free, given: state.given }, isForced3 ? { ...options, force: { rows: this.rowsFor(live, state.force) } } : options) : own;
      return {
        name: this.nameOfSubject(subject),
        colour: index ? COLOURS[index - 1] : theme().warn,
        answer,
        own,
        meaning: meaningOf(live.content),
        symbols: answer.symbols.map((symbol) => live.target.symbol(symbol)),
        text: live.target.text(answer.symbols),
        ownText: live.target.text(own.symbols)
      };
    }
    matrix(scene, index) {
      return wordMatrix(scene, scene.shown[index]);
    }
    describe(scene) {
      return describeWords(scene);
    }
    // --- controls and pictures ---------------------------------------------------------------------
    addOwnControls() {
      const input = inputById("live-source");
      const read = () => {
        this.stopTyping();
        this.type(input.value);
      };
      input.addEventListener("input", () => {
        this.stopTyping();
        this.typing = setTimeout(read, TYPING);
      });
      input.addEventListener("change", read);
      fill(selectById("live-beam"), BEAMS.map((beam) => beam === 1 ? "greedy" : `beam of ${beam}`));
      onChange("live-beam", () => {
        this.change((state) => {
          state.beam = BEAMS[selectById("live-beam").selectedIndex];
        });
      });
      onClick("live-own-symbols", () => {
        this.change((state) => {
          state.given = [];
        });
      });
      for (const picture of PICTURES) onClick(`live-show-${picture}`, () => {
        this.showPicture(picture);
      });
    }
    /** Forget a text that has not been read yet. */
    stopTyping() {
      clearTimeout(this.typing);
      this.typing = void 0;
    }
    showPicture(picture) {
      this.state.picture = picture;
      if (this.scene) this.scene.state.picture = picture;
      this.draw();
    }
    drawOwn(scene) {
      showSharedControls(this, symbolNames(scene));
      const { state, shown: [first] } = scene;
      const input = inputById("live-source");
      const { source } = this.models[state.subjects[0].model];
      const text2 = source.write(state.source);
      if (state.example !== null) this.lastExample = state.example;
      if (this.typing === void 0 && source.write(source.split(input.value)) !== text2) input.value = text2;
      selectById("live-beam").selectedIndex = BEAMS.indexOf(state.beam);
      byId("live-own-symbols").disabled = state.given.length === 0;
      this.drawSymbols(scene);
      this.drawHypotheses(first);
      byId("live-links-note").hidden = this.matrix(scene, 0).links.length === 0;
      this.drawPictures(scene);
      this.drawAlternatives(scene);
    }
    /** Show the symbols of source and output in the colours of the weights of the chosen step. */
    drawSymbols(scene) {
      const { state, shown, isKnown } = scene;
      const view = this.matrix(scene, 0);
      const row = state.kind === "decoder_self" ? void 0 : view.rows[state.step];
      byId("live-source-symbols").replaceChildren(...state.source.map((symbol, k) => {
        const chip = textElement("span", visible(symbol));
        chip.className = isKnown[k] ? "symbol" : "symbol unknown";
        chip.title = isKnown[k] ? `source symbol ${k + 1}` : `source symbol ${k + 1} is not in the vocabulary`;
        if (row && row[k] !== 0) chip.style.setProperty("--weight", String(Math.min(1, Math.abs(row[k]) / view.scale.high)));
        return chip;
      }));
      byId("live-output").replaceChildren(...shown.map((each, index) => {
        const line = textElement("p", shown.length > 1 ? `${each.name}: ` : "");
        line.append(...each.symbols.map((symbol, t) => {
          const button = document.createElement("button");
          button.type = "button";
          button.className = `symbol${t < state.given.length && isChosen(each, t) ? " given" : ""}${each.answer.symbols[t] === END ? " end" : ""}`;
          button.textContent = visible(symbol);
          button.setAttribute("aria-pressed", String(index === 0 && t === state.step && state.kind !== "encoder_self"));
          button.addEventListener("click", () => {
            this.chooseStep(t);
          });
          return button;
        }));
        return line;
      }));
    }
    drawHypotheses({ answer }) {
      const { target } = this.models[this.state.subjects[0].model];
      byId("live-hypotheses").replaceChildren(...answer.hypotheses.map(({ symbols, score }) => {
        const line = document.createElement("li");
        const button = textElement("button", `${target.text(symbols)} (${withMinus(score.toFixed(3))})`);
        button.type = "button";
        button.addEventListener("click", () => {
          this.change((state) => {
            state.given = symbols;
          });
        });
        line.append(button);
        return line;
      }));
      byId("live-beam-place").hidden = answer.hypotheses.length === 0;
    }
    drawPictures(scene) {
      const { state, shown: [first] } = scene;
      const { layers, heads } = this.first;
      const hasHeads = layers * heads > 1;
      if (!hasHeads && state.picture === "heads") state.picture = this.state.picture = "heatmap";
      const hasWeights2 = this.matrix(scene, 0).rows.length > 0;
      for (const picture of PICTURES) {
        const button = byId(`live-show-${picture}`);
        button.textContent = PICTURE_NAMES[picture];
        button.setAttribute("aria-pressed", String(picture === state.picture));
        button.hidden = picture === "heads" && !hasHeads;
      }
      byId("live-pictures").hidden = !hasWeights2;
      byId("live-map").hidden = state.picture !== "heatmap";
      byId("live-lines").hidden = state.picture !== "lines" || !hasWeights2;
      byId("live-heads").hidden = state.picture !== "heads" || !hasWeights2;
      if (!hasWeights2) return;
      if (state.picture === "lines") this.lines.draw(this.matrix(scene, 0));
      if (state.picture !== "heads") return;
      const pictures = Array.from({ length: layers * heads }, (_, k) => {
        const [layer, head] = [Math.floor(k / heads), k % heads];
        const rows = weightsOf(first.answer, state.kind, layer, head);
        return { layer, head, name: `${layers > 1 ? `layer ${layer + 1}, ` : ""}head ${head + 1}`, rows, scale: weightScale(rows, first.meaning, state.isRelative) };
      });
      showHeads(byId("live-heads"), pictures, ({ layer, head }) => layer === state.layer && head === state.head, ({ layer, head }) => {
        this.change((each) => {
          Object.assign(each, { layer, head, picture: "heatmap" });
        });
      });
    }
    drawAlternatives(scene) {
      const { state: { step, kind }, shown: [{ answer }] } = scene;
      const { target } = this.models[this.state.subjects[0].model];
      byId("live-alternatives-place").hidden = kind === "encoder_self";
      if (kind === "encoder_self") return;
      byId("live-alternatives-name").textContent = `Symbols for place ${step + 1} of the output`;
      showAlternatives(byId("live-alternatives"), alternativesOf(answer.logits[step]), (symbol) => target.symbol(symbol), answer.symbols[step], (symbol) => {
        this.chooseSymbol(symbol);
      });
    }
  };
  function linksOf2(examples, example) {
    return (examples.links?.[example] ?? []).map(([row, column, sure]) => ({ row, column, isPossible: sure === 0 }));
  }

  // src/words/arithmetic.ts
  var MAX_SYMBOLS2 = 5;
  var SymbolKind = class {
    /**
     * @param source - the symbols of the source.
     * @param previous - the symbol that the decoder reads.
     * @param nameOf - returns a symbol of the target by its number.
     */
    constructor(source, previous, logits, nameOf) {
      this.source = source;
      this.previous = previous;
      this.logits = logits;
      const indices = largest(logits.map((x, k) => k === PAD || k === BEGIN ? -Infinity : x), MAX_SYMBOLS2);
      this.outputs = { indices, names: indices.map((k) => visible(nameOf(k))) };
    }
    source;
    previous;
    logits;
    outputName = "Logits";
    rowsNote = ": rows of the best symbols";
    outputs;
    get sourceNames() {
      return this.source.map((symbol, k) => `${k + 1} ${visible(symbol)}`);
    }
    addSource(step) {
      step.record.add("Source symbols", "their rows of the embedding matrix", step.trace("embedded_source"));
    }
    addDecoderInput(step) {
      const vector = step.decoderInput;
      step.record.addRow("Decoder input", "its row of the embedding matrix", visible(this.previous), vector, { columns: columnNumbers(vector.length) });
    }
    results() {
      const found = probabilities(this.logits);
      return this.outputs.indices.map((k, place3) => ({ name: this.outputs.names[place3], text: found[k].toFixed(3), share: found[k] }));
    }
    addResult(step, output2) {
      const { record } = step;
      const { indices, names } = this.outputs;
      const own = step.trace("output")[step.input.step];
      const y = output2 ?? record.addRow(this.outputName, "from the layers that follow", "y", indices.map((k) => own[k]), { columns: names, isByModel: true });
      const possible = this.logits.filter((_, k) => k !== PAD && k !== BEGIN);
      const most = Math.max(...possible);
      const logZ = most + Math.log(possible.reduce((sum, x) => sum + Math.exp(x - most), 0));
      const Z = record.addRow("Normalization", `log Z = the logarithm of the sum of exp(logit) over the ${possible.length} symbols that can be written`, "log Z", [logZ], { columns: ["all symbols"], isByModel: true });
      const stage = record.next;
      record.addColumns("Probabilities", "probability = exp(logit - log Z)", {
        "logit": y.values,
        "log Z": y.values.map(() => Z.values[0]),
        "probability": y.values.map((x) => Math.exp(x - Z.values[0]))
      }, {
        rows: names,
        own: indices.map((k) => Math.exp(own[k] - logZ)),
        origin: (row, column) => {
          if (column === 0) return { expression: "the logit", cells: [y.ref(row)] };
          if (column === 1) return { expression: "the same for all symbols", cells: [Z.ref(0)] };
          return { expression: `exp(${formatCell(y.values[row])} \u2212 ${factor(Z.values[0])})`, cells: [0, 1].map((k) => ({ stage, row, column: k })) };
        }
      });
    }
  };
  function wordArithmetic(explorer) {
    return {
      name: () => symbolNames(explorer.scene).row(explorer.scene.state.step),
      input: (parameter) => {
        const { state: { step, layer, head, source, subjects, force }, shown: [{ answer }] } = explorer.scene;
        const { content, target } = explorer.models[subjects[0].model];
        const isForced3 = explorer.canForce && force.get(step + 1, layer, head) !== void 0;
        const previous = step === 0 ? target.symbol(BEGIN) : target.symbol(answer.symbols[step - 1] ?? END);
        return { content, kind: new SymbolKind(source, previous, answer.logits[step], (k) => target.symbol(k)), answer, step, layer, head, isForced: isForced3, parameter };
      }
    };
  }

  // src/live/csv.ts
  var GENERATED_FORM = { series: "sequence", time: "step", interval: 1, delimiter: ",", decimal: ".", one_hot: {}, window: null, settings: [] };
  var INPUT_FILE = "input.csv";
  var WEIGHTS_FILE = "weights.json";
  var ID = "input";
  function cell2(text2, delimiter) {
    const isPlain = text2 !== "" && text2.trim() === text2 && ![delimiter, '"', "\n", "\r"].some((mark) => text2.includes(mark));
    return isPlain ? text2 : `"${text2.replaceAll('"', '""')}"`;
  }
  function wordOf(column, words, values, step) {
    const chosen = values.indexOf(1);
    if (chosen < 0 || values.some((value, k) => k !== chosen && value !== 0)) {
      throw new Error(`Point ${step + 1} is no single word of the column ${column}: one of its features (${words.join(", ")}) must be 1 and the others 0.`);
    }
    return words[chosen];
  }
  function toCsv(form, features, source) {
    const { series, time, interval, delimiter, decimal, one_hot: oneHot } = form;
    const ofWord = new Map(Object.entries(oneHot).flatMap(([column, words]) => words.map((word) => [`${column}=${word}`, column])));
    const columns = [...new Set(features.map((name) => ofWord.get(name) ?? name))];
    const header = [...series === null ? [] : [series], ...time === null ? [] : [time], ...columns];
    const line = (cells) => `${cells.map((text2) => cell2(text2, delimiter)).join(delimiter)}
`;
    const number = (value) => String(value).replace(".", decimal);
    const lines = source.map((row, t) => line([
      ...series === null ? [] : [ID],
      ...time === null ? [] : [String((t + 1) * interval)],
      ...columns.map((column) => {
        const words = Object.hasOwn(oneHot, column) ? oneHot[column] : void 0;
        if (!words) return number(row[features.indexOf(column)]);
        return wordOf(column, words, words.map((word) => row[features.indexOf(`${column}=${word}`)]), t);
      })
    ]));
    return line(header) + lines.join("");
  }
  var toWeightsFile = (rows) => `${JSON.stringify({ rows }, null, 1)}
`;
  var quote = (word) => /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  function command({ run, form, epoch, isForced: isForced3 }) {
    const words = ["seqattn", "predict", run, "--input", INPUT_FILE];
    for (const setting of form.settings) words.push("--set", setting);
    if (epoch !== null) words.push("--epoch", String(epoch));
    if (isForced3) words.push("--attention-override", `forced:${WEIGHTS_FILE}`);
    return words.map(quote).join(" ");
  }

  // src/words/share.ts
  var quoteText = (text2) => `'${text2.replaceAll("'", "'\\''")}'`;
  function sharedWords(explorer) {
    return {
      files: [],
      command: (run) => {
        const { state, models } = explorer;
        const [{ model, run: index, epoch }] = state.subjects;
        const { source, content: { runs } } = models[model];
        const words = ["seqattn", "predict", run];
        if (state.beam > 1) words.push("--beam", String(state.beam));
        if (epoch !== runs[index].best_epoch) words.push("--epoch", String(epoch));
        return `printf '%s\\n' ${quoteText(source.write(state.source))} | ${words.map(quote).join(" ")}`;
      },
      explain: () => {
        const { state: { given, force }, scene } = explorer;
        const of = scene.shown.length > 1 ? ` of ${scene.shown[0].name}` : "";
        const yours = [...given.length ? ["the symbols that you chose"] : [], ...force.size ? ["the weights that you forced"] : []];
        return `This command prints the output${of}${yours.length ? `, without ${yours.join(" and ")}` : " that is shown"}.`;
      },
      sourceName: () => {
        const { example, isChanged } = explorer.scene.state;
        return example === null || isChanged ? "a source of the user's own" : `sequence ${explorer.page.examples.ids[example]}`;
      },
      legend: "Orange frames: known links, dashed where they are only possible.",
      picture: () => explorer.state.picture === "lines" ? byId("live-lines").querySelector("svg") : null
    };
  }

  // src/words/tour.ts
  var hasWeights = ({ shown: [{ answer }] }) => answer.weights.length > 0;
  var output = (text2) => `\u201C${text2}\u201D`;
  function describeRow(scene) {
    const { state, shown: [first] } = scene;
    const row = weightsOf(first.answer, "cross", state.layer, state.head)[state.step];
    const names = symbolNames(scene);
    const most = row.indexOf(Math.max(...row));
    const sum = first.meaning === "distribution" ? " The [weights|attention weight] of a row add up to 1: they are shares of one reading, and the next row shares anew." : "";
    return `${capitalize(names.row(state.step))}, reads most from ${names.column(most)}, with the weight ${row[most].toFixed(2)}.${sum}`;
  }
  function describeForced({ shown: [{ text: text2, ownText }] }) {
    if (text2 === ownText) return `The output stays ${output(text2)}: for these symbols, the model did not need what you took away. Try another row, or all rows.`;
    return `The output changes from ${output(ownText)} to ${output(text2)}: the model used what you took away. This says more than the colours do, because it is an experiment.`;
  }
  function describeLinks(scene) {
    const { rows, links } = wordMatrix(scene, scene.shown[0]);
    const linked = [...new Set(links.map(({ row }) => row))].filter((row) => row < rows.length);
    if (!linked.length) return "The output of this sequence differs from the true one from its beginning, so there is no link to compare with. Go on to another sequence.";
    const hits = linked.filter((row) => {
      const weights = rows[row];
      return links.some((link) => link.row === row && link.column === weights.indexOf(Math.max(...weights)));
    });
    return `In this sequence, the largest weight of ${hits.length} of ${linked.length} linked output symbols lies in a frame. The others need not be mistakes: an [encoder state] also carries what the encoder has read elsewhere, so the model can read a word beside it. A heatmap shows where the model reads, not what it knows.`;
  }
  var STEPS = [
    {
      title: "Type a source",
      place: "live-source-label",
      task: "Change the text in the field Source, for example one letter or one word.",
      about: "The model in this page reads a text, the source, and writes another text, the output, symbol by symbol. A symbol is a letter, a word or a part of a word.",
      isPossible: () => true,
      isDone: ({ state: { source } }, start) => source.join("\n") !== start.source.join("\n"),
      result: ({ shown: [{ text: text2 }] }) => `The model writes ${output(text2)} for your source. Nothing is looked up: it computes this output now, in your browser.`
    },
    {
      title: "Read a row",
      place: "live-output",
      task: "Choose another symbol of the output.",
      about: "Before each output symbol, [attention] reads the whole source again. The row of the output symbol in the heatmap says how much it reads from each source symbol, and so do the colours of the source.",
      isPossible: (scene) => hasWeights(scene) && scene.shown[0].symbols.length > 1,
      isDone: ({ state: { kind, step }, shown: [{ symbols }] }, start) => kind === "cross" && step !== start.step && step < symbols.length,
      result: describeRow
    },
    {
      title: "Choose another symbol",
      place: "live-alternatives-place",
      task: "In the list of symbols for this place, click one that is not the first.",
      about: "The model does not write a symbol directly. It computes a probability for each symbol, and takes the most probable one. Then the [decoder] reads the symbol that was written.",
      isPossible: () => true,
      isDone: ({ state: { given } }) => given.length > 0,
      result: ({ state: { given }, shown: [{ symbols, text: text2, ownText }] }) => `You wrote ${quoted(symbols[given.length - 1])}, and the model goes on from there: ${output(text2)}. Left alone, it writes ${output(ownText)}.`
    },
    {
      title: "Take the look away",
      place: "live-weights",
      task: "Click a cell of the heatmap that is not the brightest of its row, or press \u201CKnock out this head in all steps\u201D.",
      about: "Does the model need what it reads? To find out, change the weights: a click gives all of the weight of a row to one source symbol, and a knock-out sets weights to 0. The model computes the rest with your weights.",
      isPossible: (scene) => hasWeights(scene) && scene.canForce,
      isDone: ({ state: { force } }) => force.size > 0,
      result: describeForced
    },
    {
      title: "A heatmap is not an alignment",
      place: "live-map",
      task: "Go to the next test sequence with the arrow \u2192, and compare the brightest cells with the orange frames.",
      about: "The orange frames are known links: which source symbols an output symbol stands for. The model was never shown them, and its weights need not agree with them.",
      isPossible: (scene) => hasWeights(scene) && scene.shown[0].meaning === "distribution",
      isDone: ({ state: { example, isChanged } }, start) => example !== null && !isChanged && example !== start.example,
      result: describeLinks
    }
  ];
  var LINKS = STEPS[STEPS.length - 1];
  var possibleSteps = (scene, hasLinks) => STEPS.filter((step) => step.isPossible(scene) && (step !== LINKS || hasLinks));
  var WordTour = class {
    constructor(explorer) {
      this.explorer = explorer;
      this.opener.setAttribute("aria-controls", "live-tour-panel");
      this.heading.id = "live-tour-title";
      this.heading.tabIndex = -1;
      this.result.id = "live-tour-result";
      this.task.className = "task";
      this.spoken.className = "spoken";
      this.spoken.setAttribute("aria-live", "polite");
      const text2 = document.createElement("div");
      text2.className = "tour-text";
      text2.append(this.body, this.result);
      const buttons = document.createElement("div");
      buttons.className = "controls";
      buttons.append(this.back, this.next, this.button("live-tour-close", "End the tour", () => {
        this.close();
      }));
      this.panel.id = "live-tour-panel";
      this.panel.setAttribute("aria-labelledby", "live-tour-title");
      this.panel.append(this.heading, text2, this.task, buttons, this.spoken);
      this.panel.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && !isCardOpen()) this.close();
      });
      byId("live-tour").append(this.opener, this.panel);
      this.show(false);
      explorer.onAnswer((scene) => {
        this.follow(scene);
      });
    }
    explorer;
    panel = document.createElement("section");
    heading = textElement("h3", "");
    body = document.createElement("div");
    result = document.createElement("div");
    task = textElement("p", "");
    spoken = textElement("p", "");
    announce = announcer(this.spoken);
    opener = this.button("live-tour-open", "Guided tour", () => {
      this.open();
    });
    back = this.button("live-tour-back", "Back", () => {
      this.go(this.position - 1);
    });
    next = this.button("live-tour-next", "Next", () => {
      if (this.position + 1 < this.steps.length) this.go(this.position + 1);
      else this.close();
    });
    steps = [];
    position = 0;
    /** What the explorer showed when the step began; null before its first answer, and if the tour is closed. */
    start = null;
    resultText = "";
    button(id, name, act) {
      const button = textElement("button", name);
      button.type = "button";
      button.id = id;
      button.addEventListener("click", act);
      return button;
    }
    show(isOpen) {
      this.panel.hidden = !isOpen;
      this.opener.hidden = isOpen;
      this.opener.setAttribute("aria-expanded", String(isOpen));
    }
    open() {
      const { scene, page } = this.explorer;
      if (!scene) return;
      this.steps = possibleSteps(scene, page.examples.links !== null);
      this.show(true);
      this.explorer.draw();
      this.go(0);
    }
    close() {
      this.start = null;
      this.mark(null);
      this.show(false);
      this.explorer.draw();
      this.opener.focus();
    }
    /** Show a step, and take back what the reader changed in the step before. */
    go(position) {
      this.position = position;
      this.start = null;
      this.resultText = "";
      const { title, about, task, place: place3 } = this.steps[position];
      this.heading.textContent = `Tour ${position + 1} of ${this.steps.length}: ${title}`;
      this.body.replaceChildren(paragraph(about));
      this.result.replaceChildren();
      this.task.textContent = task;
      this.back.disabled = position === 0;
      this.next.textContent = position + 1 === this.steps.length ? "Finish" : "Next";
      this.next.classList.remove("ready");
      this.mark(place3);
      byId(place3).scrollIntoView({ block: "nearest" });
      this.heading.focus({ preventScroll: true });
      this.explorer.change((state) => {
        state.force.clear();
        Object.assign(state, { given: [], kind: "cross" }, place3 === "live-map" ? { picture: "heatmap" } : {});
      });
      void this.explorer.update().then(() => {
        const { scene } = this.explorer;
        if (this.steps[this.position].place === place3 && !this.panel.hidden && scene) this.start = { ...scene.state };
      });
    }
    /** Frame the part of the page that a step is about. */
    mark(id) {
      document.querySelectorAll(".tour-place").forEach((element) => {
        element.classList.remove("tour-place");
      });
      if (id !== null) byId(id).classList.add("tour-place");
    }
    /** Say what the reader's change did, with the current numbers, once the task is done. */
    follow(scene) {
      if (!this.start) return;
      const step = this.steps[this.position];
      if (!step.isDone(scene, this.start)) return;
      const text2 = step.result(scene);
      if (text2 === this.resultText) return;
      this.resultText = text2;
      this.result.replaceChildren(paragraph(text2));
      this.announce(splitTerms(text2).map((part) => part.split("|")[0]).join(""));
      this.next.classList.add("ready");
      this.result.scrollIntoView({ block: "nearest" });
    }
  };

  // src/live/mechanism_plane.ts
  var SIZE = 300;
  var MARGIN3 = 16;
  function drawPlane(place3, { query, keys, context, weights, labels }, scale) {
    const isPlane = query?.length === 2 && keys !== null && keys[0].length === 2;
    place3.hidden = !isPlane;
    if (!isPlane) {
      place3.replaceChildren();
      return;
    }
    const { line, soft, ink, warn, accent, ground } = theme();
    const hasContext = context?.length === 2;
    const vectors = [query, ...keys, ...hasContext ? [context] : []];
    const most = 1.12 * Math.max(1e-6, ...vectors.flat().map(Math.abs));
    const [toX, toY] = [linearScale([-most, most], [MARGIN3, SIZE - MARGIN3]), linearScale([-most, most], [SIZE - MARGIN3, MARGIN3])];
    const arrow = ([x, y], colour, width, name) => {
      const [endX, endY] = [toX(x), toY(y)];
      const angle = Math.atan2(endY - toY(0), endX - toX(0));
      const wing = (turn) => `${(endX - 9 * Math.cos(angle + turn)).toFixed(1)} ${(endY - 9 * Math.sin(angle + turn)).toFixed(1)}`;
      return svg(
        "g",
        {},
        svg("line", { x1: toX(0), y1: toY(0), x2: endX, y2: endY, stroke: colour, "stroke-width": width }),
        svg("path", { d: `M${endX} ${endY}L${wing(0.4)}L${wing(-0.4)}Z`, fill: colour }),
        svg("text", { x: endX + 6 * Math.sign(x || 1), y: endY + (y < 0 ? 14 : -5), "font-size": 13, "text-anchor": x < 0 ? "end" : "start", fill: ink, ...halo(ground) }, name)
      );
    };
    const root = svg(
      "svg",
      { viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "img", "aria-label": "Query, keys and context as arrows in a plane" },
      svg("line", { x1: MARGIN3, x2: SIZE - MARGIN3, y1: toY(0), y2: toY(0), stroke: line }),
      svg("line", { y1: MARGIN3, y2: SIZE - MARGIN3, x1: toX(0), x2: toX(0), stroke: line }),
      ...keys.map((key2, s) => arrow(key2, rgb(scale.colour(weights[s])), 2 + 3 * Math.min(1, Math.abs(weights[s]) / scale.high), `key of ${labels[s]}`)),
      ...hasContext ? [arrow(context, accent, 2, "context")] : [],
      arrow(query, warn, 3, "query"),
      svg("text", { x: MARGIN3, y: SIZE - 2, "font-size": 12, fill: soft }, "The colour of a key is that of its weight.")
    );
    place3.replaceChildren(root);
  }

  // src/live/mechanism_texts.ts
  var SHOWN_NUMBERS = 6;
  var STAGES = {
    source: ["Source"],
    states: ["Encoder states"],
    keys: ["Keys"],
    query: ["Query", "Decoder state"],
    scores: ["Scores"],
    weights: ["Weights", "Strengths"],
    values: ["Weighted values", "Values"],
    context: ["Context"],
    result: ["Probabilities", "Forecast"]
  };
  var WORDS = {
    source: "The source, one row for each step.",
    states: "[Encoder states|encoder]: what the encoder wrote while it read each source step. The encoder carries what it has read along, so a state also knows the steps around it.",
    keys: "[Keys|key]: what each source step shows, to be compared with the [query].",
    query: "[Query|query]: what the [decoder] asks for in this step, made from its state, which knows what has been written so far.",
    scores: "[Scores|score]: how well each [key] fits the [query], one number for each source step.",
    weights: "[Attention weights|attention weight]: the [scores|score], made positive so that they add up to 1. They are computed anew in each step, unlike the parameters, which the training fixes.",
    values: "[Values|value]: what is read of each source step. Here they are as strong as their weights.",
    context: "[Context|context]: the sum of the values, each times its weight. It is all that this step reads of the source.",
    result: "What the step writes, computed from the context and the state of the decoder."
  };
  var numbersText = (numbers) => `${numbers.slice(0, SHOWN_NUMBERS).map((x) => withMinus(x.toFixed(3))).join(", ")}${numbers.length > SHOWN_NUMBERS ? `, \u2026 (${numbers.length} numbers)` : ""}`;
  var plain = (text2) => text2.replace(/\[([^\]|]*)(?:\|[^\]]*)?\]/g, "$1");
  function describePart(part, flow) {
    const vector = part === "query" ? flow.query : part === "context" ? flow.context : null;
    const results = part === "result" ? ` ${flow.results.map(({ name, text: text2 }) => `${name}: ${text2}`).join(", ")}.` : "";
    return `${WORDS[part]}${vector ? ` ${capitalize(numbersText(vector))}.` : ""}${results} A click shows its arithmetic.`;
  }
  function describeRow2(row, { labels, scores, weights }, isForced3) {
    const score = scores ? `score ${formatNumber(scores[row])}, ` : "";
    const weight = withMinus(weights[row].toFixed(3));
    return `${capitalize(labels[row])}: ${score}weight ${weight}${isForced3 ? ", which you gave it in place of the softmax of the scores" : ""}. So ${weight} times its value goes into the context.`;
  }

  // src/live/mechanism.ts
  var MIN_WIDTH = 700;
  var ROWS_HEIGHT = 330;
  var TOP3 = 92;
  var FONT3 = 13;
  var GAP = 34;
  var WIDE_GAP = 64;
  var BAR_WIDTH = 74;
  var RESULT_WIDTH = 150;
  var LONGEST_LABEL2 = 12;
  var STRIP_HEIGHT = 14;
  var SLIDER_SCALE = 20;
  function readFlow(step) {
    const { answer: { trace }, kind } = step.input;
    const has = (name) => name in trace;
    const stages = explainStep(step.input);
    const stage = (name) => stages.find((each) => each.name === name)?.numbers ?? null;
    return {
      labels: kind.sourceNames,
      states: has("states") ? step.states : null,
      keys: stage("Keys") ?? (has("keys") ? step.keys : null),
      values: has("values") ? step.values : null,
      query: stage("Query")?.[0] ?? step.headSlice(step.query),
      scores: has("scores") ? step.scores : null,
      weights: step.weights,
      context: has("context") ? step.context : null,
      results: kind.results(step)
    };
  }
  function strip(rows, box, shares) {
    const largest2 = Math.max(1e-9, ...rows.map((row) => Math.max(...row.map(Math.abs))));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [rows[0].length, rows.length];
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(canvas.width, canvas.height);
    for (const [r, row] of rows.entries()) {
      const share = Math.min(1, Math.abs(shares ? shares[r] : 1));
      for (const [c, x] of row.entries()) pixels.data.set([...weightColour(x * share, largest2, true), 255], 4 * (r * canvas.width + c));
    }
    context.putImageData(pixels, 0, 0);
    return svg("g", {}, svg("image", { ...box, preserveAspectRatio: "none", href: canvas.toDataURL(), style: "image-rendering: pixelated" }), svg("rect", { ...box, fill: "none", stroke: theme().line }));
  }
  var Layout = class {
    rowHeight;
    bottom;
    width;
    x;
    stripWidth;
    labelWidth;
    constructor(width, { labels, states, keys, scores }) {
      this.width = Math.max(MIN_WIDTH, width);
      this.rowHeight = Math.max(4, Math.min(20, ROWS_HEIGHT / labels.length));
      this.bottom = TOP3 + labels.length * this.rowHeight;
      this.labelWidth = Math.max(40, ...labels.map((label) => textWidth(shorten(label, LONGEST_LABEL2), FONT3)));
      const strips = 1 + (states ? 1 : 0) + (keys ? 1 : 0);
      const bars = 1 + (scores ? 1 : 0);
      const fixed = this.labelWidth + bars * BAR_WIDTH + RESULT_WIDTH + (strips + bars + 1) * GAP + (scores ? 2 : 0) * (WIDE_GAP - GAP);
      this.stripWidth = Math.max(36, (this.width - fixed) / strips);
      let x = 0;
      const next = (size, isThere = true, gap = GAP) => {
        const start = x;
        if (isThere) x += size + gap;
        return start;
      };
      this.x = {
        source: next(this.labelWidth),
        states: next(this.stripWidth, states !== null),
        keys: next(this.stripWidth, keys !== null, scores ? WIDE_GAP : GAP),
        scores: next(BAR_WIDTH, scores !== null, WIDE_GAP),
        weights: next(BAR_WIDTH),
        values: next(this.stripWidth),
        result: next(RESULT_WIDTH)
      };
    }
    get height() {
      return this.bottom + 74;
    }
    /** The box of a part whose rows are the source steps. */
    rows(x, width) {
      return { x, y: TOP3, width, height: this.bottom - TOP3 };
    }
  };
  var Mechanism = class {
    constructor(explorer, panel, source) {
      this.explorer = explorer;
      this.panel = panel;
      this.source = source;
      this.place.append(this.root);
      explorer.useTrace(() => this.isOpen);
      explorer.onAnswer(() => {
        this.follow();
      });
      explorer.onPoint((column) => {
        this.mark(column);
      });
      panel.onChoose = (stage) => {
        this.markPart(stage);
      };
      this.details.addEventListener("toggle", () => {
        this.follow();
      });
      this.root.addEventListener("pointermove", (event) => {
        explorer.pointAt(this.rowAt(event));
      });
      this.root.addEventListener("pointerleave", () => {
        explorer.pointAt(null);
      });
      inputById("live-temperature").addEventListener("input", () => {
        this.heat();
      });
      onThemeChange(() => {
        this.follow();
      });
    }
    explorer;
    panel;
    source;
    details = byId("live-mechanism");
    place = byId("live-mechanism-picture");
    line = byId("live-mechanism-line");
    root = svg("svg", { role: "group", "aria-label": "The mechanism of the chosen step" });
    flow = null;
    layout = null;
    parts = /* @__PURE__ */ new Map();
    row = svg("rect", { fill: "none", "stroke-width": 2, "pointer-events": "none", visibility: "hidden" });
    isPending = false;
    get isOpen() {
      return this.details.open && this.explorer.first.layers > 0;
    }
    /** Show an answer; many in one frame are shown once. */
    follow() {
      const { scene, first } = this.explorer;
      this.details.hidden = first.layers === 0 || scene?.state.kind === "encoder_self";
      if (!scene || !this.isOpen || this.isPending) return;
      if (!scene.hasTrace) {
        void this.explorer.update();
        return;
      }
      this.isPending = true;
      requestAnimationFrame(() => {
        this.isPending = false;
        this.draw();
      });
    }
    draw() {
      const { scene } = this.explorer;
      if (!scene?.hasTrace || scene.state.kind === "encoder_self") return;
      const flow = readFlow(new AttentionStep(this.source.input((name) => this.panel.parameter(name))));
      const layout2 = new Layout(this.place.clientWidth - 16, flow);
      [this.flow, this.layout] = [flow, layout2];
      this.root.setAttribute("viewBox", `0 0 ${layout2.width} ${layout2.height}`);
      this.root.setAttribute("width", String(layout2.width));
      this.root.setAttribute("height", String(layout2.height));
      this.parts.clear();
      const scale = weightScale([flow.weights], scene.shown[0].meaning, scene.state.isRelative);
      this.root.replaceChildren(...this.columns(flow, layout2, scale), ...this.arrows(flow, layout2), ...this.ends(flow, layout2), this.row);
      byId("live-mechanism-name").textContent = `${capitalize(this.source.name())}${this.headName}`;
      this.line.textContent = "Point at a part or a row to see its numbers. A click on a part shows its arithmetic.";
      drawPlane(byId("live-plane"), flow, scale);
      this.showTemperature();
    }
    /** The layer and head, if there are several. */
    get headName() {
      const { first: { layers, heads }, state } = this.explorer;
      return (layers > 1 ? `, layer ${state.layer + 1}` : "") + (heads > 1 ? `, head ${state.head + 1}` : "");
    }
    // --- the picture -------------------------------------------------------------------------------
    /** The parts whose rows are the source steps. */
    columns(flow, layout2, scale) {
      const { soft, ink, accent } = theme();
      const { x, rowHeight, stripWidth, labelWidth: labelWidth2 } = layout2;
      const y = (s) => TOP3 + s * rowHeight;
      const every = Math.ceil(11 / rowHeight);
      const labels = flow.labels.flatMap((label, s) => s % every ? [] : [svg("text", { x: x.source + labelWidth2, y: y(s) + rowHeight / 2 + 4, "text-anchor": "end", "font-size": Math.min(FONT3, Math.max(9, rowHeight * every - 1)), fill: ink }, shorten(label, LONGEST_LABEL2))]);
      const bars = (start, numbers, low, high, colour) => {
        const toX = (value) => start + (Math.min(high, Math.max(low, value)) - low) / (high - low || 1) * BAR_WIDTH;
        const zero = toX(Math.min(high, Math.max(low, 0)));
        return [svg("line", { x1: zero, x2: zero, y1: TOP3, y2: layout2.bottom, stroke: soft, "stroke-width": 0.5 }), ...numbers.map((value, s) => svg("rect", { x: Math.min(zero, toX(value)), y: y(s) + rowHeight * 0.12, width: Math.max(0.8, Math.abs(toX(value) - zero)), height: rowHeight * 0.76, fill: colour(value) }))];
      };
      const { states, keys, scores, weights, values } = flow;
      const found = [this.part("source", "source", layout2.rows(x.source, labelWidth2), labels)];
      if (states) found.push(this.part("states", stripWidth < 90 ? "states" : "encoder states", layout2.rows(x.states, stripWidth), [strip(states, layout2.rows(x.states, stripWidth))]));
      if (keys) found.push(this.part("keys", "keys", layout2.rows(x.keys, stripWidth), [strip(keys, layout2.rows(x.keys, stripWidth))]));
      if (scores) {
        const finite = scores.filter(Number.isFinite);
        const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
        found.push(this.part("scores", "scores", layout2.rows(x.scores, BAR_WIDTH), bars(x.scores, scores, low, high, () => accent)));
      }
      const isStrength = scale.low < 0;
      found.push(this.part("weights", isStrength ? "read strengths" : "weights", layout2.rows(x.weights, BAR_WIDTH), [
        svg("rect", { ...layout2.rows(x.weights, BAR_WIDTH), fill: "none", stroke: theme().line }),
        ...bars(x.weights, weights, scale.low, scale.high, (value) => rgb(scale.colour(value)))
      ]));
      const shown = values ?? states;
      if (shown) found.push(this.part("values", values ? "values \xD7 weights" : "states \xD7 strengths", layout2.rows(x.values, stripWidth), [strip(shown, layout2.rows(x.values, stripWidth), weights.map((weight) => weight / scale.high))]));
      return found;
    }
    /** The parts that are one vector or a few numbers: query, context and what the step writes. */
    ends(flow, layout2) {
      const { ink, soft, accent } = theme();
      const { x, stripWidth, bottom } = layout2;
      const found = [];
      if (flow.query) {
        const box = { x: flow.keys ? x.keys : x.weights, y: 24, width: flow.keys ? stripWidth : BAR_WIDTH, height: STRIP_HEIGHT };
        found.push(this.part("query", "query, from the decoder", box, [strip([flow.query], box)]));
      }
      if (flow.context) {
        const box = { x: x.values, y: bottom + 36, width: stripWidth, height: STRIP_HEIGHT };
        found.push(this.part("context", "", box, [strip([flow.context], box), svg("text", { x: box.x, y: box.y + STRIP_HEIGHT + 16, "font-size": FONT3, fill: soft }, "context")]));
      }
      const lines = flow.results.slice(0, 6).map(({ name, text: text2, share }, k) => {
        const y = TOP3 + 10 + 30 * k;
        return svg("g", {}, svg("text", { x: x.result, y: y + 4, "font-size": 15, fill: ink, "font-weight": k === 0 ? 600 : 400 }, shorten(name, 10)), svg("text", { x: x.result + RESULT_WIDTH - 30, y: y + 4, "font-size": 15, fill: ink, "text-anchor": "end" }, text2), ...share === null ? [] : [svg("rect", { x: x.result, y: y + 9, width: Math.max(1, share * (RESULT_WIDTH - 30)), height: 5, fill: accent })]);
      });
      found.push(this.part("result", "output", { x: x.result, y: TOP3 - 8, width: RESULT_WIDTH, height: Math.max(30, 30 * lines.length + 4) }, lines));
      return found;
    }
    /** A part with its name above, which a click or Enter explains. */
    part(part, name, box, drawn) {
      const { soft } = theme();
      const frame = svg("rect", { x: box.x - 4, y: box.y - 4, width: box.width + 8, height: box.height + 8, fill: "transparent", "stroke-width": 2, rx: 4, class: "mechanism-frame" });
      const group = svg("g", { class: "mechanism-part", role: "button", tabindex: 0, "aria-label": plain(WORDS[part]), "data-part": part }, ...drawn, svg("text", { x: box.x, y: box.y - 9, "font-size": FONT3, fill: soft }, name), frame);
      group.style.cursor = "pointer";
      const describe2 = () => {
        if (this.flow) this.line.replaceChildren(...withTerms(describePart(part, this.flow)));
      };
      group.addEventListener("pointerenter", describe2);
      group.addEventListener("focus", describe2);
      const open = () => {
        void this.panel.reveal(STAGES[part]);
      };
      group.addEventListener("click", open);
      group.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      });
      this.parts.set(part, frame);
      return group;
    }
    /** Arrows with the operation that leads from one part to the next. */
    arrows(flow, layout2) {
      const { soft } = theme();
      const { x, stripWidth, labelWidth: labelWidth2, bottom } = layout2;
      const middle = (TOP3 + bottom) / 2;
      const arrow = (path, dashes = "none") => svg("path", { d: path, fill: "none", "stroke-dasharray": dashes, stroke: soft, "stroke-width": 1.4, "marker-end": "url(#mechanism-arrow)" });
      const across = (end, start, isBroken = false) => arrow(`M${end + 7} ${middle}L${start - 8} ${middle}`, isBroken ? "3 4" : "none");
      const word = (text2, at, y, anchor = "middle") => svg("text", { x: at, y, "font-size": 12, fill: soft, "text-anchor": anchor, "font-style": "italic" }, text2);
      const head = svg("defs", {}, svg("marker", { id: "mechanism-arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8Z", fill: soft })));
      const found = [head];
      const below = bottom + 18;
      found.push(svg("text", { x: x.source, y: bottom + 60, "font-size": 12, fill: soft }, "Numbers: red is positive, blue is negative."));
      if (flow.states) found.push(across(x.source + labelWidth2, x.states), word("encoder", (x.source + labelWidth2 + x.states) / 2, below));
      if (flow.keys && flow.states) found.push(across(x.states + stripWidth, x.keys));
      if (flow.scores) {
        found.push(across(x.keys + stripWidth, x.scores), across(x.scores + BAR_WIDTH, x.weights, this.isForced));
        found.push(word("compare", (x.keys + stripWidth + x.scores) / 2, middle - 8), word(this.isForced ? "yours" : this.normalizer, (x.scores + BAR_WIDTH + x.weights) / 2, middle - 8));
        if (flow.query) found.push(arrow(`M${x.keys + stripWidth + 6} 31L${x.scores + BAR_WIDTH / 2} 31L${x.scores + BAR_WIDTH / 2} ${TOP3 - 26}`));
      }
      found.push(across(x.weights + BAR_WIDTH, x.values));
      if (flow.context) {
        found.push(arrow(`M${x.values + stripWidth / 2} ${bottom + 5}L${x.values + stripWidth / 2} ${bottom + 30}`), word("sum", x.values + stripWidth / 2 + 8, below + 2, "start"));
        const low = bottom + 36 + STRIP_HEIGHT / 2;
        const resultBottom = Math.min(bottom, TOP3 + 30 * Math.min(6, flow.results.length));
        found.push(arrow(`M${x.values + stripWidth + 6} ${low}L${x.result + 24} ${low}L${x.result + 24} ${resultBottom + 6}`), word("with the decoder\u2019s state", layout2.width - 4, low + 18, "end"));
      }
      return found;
    }
    /** Whether the reader gave the weights of the chosen step, so that they do not come from its scores. */
    get isForced() {
      const { scene } = this.explorer;
      return scene !== null && isForced2(scene, scene.state.step);
    }
    /** What turns scores into weights. */
    get normalizer() {
      const { location: location2, normalizer = "softmax" } = this.explorer.first.config.attention ?? {};
      return location2?.kind === "monotonic" ? location2.kind : normalizer;
    }
    // --- marks -------------------------------------------------------------------------------------
    rowAt(event) {
      const { layout: layout2, flow } = this;
      if (!layout2 || !flow) return null;
      const box = this.root.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top].map((pixel) => pixel * (layout2.height / box.height));
      if (x > layout2.x.values + layout2.stripWidth) return null;
      const row = Math.floor((y - TOP3) / layout2.rowHeight);
      return row >= 0 && row < flow.labels.length ? row : null;
    }
    /** Mark the row of a source step. */
    mark(row) {
      const { layout: layout2, flow } = this;
      if (!layout2 || !flow || row === null || row >= flow.labels.length) {
        this.row.setAttribute("visibility", "hidden");
        return;
      }
      const { x, rowHeight, stripWidth } = layout2;
      const box = { x: x.source - 2, y: TOP3 + row * rowHeight, width: x.values + stripWidth - x.source + 4, height: rowHeight };
      for (const [name, value] of Object.entries(box)) this.row.setAttribute(name, value.toFixed(2));
      this.row.setAttribute("stroke", theme().accent);
      this.row.setAttribute("visibility", "visible");
      this.line.textContent = describeRow2(row, flow, this.isForced);
    }
    /** Mark the part whose arithmetic the reader looks at. */
    markPart(stage) {
      const { accent } = theme();
      const chosen = stage === null ? void 0 : Object.keys(STAGES).find((part) => STAGES[part].some((name) => stage.startsWith(name)));
      for (const [part, frame] of this.parts) frame.setAttribute("stroke", part === chosen ? accent : "none");
    }
    // --- the temperature of the softmax ------------------------------------------------------------
    /** The slider exists where the weights are the softmax of the scores, and may be forced. */
    showTemperature() {
      const { first: { config }, canForce: canForce2, state } = this.explorer;
      const hasSlider = canForce2 && this.normalizer === "softmax" && !config.attention?.location && this.flow?.scores !== null;
      byId("live-temperature-place").hidden = !hasSlider;
      const row = state.force.get(state.step + 1, state.layer, state.head);
      const temperature = 10 ** (Number(inputById("live-temperature").value) / SLIDER_SCALE);
      const ofSlider = this.flow?.scores ? softmax(this.flow.scores, temperature) : [];
      const isHeated = row?.every((weight, k) => Math.abs(weight - ofSlider[k]) < 1e-6) ?? false;
      if (!isHeated) inputById("live-temperature").value = "0";
      const value = isHeated ? temperature.toPrecision(2) : row ? "none, since you gave the weights" : "1.0 (the model\u2019s own)";
      const text2 = `Temperature of the softmax in this step: ${value}`;
      byId("live-temperature-name").textContent = text2;
      inputById("live-temperature").setAttribute("aria-valuetext", text2);
    }
    /** Force the weights of the chosen step to the softmax of its scores at another temperature. */
    heat() {
      const { explorer, flow } = this;
      const value = Number(inputById("live-temperature").value);
      if (!flow?.scores) return;
      if (value === 0) {
        explorer.freeRow();
        return;
      }
      const weights = softmax(flow.scores, 10 ** (value / SLIDER_SCALE));
      explorer.forceRow(() => weights);
    }
  };
  function softmax(scores, temperature) {
    const largest2 = Math.max(...scores);
    const powers = scores.map((score) => Math.exp((score - largest2) / temperature));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  // src/live/arithmetic/scaling.ts
  var DIGITS = 8;
  var ROUNDING = 4 * Number.EPSILON;
  function sequenceScaling(source, { scaling, features }) {
    const none = { shift: features.map(() => 0), scale: features.map(() => 1) };
    if (scaling.relative) return { ...none, shift: [...source[source.length - 1]] };
    if (!scaling.instance) return none;
    for (const [f] of features.entries()) {
      const values = source.map((row) => row[f]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const isConstant = high - low <= ROUNDING * Math.max(Math.abs(low), Math.abs(high));
      const spread2 = isConstant ? 1 : high - low;
      const unit = values.map((x) => (x - low) / spread2);
      const mean = unit.reduce((a, b) => a + b, 0) / unit.length;
      const deviation = spread2 * Math.sqrt(unit.reduce((sum, x) => sum + (x - mean) ** 2, 0) / unit.length);
      none.shift[f] = low + spread2 * mean;
      if (!isConstant) none.scale[f] = deviation / scaling.source.scale[f];
    }
    return none;
  }
  function scaleSource(source, content) {
    const { shift, scale } = sequenceScaling(source, content);
    const { shift: fittedShift, scale: fittedScale } = content.scaling.source;
    return source.map((row) => row.map((x, f) => ((x - shift[f]) / scale[f] - fittedShift[f]) / fittedScale[f]));
  }
  function isScaled({ scaling }) {
    const isFitted = [scaling.source, scaling.target].some(({ shift, scale }) => shift.some((x) => x !== 0) || scale.some((x) => x !== 1));
    return isFitted || scaling.relative || scaling.instance;
  }
  function sequenceNames2({ scaling }) {
    if (scaling.relative) return { shift: "last source value", scale: null };
    return scaling.instance ? { shift: "mean of the source", scale: "scale of the source" } : { shift: null, scale: null };
  }
  var text = (x) => formatCell(x, DIGITS);
  var term = (x) => x < 0 ? `(${text(x)})` : text(x);
  function addSource(step, { content, source }) {
    const { record } = step;
    const { features } = content;
    const scaled = scaleSource(source, content);
    if (!isScaled(content)) {
      record.add("Source points", "", scaled, { columns: features });
      return;
    }
    const points2 = record.add("Source, in units of the data", "", source, { columns: features, digits: DIGITS });
    const names = sequenceNames2(content);
    const own = sequenceScaling(source, content);
    const { shift, scale } = content.scaling.source;
    const columns = [...names.shift ? [names.shift] : [], ...names.scale ? [names.scale] : [], "shift", "scale"];
    const rows = features.map((_, f) => [...names.shift ? [own.shift[f]] : [], ...names.scale ? [own.scale[f]] : [], shift[f], scale[f]]);
    const table = record.add("Scaling of the source", "", rows, { rows: features, columns, digits: DIGITS });
    const inner = names.scale ? `(value - ${names.shift}) / ${names.scale}` : names.shift ? `value - ${names.shift}` : "value";
    record.add("Source points", `scaled = (${inner} - shift) / scale`, scaled, {
      columns: features,
      origin: (row, f) => {
        const used = rowOf(table, f);
        const [first, second] = used.values;
        const value = text(points2.values[row][f]);
        const middle = names.scale ? `(${value} \u2212 ${term(first)}) / ${text(second)}` : names.shift ? `${value} \u2212 ${term(first)}` : value;
        const cells = [points2.ref(row, f), ...used.values.map((_, k) => used.ref(k))];
        return { expression: `(${middle} \u2212 ${term(shift[f])}) / ${text(scale[f])}`, cells };
      }
    });
  }
  function addForecast(step, { content, source, forecast }, output2) {
    const { step: t } = step.input;
    const { target_features: features, features: sourceFeatures, scaling } = content;
    const own = forecast[t];
    const add = (formula2, columns2, numbers2, origin) => {
      const last = columns2.length - 1;
      step.record.add("Forecast, in units of the data", formula2, numbers2, {
        rows: features,
        columns: columns2,
        origin,
        ...isScaled(content) ? { digits: DIGITS } : {},
        own: own.map((x) => columns2.map((_, column) => column === last ? x : NaN)),
        ownAs: "column"
      });
    };
    const copied = (row) => ({ expression: "the output of the model", cells: [output2.ref(row)] });
    if (!isScaled(content)) {
      add("the output itself, since the data are not scaled", ["forecast"], output2.values.map((x) => [x]), copied);
      return;
    }
    const names = sequenceNames2(content);
    const ofSource = sequenceScaling(source, content);
    const index = features.map((name) => sourceFeatures.indexOf(name));
    const shifts = index.map((f) => f < 0 ? 0 : ofSource.shift[f]);
    const scales = index.map((f) => f < 0 ? 1 : ofSource.scale[f]);
    const { shift, scale } = scaling.target;
    const columns = ["y", "scale", "shift", ...names.scale ? [names.scale] : [], ...names.shift ? [names.shift] : [], "forecast"];
    const numbers = output2.values.map((y, g) => [
      y,
      scale[g],
      shift[g],
      ...names.scale ? [scales[g]] : [],
      ...names.shift ? [shifts[g]] : [],
      (y * scale[g] + shift[g]) * scales[g] + shifts[g]
    ]);
    const formula = names.scale ? `forecast = (y scale + shift) (${names.scale}) + ${names.shift}` : `forecast = y scale + shift${names.shift ? ` + ${names.shift}` : ""}`;
    const stage = step.record.next;
    add(formula, columns, numbers, (row, column) => {
      if (column === 0) return copied(row);
      if (column < columns.length - 1) return null;
      const [y, a, b, ...others] = numbers[row].slice(0, -1).map(term);
      const scaled = `${y} \xD7 ${a} + ${b}`;
      const expression = names.scale ? `(${scaled}) \xD7 ${others[0]} + ${others[1]}` : [scaled, ...others].join(" + ");
      const cells = columns.slice(0, -1).map((_, k) => ({ stage, row, column: k }));
      return { expression, cells };
    });
  }
  function addSkip(step, { content, source }, network) {
    const { record, input: { step: t } } = step;
    const columns = content.target_features;
    const scaled = scaleSource(source, content);
    const share = network ?? record.addRow("Network's share", "from the layers that follow", "network", step.trace("output")[t], { columns, isByModel: true });
    const weight = step.parameter("skip.weight")[t].map((rows) => rows.flat());
    const bias = step.parameter("skip.bias")[t];
    const formula = `W x + b of this step; x = all ${source.length} source points, one after the other`;
    const linear = addSkipShare();
    const table = [share.values, linear.values, share.values.map((x, k) => x + linear.values[k])];
    const stage = record.next;
    const parts = record.add("Parts of the forecast", "forecast = network + skip", table, {
      rows: ["network", "skip", "forecast"],
      columns,
      origin: (row, column) => {
        if (row < 2) return { expression: row === 0 ? "the network\u2019s share" : "the skip\u2019s share", cells: [(row === 0 ? share : linear).ref(column)] };
        return { expression: `${factor(share.values[column])} + ${factor(linear.values[column])}`, cells: [0, 1].map((r) => ({ stage, row: r, column })) };
      }
    });
    return rowOf(parts, 2);
    function addSkipShare() {
      if (Math.max(weight.length, weight[0].length) > MAX_PRINTED_SIDE) {
        return record.addRow("Skip's share", `${formula}; the matrix is too large to print; it is in the checkpoint file of the run`, "skip", affine(weight, bias, scaled.flat()), { columns, isByModel: true });
      }
      const [W, b] = [printedRows(weight), printedRow(bias)];
      const x = record.addRow("Source points in one row", "", "x", scaled.flat(), { columns: columnNumbers(scaled.flat().length) });
      const map = addWeights(record, "Skip: the map", W, b, columns);
      return record.addRow("Skip's share", formula, "skip", affine(W, b, x.values), { columns, origin: (_, column) => affineOrigin(map, true, column, x) });
    }
  }

  // src/live/point_arithmetic.ts
  var PointKind = class {
    constructor(data) {
      this.data = data;
    }
    data;
    outputName = "Predicted point";
    rowsNote = "";
    get sourceNames() {
      return pointNames3(this.data.source.length);
    }
    get outputs() {
      const { target_features: names } = this.data.content;
      return { indices: [...names.keys()], names };
    }
    addSource(step) {
      addSource(step, this.data);
    }
    addDecoderInput(step) {
      step.record.addRow("Decoder input", "", "point", step.decoderInput, { columns: this.data.content.target_features });
    }
    results(step) {
      const { forecast, content: { target_features: names } } = this.data;
      return names.map((name, g) => ({ name, text: formatValue(forecast[step.input.step][g], 1), share: null }));
    }
    addResult(step, output2) {
      const { data } = this;
      const { step: t } = step.input;
      const skipped = data.content.config.skip === "linear" ? addSkip(step, data, output2) : output2;
      const point = skipped ?? step.record.addRow("Predicted point", "from the layers that follow", "y", step.trace("output")[t], { columns: data.content.target_features, isByModel: true });
      addForecast(step, data, point);
    }
  };
  function pointArithmetic(explorer) {
    return {
      name: () => pointNames2({ kind: "cross", source: explorer.scene.state.source }).row(explorer.scene.state.step),
      input: (parameter) => {
        const { state: { step, layer, head, source, subjects, force }, shown: [{ answer }] } = explorer.scene;
        const { content } = explorer.models[subjects[0].model];
        const isForced3 = explorer.canForce && force.get(step + 1, layer, head) !== void 0;
        return { content, kind: new PointKind({ content, source, forecast: answer.forecast }), answer, step, layer, head, isForced: isForced3, parameter };
      }
    };
  }

  // src/live/point_share.ts
  var LEGEND = "Circles: source points. Diamonds: forecast. Crosses: true continuation, if it is known. Dashed, without crosses: the forecast with the model's own weights.";
  function describeLimit({ window: window2 }, points2) {
    return window2 !== null && points2 > window2 ? ` Since the run was trained on windows of ${window2} points, the command reads only the last ${window2} of these ${points2}, so its forecast is another one.` : "";
  }
  function sharedPoints(explorer) {
    const form = () => explorer.first.input ?? GENERATED_FORM;
    const forced = () => explorer.canForce ? explorer.rowsFor(explorer.models[explorer.state.subjects[0].model]) : [];
    return {
      files: [
        { id: "live-save-csv", button: "Save input as CSV", name: INPUT_FILE, type: "text/csv", content: () => toCsv(form(), explorer.first.features, explorer.state.source), isEnabled: () => true },
        { id: "live-save-weights", button: "Save forced weights", name: WEIGHTS_FILE, type: "application/json", content: () => toWeightsFile(forced()), isEnabled: () => forced().length > 0 }
      ],
      command: (run) => {
        const [{ model, run: index, epoch }] = explorer.state.subjects;
        const { best_epoch: best } = explorer.models[model].content.runs[index];
        return command({ run, form: form(), epoch: epoch === best ? null : epoch, isForced: forced().length > 0 });
      },
      explain: () => {
        const { shown, state: { source } } = explorer.scene;
        const of = shown.length > 1 ? ` of ${shown[0].name}` : "";
        const files = forced().length ? `${INPUT_FILE} and ${WEIGHTS_FILE} are the saved files` : `${INPUT_FILE} is the saved input`;
        return `This command gives the forecast${of} that is shown: ${files}.${describeLimit(form(), source.length)}`;
      },
      sourceName: () => {
        const { example, isChanged } = explorer.scene.state;
        return example === null ? "a source of the user's own" : `sequence ${explorer.sequences.names[example]}${isChanged ? ", changed" : ""}`;
      },
      legend: LEGEND,
      picture: () => byId("live-path").querySelector("svg")
    };
  }

  // src/live/picture.ts
  var MARGIN4 = 16;
  var GAP2 = 24;
  var MIN_WIDTH2 = 420;
  var LINE = 20;
  var FONT4 = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  var PIXELS = 2;
  var CHARACTER = 7.7;
  var PAGE_ATTRIBUTES = ["tabindex", "role", "class", "style", "data-point", "data-step", "data-column", "id"];
  var sizeOf = ({ viewBox: { baseVal: { width, height } } }) => ({ width, height });
  function copy(picture, x, y) {
    const clone = picture.cloneNode(true);
    for (const element of [clone, ...clone.querySelectorAll("*")]) {
      const isImage = element instanceof SVGImageElement;
      for (const { name } of [...element.attributes]) {
        if (name.startsWith("aria-") || PAGE_ATTRIBUTES.includes(name) && !(isImage && name === "style")) element.removeAttribute(name);
      }
    }
    clone.querySelectorAll("[data-only=page]").forEach((element) => {
      element.remove();
    });
    clone.setAttribute("x", String(x));
    clone.setAttribute("y", String(y));
    return clone;
  }
  function wrap(text2, most) {
    const lines = [];
    for (const word of text2.split(/\s+/)) {
      const last = lines.at(-1);
      if (last === void 0 || last.length + word.length + 1 > most) lines.push(word);
      else lines[lines.length - 1] = `${last} ${word}`;
    }
    return lines;
  }
  function legend(names, fill2, y) {
    let x = MARGIN4;
    return names.flatMap(({ name, colour }) => {
      const parts = [svg("path", { d: `M${x + 6} ${y - 11}l6 6l-6 6l-6 -6Z`, fill: colour }), svg("text", { x: x + 18, y, "font-size": 13, fill: fill2 }, name)];
      x += 36 + name.length * CHARACTER;
      return parts;
    });
  }
  function compose(title, text2, names, path, maps) {
    const { ground, ink, soft } = theme();
    const left = path ? sizeOf(path) : { width: 0, height: 0 };
    const start = MARGIN4 + (path ? left.width + GAP2 : 0);
    const right = Math.max(0, ...maps.map(({ picture }) => sizeOf(picture).width));
    const width = Math.max(MIN_WIDTH2, start + right + MARGIN4 - (right ? 0 : GAP2));
    const words = (content, x, y, size, fill2, weight = 400) => svg("text", { x, y, "font-size": size, "font-weight": weight, fill: fill2 }, content);
    const root = svg("svg", { "font-family": FONT4 });
    const lines = wrap(text2, Math.floor((width - 2 * MARGIN4) / CHARACTER));
    const top = MARGIN4 + 24 + (lines.length + (names.length ? 1 : 0)) * LINE + 8;
    let bottom = top;
    const column = [];
    for (const { picture, caption } of maps) {
      if (caption) {
        column.push(words(caption, start, bottom + 14, 13, soft));
        bottom += LINE;
      }
      column.push(copy(picture, start, bottom));
      bottom += sizeOf(picture).height;
    }
    const height = Math.max(top + left.height, bottom) + MARGIN4;
    for (const [name, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", String(width)], ["height", String(height)]]) root.setAttribute(name, value);
    root.append(
      svg("title", {}, title),
      svg("rect", { x: 0, y: 0, width, height, fill: ground }),
      words(title, MARGIN4, MARGIN4 + 16, 18, ink, 600),
      ...lines.map((line, k) => words(line, MARGIN4, MARGIN4 + 24 + (k + 0.8) * LINE, 13, soft)),
      ...legend(names, ink, MARGIN4 + 24 + (lines.length + 0.8) * LINE),
      ...path ? [copy(path, MARGIN4, top)] : [],
      ...column
    );
    return root;
  }
  function toSvgText(picture) {
    const text2 = new XMLSerializer().serializeToString(picture).replace(/[^\P{Cc}\n\t]/gu, "");
    return `<?xml version="1.0" encoding="UTF-8"?>
${text2}
`;
  }
  async function toPng(picture) {
    const { width, height } = sizeOf(picture);
    const address = URL.createObjectURL(new Blob([toSvgText(picture)], { type: "image/svg+xml" }));
    try {
      const image = new Image();
      image.src = address;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [Math.ceil(width * PIXELS), Math.ceil(height * PIXELS)];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((resolve, reject) => {
        canvas.toBlob((blob) => {
          if (blob) resolve(blob);
          else reject(new Error("The browser could not draw the picture."));
        }, "image/png");
      });
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  // src/live/share.ts
  var PLACEHOLDER = "RUN";
  function save(name, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
    setTimeout(() => {
      URL.revokeObjectURL(link.href);
    }, 6e4);
  }
  var Share = class {
    constructor(explorer, shared) {
      this.explorer = explorer;
      this.shared = shared;
      const buttons = document.createElement("div");
      buttons.className = "controls";
      this.fileButtons = shared.files.map(({ id, button, name, type, content: write }) => this.button(id, button, () => {
        save(name, new Blob([write()], { type }));
      }));
      buttons.append(
        this.button("live-copy", "Copy link", () => this.copyLink()),
        this.button("live-save-svg", "Save picture (SVG)", () => {
          this.savePicture();
        }),
        this.button("live-save-png", "Save picture (PNG)", () => this.savePng()),
        ...this.fileButtons
      );
      this.field.readOnly = true;
      this.field.id = "live-link";
      this.fieldLabel.className = "wide-field";
      this.fieldLabel.hidden = true;
      this.fieldLabel.append(this.field);
      this.note.setAttribute("role", "status");
      this.note.id = "live-share-note";
      this.explanation.className = "hint";
      this.command.id = "live-command";
      this.command.className = "command";
      const line = document.createElement("p");
      line.append(this.command);
      byId("live-share").append(buttons, this.fieldLabel, this.note, this.explanation, line);
      explorer.onAnswer(() => {
        this.show();
      });
    }
    explorer;
    shared;
    note = textElement("p", "");
    command = textElement("code", "");
    explanation = textElement("p", "");
    field = document.createElement("input");
    fieldLabel = textElement("label", "Link ");
    fileButtons;
    button(id, name, act) {
      const button = textElement("button", name);
      button.type = "button";
      button.id = id;
      button.addEventListener("click", () => {
        this.note.textContent = "";
        Promise.resolve().then(act).catch((error2) => {
          this.note.textContent = messageOf(error2);
        });
      });
      return button;
    }
    /** The folder of the first model's run; a placeholder if it is unknown. */
    get run() {
      const [{ model, run }] = this.explorer.state.subjects;
      const { path } = this.explorer.models[model].content.runs[run];
      return !path || path.startsWith("-") ? PLACEHOLDER : path;
    }
    /** Show the command of the first model. */
    show() {
      const { run, explorer, shared } = this;
      const [{ model, run: index }] = explorer.state.subjects;
      for (const [k, button] of this.fileButtons.entries()) button.disabled = !shared.files[k].isEnabled();
      this.command.textContent = shared.command(run);
      const where = run === PLACEHOLDER ? ` ${PLACEHOLDER} is the folder of the run ${explorer.models[model].content.runs[index].name}.` : "";
      this.explanation.textContent = shared.explain() + where;
    }
    async copyLink() {
      const { fragment } = this.explorer;
      const address = location.href.split("#", 1)[0] + fragment;
      history.replaceState(null, "", fragment);
      try {
        await navigator.clipboard.writeText(address);
        this.fieldLabel.hidden = true;
        this.note.textContent = "The link is in the clipboard. It opens this page with what is shown now.";
      } catch {
        this.fieldLabel.hidden = false;
        this.field.value = address;
        this.field.focus();
        this.field.select();
        this.note.textContent = "The browser does not allow the page to use the clipboard. The link is selected in the field: copy it with Ctrl+C or Cmd+C.";
      }
    }
    get title() {
      return document.querySelector("h1").textContent.trim().replace(/\s+/g, " ");
    }
    picture() {
      const { explorer: { first, scene }, shared } = this;
      const { state, shown } = scene;
      const head = first.layers > 1 || first.heads > 1 ? `, layer ${state.layer + 1}, head ${state.head + 1}` : "";
      const models = shown.map((each) => each.name).join(" and ");
      const text2 = `${models}; ${shared.sourceName()}${head}. ${byId("live-text").textContent} ${shared.legend}`;
      const maps = [...byId("live-map").children].filter((place3) => !place3.hidden).flatMap((place3) => {
        const picture = place3.querySelector("svg");
        return picture && picture.viewBox.baseVal.width > 0 && !picture.closest("[hidden]") ? [{ picture, caption: place3.querySelector("p")?.textContent ?? "" }] : [];
      });
      return compose(this.title, text2, shown.length > 1 ? shown : [], shared.picture(), maps);
    }
    get fileName() {
      return this.title.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "seqattn";
    }
    savePicture() {
      save(`${this.fileName}.svg`, new Blob([toSvgText(this.picture())], { type: "image/svg+xml" }));
    }
    async savePng() {
      save(`${this.fileName}.png`, await toPng(this.picture()));
    }
  };

  // src/live/tour_start.ts
  function chooseStart(explorer, start) {
    const { state, sequences, page: { examples } } = explorer;
    const isUsable = start !== null && start.example < sequences.count && explorer.accepts(examples.source_lengths[start.example]);
    if (isUsable) {
      explorer.chooseExample(start.example);
      [state.layer, state.head] = [start.layer, start.head];
    } else if (state.isChanged) explorer.chooseExample(state.example ?? 0);
    return isUsable;
  }
  function restoreSource(explorer, step, start) {
    const { state, sequences } = explorer;
    const [before, wasChanged] = [state.example, state.isChanged];
    let reason = "";
    if (step === "move") reason = chooseStart(explorer, start) ? ", because its weights show clearly where a model looks" : "";
    else if (wasChanged) explorer.chooseExample(before ?? start?.example ?? 0);
    if (state.example === null) return [];
    const name = sequences.names[state.example];
    if (state.example !== before) return [`The tour has switched to sequence ${name}${reason}.`];
    return wasChanged ? [`The tour has put the source of sequence ${name} back as it was.`] : [];
  }
  function restoreEpochs({ state, models }) {
    const best = state.subjects.map(({ model, run }) => models[model].content.runs[run].best_epoch);
    const isOther = state.subjects.some(({ epoch }, k) => epoch !== best[k]);
    for (const [k, subject] of state.subjects.entries()) subject.epoch = best[k];
    return isOther ? ["The tour has put the trained parameters back: those after the epoch with the lowest validation loss."] : [];
  }
  function prepareStep(explorer, step, start) {
    const { state } = explorer;
    const hadForced = step !== "forbid" && state.force.size > 0;
    const notes = restoreSource(explorer, step, start);
    if (hadForced) {
      state.force.clear();
      notes.push("The tour has taken back the forced weights.");
    }
    if ("cross" in (explorer.scene?.shown[0].answer.maps ?? {})) state.kind = "cross";
    return step === "look" || step === "forbid" ? notes : [...notes, ...restoreEpochs(explorer)];
  }
  function showAttending({ state, models }) {
    const model = models.findIndex(({ content }) => content.layers > 0);
    if (model < 0) return;
    const subject = { model, run: 0, epoch: models[model].content.runs[0].best_epoch };
    state.subjects = distinct([subject, ...state.subjects]).slice(0, 4);
  }

  // src/live/tour_texts.ts
  var CHOOSE = "Choose another forecast point: click a diamond, or move the slider Forecast point.";
  var LOOK = {
    distribution: {
      title: "Where does it look?",
      about: "For each [forecast point], the model looks at the source again. This is [attention]. It gives each [source point] an [attention weight], and reads more from points with a larger weight. In the heatmap, each row is a forecast point and each column a source point; the brighter a cell, the larger the weight. In the picture of the sequence, the circle of a source point grows and brightens with its weight.",
      task: CHOOSE
    },
    strength: {
      title: "Where does it look?",
      about: "This model does not choose among the source points. It adds what it reads to a memory, and each [forecast point] reads from this memory. The heatmap shows how strongly each forecast point reads what a source point wrote. These strengths may be negative, and they need not add up to 1, unlike an [attention weight].",
      task: CHOOSE
    },
    none: {
      title: "Where does it look?",
      about: "Nowhere: this model has no [attention]. The [encoder] has to put the whole source into one list of numbers of fixed size, and the [decoder] forecasts from that list alone. A model with attention looks at every source point again for each [forecast point].",
      task: CHOOSE
    }
  };
  var RECURRENT = " (In a recurrent model, what is read at a source point also contains traces of the points before it.)";
  function look(facts) {
    const { attention, isRecurrent, attending, data } = facts;
    const step = { ...LOOK[attention] };
    if (attention === "distribution" && isRecurrent) step.about += RECURRENT;
    if (attention !== "none") return step;
    if (attending === null) return { ...step, commands: data?.commands };
    return { ...step, about: `${step.about} The page also has ${attending}, which has attention:`, action: showFirst(attending) };
  }
  var showFirst = (attending) => ({ name: `Show ${attending} instead`, act: "attending" });
  var FORBID = {
    title: "Forbid it",
    about: "How much does this trained model depend on this look? To find out, make a forecast point look elsewhere. The model then computes this point and all later ones with the weights that you give. This shows how much this one model depends on the look, because it was trained with it. Whether attention is needed is the question of the last step.",
    task: "In the heatmap, click a cell that is not the brightest of its row: its forecast point now reads from that source point only. Or give all points equal weights:",
    keys: "With the keyboard: go to the heatmap with Tab, choose a cell with the arrow keys, and press Enter.",
    action: { name: "Equal weights everywhere", act: "uniform" }
  };
  var BEFORE = {
    title: "What was it before training?",
    about: "This page has the model at several times of its training. An [epoch] is one pass through all training sequences. Before the first one, the parameters of the model are random numbers.",
    task: "Move the slider of the epochs to the left, as far as it goes. Then move it slowly to the right."
  };
  function withoutOther({ attention, data }, verdict, rest) {
    const end = { verdict, task: null, conclusion: [data?.average ?? "", ...rest].filter((sentence) => sentence !== ""), commands: data?.commands };
    if (attention === "none") {
      return { ...end, title: "What would attention change?", about: "This page cannot tell: it has no model with [attention]. To find out, train a second model that differs in its attention only, and put both on one page." };
    }
    if (verdict !== void 0) return { ...end, title: "What do the test sequences show?", about: "The steps before show one sequence at a time. The sentence above is about all test sequences." };
    return { ...end, title: "Is attention needed?", about: "Whether a model needs its [attention] shows in a comparison with a model that has none: its [decoder] gets one list of numbers for the whole source, and never looks back." };
  }
  function compareModels(facts) {
    const { plain: plain2, attending, isOtherShown, data } = facts;
    const [verdict, ...conclusion] = data?.conclusion ?? [];
    const other = plain2 ?? attending;
    if (other === null) return withoutOther(facts, verdict, conclusion);
    const count = "o through some sequences. This panel counts which forecast is closer to the truth:";
    const plainWords = `The model ${plain2} has no [attention]: its [decoder] gets one list of numbers for the whole source, and never looks back.`;
    const attendingWords = `The model ${attending} has [attention]: for each [forecast point], it looks at all source points again.`;
    return {
      title: plain2 === null ? "Is the model with attention better?" : "Is the model without attention worse?",
      verdict,
      about: `${plain2 === null ? attendingWords : plainWords} Both models answer the same source.`,
      task: isOtherShown ? `G${count}` : `Choose ${other} under Compare with. Then g${count}`,
      action: { name: "Next sequence", act: "next" },
      conclusion,
      commands: data?.commands
    };
  }
  function withRecord({ hasEpochs, data }, step) {
    return hasEpochs || !data ? step : { ...step, commands: [...step.commands ?? [], ...data.record] };
  }
  var STEPS2 = ["move", "look", "forbid", "before", "compare"];
  function tourSteps(facts) {
    const circles = facts.isNumbered ? "numbered circles" : "circles";
    const source = facts.plane ? `The ${circles} in the picture are the source: the points that the model is given, in this order. The diamonds are its forecast: how it continues the path. The crosses are the truth: how the path really continues.` : `In the picture, time runs from left to right. The ${circles} are the source: the values that the model is given. The diamonds are its forecast: how it continues them. The crosses are the truth: how they really continue.`;
    const steps = [
      {
        step: "move",
        title: "Move a source point",
        about: `${source} The model is inside this page, so it can answer any source.`,
        task: "Drag one of the circles to another place.",
        keys: "With the keyboard: go to a circle with Tab, and press the arrow keys."
      },
      ...facts.hasSteps ? [{ ...look(facts), step: "look" }] : [],
      ...facts.canForce ? [{ ...FORBID, step: "forbid" }] : [],
      ...facts.hasEpochs ? [{ ...BEFORE, step: "before" }] : [],
      { ...withRecord(facts, compareModels(facts)), step: "compare" }
    ];
    return facts.isTouch ? steps.map((step) => ({ ...step, keys: void 0 })) : steps;
  }
  var LITTLE = 0.05;
  var moved = (one, other) => formatNumber(largestChange(one, other), 2);
  var error = (forecast, { state: { truth } }, scale) => meanSquaredError(forecast, truth, scale);
  var truthOf = ({ state: { truth } }) => truth?.some((row) => row.some(Number.isFinite)) ?? false;
  function indicesOfLargest(row) {
    const sizes = row.map((weight) => Math.abs(weight) || 0);
    const largest2 = Math.max(...sizes);
    return sizes.flatMap((size, k) => size === largest2 ? [k] : []);
  }
  function afterMove(scene, before, { data } = { data: null }) {
    const { shown: [{ own: { forecast } }], state: { point } } = scene;
    const meaning = shareOfRange(scene, forecast, before) < LITTLE ? "That is little: try another point, or a larger move." : "So this point matters to the forecast.";
    const outside = data?.outside ? ` ${data.outside}` : "";
    const truth = truthOf(scene) ? "" : ` The crosses are gone, because nobody knows how a source that you made up really continues.${outside} Next starts again with the unchanged sequence.`;
    return `You moved source point ${point + 1}, and the forecast moved by up to ${moved(forecast, before)}. The model computed it again. ${meaning}${truth}`;
  }
  function afterLook(scene, { attention }) {
    const { state, shown: [{ answer }], alignment, targetFeatures } = scene;
    const rows = weightsOf(answer, state.kind, state.layer, state.head);
    const row = rows[state.step];
    const name = capitalize(pointNames2(state).row(state.step));
    if (!row || attention === "none") {
      const values = targetFeatures.slice(0, 2).map((name2, g) => `${name2} ${formatValue(answer.forecast[state.step][g], 1)}`);
      return `${name} is ${values.join(", ")}. The model computed it from nothing but that one list of numbers and its own previous forecast points.`;
    }
    if (isForced2(scene, state.step)) return `You forced the weights of ${pointNames2(state).row(state.step)}, so they do not show where the model looks. The button Own weights again gives it its [own weights] back.`;
    const most = indicesOfLargest(row);
    const points2 = most.length > 1 ? `${most.length} source points` : `source point ${most[0] + 1}`;
    if (attention === "strength") return `${name} reads ${points2} most strongly: ${most.map((k) => formatValue(row[k], 1)).join(", ")}.`;
    const share = shareText(row, row[most[0]]);
    const needed = state.kind === "cross" && alignment[state.step] >= 0 ? alignment[state.step] : null;
    const hint = needed === null ? "" : ` The truth depends on ${most.join() === String(needed) ? "that point" : `point ${needed + 1}`}: it has the orange frame.`;
    const forced = rows.some((_, step) => isForced2(scene, step));
    const isEach = !forced && rows.length > 1 && rows.every(isUneven) && new Set(rows.flatMap(indicesOfLargest)).size === rows.flatMap(indicesOfLargest).length;
    const others = forced ? " You forced the weights of another forecast point, which may change these." : isEach ? " No two forecast points look most at the same source point." : "";
    return `${name} gives ${points2} the largest weight, ${row[most[0]].toFixed(3)} of 1. ${share}${hint}${others}`;
  }
  var isUneven = (row) => row.length > 1 && Math.max(...row) > 1.2 / row.length;
  function shareText(row, largest2) {
    if (row.length === 1) return "There is no other source point.";
    if (largest2 > 0.9995) return "So it looks only there.";
    if (largest2 > 0.9) return "So it looks almost only there.";
    return isUneven(row) ? "It reads from other points, too, but less." : "So it looks everywhere almost alike.";
  }
  var ALIKE = 0.02;
  function isAsBefore({ shown: [{ answer, own }] }) {
    const [forced, free] = [answer, own].map(({ maps }) => maps.cross?.flat(2) ?? []);
    return free.length > 0 && largestChange(forced, free) < ALIKE;
  }
  function afterForce(scene, { data } = { data: null }) {
    const { shown: [{ answer, own, scale }] } = scene;
    const [forced, free] = [error(answer.forecast, scene, scale), error(own.forecast, scene, scale)];
    const change = largestChange(answer.forecast, own.forecast);
    if (isAsBefore(scene) && shareOfRange(scene, answer.forecast, own.forecast) < LITTLE) return "The model gives almost the same weights without you, so the forecast stays where it is. Try another cell of the row.";
    const errors = forced === null || free === null ? "" : ` The [mean squared error] of this sequence goes from ${formatNumber(free, 2)} to ${formatNumber(forced, 2)}.`;
    const meaning = forced !== null && free !== null && forced > 2 * free ? " So this trained model depends on what it reads there." : shareOfRange(scene, answer.forecast, own.forecast) < LITTLE ? " So the forecast of this sequence hardly depends on this look. Try another row." : "";
    const average = data?.average ? ` One sequence may be an exception. ${data.average}` : "";
    return `The dashed line is the forecast with the model's [own weights]. With yours, it moves by up to ${formatNumber(change, 2)}.${errors}${meaning} A model without attention may still forecast as well: see the last step.${average}`;
  }
  function afterEpoch(scene, trained, best) {
    const { shown: [{ own: { forecast }, scale }], state: { subjects: [{ epoch }] } } = scene;
    const [then, now] = [error(forecast, scene, scale), error(trained, scene, scale)];
    const when = epoch === 0 ? "Before training" : `After epoch ${epoch}`;
    if (epoch === best) return `This is the trained model again, after epoch ${best}, which had the lowest validation loss.${now === null ? "" : ` The [mean squared error] of this sequence is ${formatNumber(now, 2)}.`}`;
    if (then === null || now === null) return `${when}, the forecast is up to ${moved(forecast, trained)} away from that of the trained model.`;
    return `${when}, the [mean squared error] of this sequence is ${formatNumber(then, 2)}; with the trained model (after epoch ${best}) it is ${formatNumber(now, 2)}.${epoch === 0 && then > now ? " All that the model can do, it has learned." : ""}`;
  }
  function closest(scene) {
    const [{ scale }] = scene.shown;
    const losses = scene.shown.map(({ answer }) => error(answer.forecast, scene, scale) ?? NaN);
    const least = Math.min(...losses);
    return losses.flatMap((loss, k) => loss === least ? [k] : []);
  }
  function afterPlain(scene, seen = []) {
    const [{ name: firstName, scale }] = scene.shown;
    const units = hasOwnScales(scene.shown) ? ` (all in the scaled units of ${firstName})` : "";
    const best = closest(scene);
    if (best.length === 0) {
      const [first, second] = scene.shown;
      return `The two forecasts are up to ${moved(first.answer.forecast, second.answer.forecast)} apart. The truth of a changed source is unknown; choose a sequence again to see the errors.`;
    }
    const errors = scene.shown.map(({ name, answer }) => `${name} ${formatNumber(error(answer.forecast, scene, scale), 2)}`);
    const ties = seen.filter(({ length }) => length > 1).length;
    const counts = scene.shown.map(({ name }, k) => `${name} in ${seen.filter(({ length, 0: only }) => length === 1 && only === k).length}`);
    const score = seen.length > 1 ? `Closest to the truth in the ${seen.length} sequences that you have seen: ${counts.join(", ")}${ties > 0 ? `; in ${ties}, equally close` : ""}.` : best.length > 1 ? `So ${best.map((k) => scene.shown[k].name).join(" and ")} are equally close to the truth here.` : `So ${scene.shown[best[0]].name} is closer to the truth here.`;
    return `[Mean squared error|mean squared error] of this sequence${units}: ${errors.join(", ")}. ${score}`;
  }

  // src/live/tour.ts
  var MEMORY = "seqattn.tour";
  var SEEN = "seen";
  function isSeen() {
    try {
      return localStorage.getItem(MEMORY) === SEEN;
    } catch {
      return false;
    }
  }
  function remember() {
    try {
      localStorage.setItem(MEMORY, SEEN);
    } catch {
    }
  }
  var PLACES = { move: "live-path", look: "live-map", forbid: "live-map", before: "live-epochs", compare: "live-after" };
  var SPACE = 12;
  function fold(commands) {
    const details = document.createElement("details");
    details.append(textElement("summary", "Commands"), ...commands.map(([label, words]) => {
      const line = textElement("p", `${label} `);
      const code = textElement("code", words);
      code.className = "command";
      line.append(code);
      return line;
    }));
    return details;
  }
  var Tour = class {
    constructor(explorer) {
      this.explorer = explorer;
      this.opener = this.button("live-tour-open", "Guided tour", () => {
        this.open();
      });
      this.opener.setAttribute("aria-expanded", "false");
      this.opener.setAttribute("aria-controls", "live-tour-panel");
      this.back = this.button("live-tour-back", "Back", () => {
        const before = this.neighbour(-1);
        if (before) this.go(before);
      });
      this.next = this.button("live-tour-next", "Next", () => {
        const after = this.neighbour(1);
        if (after) this.go(after);
        else this.close();
      });
      this.spoken.className = "spoken";
      this.spoken.setAttribute("aria-live", "polite");
      this.buildPanel();
      this.buildInvitation();
      byId("live-tour").append(this.opener, this.invitation, this.panel);
      explorer.onAnswer((scene) => {
        this.follow(scene);
      });
    }
    explorer;
    invitation = document.createElement("div");
    panel = document.createElement("section");
    opener;
    heading = textElement("h3", "");
    scroller = document.createElement("div");
    body = document.createElement("div");
    result = document.createElement("div");
    end = document.createElement("div");
    /** The task and its button, below the text that scrolls. */
    task = document.createElement("div");
    back;
    next;
    spoken = textElement("p", "");
    announce = announcer(this.spoken);
    /** The current step; null if the tour is closed. */
    step = null;
    start = null;
    isDone = false;
    resultText = "";
    /** Whether the reader pressed a button of the step, and so waits for its result. */
    isAwaited = false;
    /** The closest models of each sequence that the last step has shown; see `closest`. */
    winners = /* @__PURE__ */ new Map();
    button(id, name, act) {
      const button = textElement("button", name);
      button.type = "button";
      button.id = id;
      button.addEventListener("click", act);
      return button;
    }
    buildPanel() {
      this.panel.id = "live-tour-panel";
      this.panel.setAttribute("aria-labelledby", "live-tour-title");
      this.panel.hidden = true;
      this.heading.id = "live-tour-title";
      this.heading.tabIndex = -1;
      this.result.id = "live-tour-result";
      const buttons = document.createElement("div");
      buttons.className = "controls";
      buttons.append(this.back, this.next, this.button("live-tour-close", "End the tour", () => {
        this.close();
      }));
      this.scroller.className = "tour-text";
      this.scroller.append(this.body, this.result, this.end);
      this.task.className = "task";
      this.panel.append(this.heading, this.scroller, this.task, buttons, this.spoken);
      this.panel.addEventListener("keydown", (event) => {
        if (event.key !== "Escape" || isCardOpen()) return;
        event.preventDefault();
        this.close();
      });
    }
    buildInvitation() {
      this.invitation.className = "invitation";
      this.invitation.hidden = isSeen();
      this.opener.hidden = !this.invitation.hidden;
      this.invitation.append(
        textElement("p", "New here? A short tour shows what this model does, and why. It takes about five minutes."),
        this.button("live-tour-start", "Start the tour", () => {
          this.open();
        }),
        this.button("live-tour-skip", "No, thanks", () => {
          this.dismiss();
          this.opener.focus();
        })
      );
    }
    dismiss() {
      remember();
      this.invitation.hidden = true;
      this.opener.hidden = false;
    }
    open() {
      this.dismiss();
      this.panel.hidden = false;
      this.opener.hidden = true;
      this.opener.setAttribute("aria-expanded", "true");
      this.resize();
      this.go("move");
    }
    close() {
      this.panel.hidden = true;
      this.step = null;
      this.mark(null);
      this.opener.hidden = false;
      this.opener.setAttribute("aria-expanded", "false");
      this.resize();
      this.opener.focus();
    }
    /** Draw again, because the open tour takes a part of the width. */
    resize() {
      this.explorer.draw();
    }
    // --- steps -------------------------------------------------------------------------------------
    get steps() {
      return tourSteps(this.facts);
    }
    /** Return the step before or after the current one; null if there is none. The steps may change with the shown model. */
    neighbour(direction) {
      const { step: current } = this;
      if (!current) return null;
      const names = this.steps.map(({ step }) => step).filter((step) => (STEPS2.indexOf(step) - STEPS2.indexOf(current)) * direction > 0);
      return names.at(direction > 0 ? 0 : -1) ?? null;
    }
    get facts() {
      const { explorer } = this;
      const { first, models, state, page } = explorer;
      const hasAttention = first.layers > 0;
      const other = models.find(({ content }) => content.layers > 0 !== hasAttention)?.content.runs[0].name ?? null;
      const { epochs } = first.runs[state.subjects[0].run];
      return {
        plane: page.examples.plane,
        canForce: explorer.canForce,
        hasEpochs: epochs.length > 1,
        hasSteps: explorer.rowCount > 1,
        isNumbered: state.source.length <= MAX_NUMBERED,
        attention: first.layers === 0 ? "none" : meaningOf(first),
        isRecurrent: first.config.kind === "recurrent",
        data: page.live.tour ?? null,
        isTouch: matchMedia("(hover: none) and (pointer: coarse)").matches,
        plain: hasAttention ? other : null,
        attending: hasAttention ? null : other,
        isOtherShown: state.subjects.some(({ model }) => models[model].content.layers > 0 !== hasAttention)
      };
    }
    /** Show a step, and bring the explorer into the state that it begins with. */
    go(step) {
      this.step = step;
      const notes = prepareStep(this.explorer, step, this.facts.data?.start ?? null);
      this.start = null;
      this.isDone = false;
      this.next.classList.remove("ready");
      this.resultText = "";
      this.isAwaited = false;
      this.winners.clear();
      this.result.replaceChildren();
      const { steps } = this;
      const position = steps.findIndex((each) => each.step === step);
      this.heading.textContent = `Tour ${position + 1} of ${steps.length}: ${steps[position].title}`;
      this.showText(steps[position], notes);
      this.back.disabled = position === 0;
      this.next.textContent = position === steps.length - 1 ? "Finish" : "Next";
      this.mark(step === "look" || step === "forbid" ? this.placeOfWeights : PLACES[step]);
      this.heading.focus({ preventScroll: true });
      this.scroller.scrollTop = 0;
      this.reveal();
      this.spoken.textContent = "";
      this.announce("");
      void this.explorer.update().then(() => {
        this.begin(step);
      });
    }
    /** Remember what the explorer shows when its answer for the state of this step has come. */
    begin(step) {
      const { scene } = this.explorer;
      if (step !== this.step || !scene) return;
      const { state, shown: [{ own }] } = scene;
      this.start = { step: state.step, reference: this.referenceOf(scene), source: state.source, forecast: own.forecast };
      this.follow(scene, true);
    }
    /** Return a key of what the current step compares with, which changes with the sequence or the model. */
    referenceOf({ state: { example, source, subjects: [{ model, run, epoch }] } }) {
      return JSON.stringify(this.step === "before" ? [model, run, source] : [example, model, run, epoch]);
    }
    bestEpoch({ state: { subjects: [{ model, run }] } }) {
      return this.explorer.models[model].content.runs[run].best_epoch;
    }
    /** Ask the model for the forecast that the current step compares with, after a choice of another sequence or model. */
    async refresh(scene, start) {
      const { explorer: { models, sequences } } = this;
      const { state: { example, source, isChanged, subjects: [{ model, run, epoch }] } } = scene;
      const reference = this.referenceOf(scene);
      const before = this.step === "before" || !isChanged || example === null ? source : sequences.source(example);
      const options = { run, epoch: this.step === "before" ? this.bestEpoch(scene) : epoch, outputs: "forecast" };
      const { forecast } = await models[model].run(before, options);
      if (this.start !== start || this.explorer.scene !== scene) return;
      this.start = { ...start, reference, source: before, forecast };
      this.follow(scene);
    }
    /** The place that the steps about weights frame: the path, if the first model has no weights. */
    get placeOfWeights() {
      return this.explorer.first.layers > 0 ? "live-map" : "live-path";
    }
    showText({ verdict, about, task, keys, action, conclusion = [], commands = [] }, notes) {
      this.body.replaceChildren();
      if (verdict !== void 0) {
        const answer = paragraph(markTerms(verdict));
        answer.id = "live-tour-verdict";
        this.body.append(answer);
      }
      this.body.append(paragraph(about));
      for (const note of notes) {
        const line = textElement("p", note);
        line.className = "tour-note";
        this.body.append(line);
      }
      this.task.replaceChildren(...task === null ? [] : [textElement("p", task)]);
      if (action) this.task.append(this.button("live-tour-action", action.name, () => {
        this.act(action.act);
      }));
      if (keys !== void 0) this.body.append(textElement("p", keys));
      this.end.replaceChildren(...conclusion.map((sentence) => paragraph(markTerms(sentence))));
      if (commands.length) this.end.append(fold(commands));
    }
    /** Make the change that a button of the tour offers. */
    act(action) {
      const { explorer } = this;
      this.isAwaited = true;
      if (action === "uniform") explorer.forceUniformEverywhere();
      else if (action === "attending") {
        showAttending(explorer);
        this.go(this.step);
      } else explorer.chooseExample((explorer.state.example ?? -1) + 1);
    }
    /** Frame the part of the page that a step is about. */
    mark(id) {
      document.querySelectorAll(".tour-place").forEach((element) => {
        element.classList.remove("tour-place");
      });
      if (id !== null && (id !== "live-after" || (this.facts.plain ?? this.facts.attending) !== null)) byId(id).classList.add("tour-place");
    }
    /** Bring the framed place into view, together with the pictures if there is room for both. */
    reveal() {
      const isBelow = getComputedStyle(this.panel).position === "fixed";
      const room = innerHeight - (isBelow ? this.panel.getBoundingClientRect().height : 0) - 2 * SPACE;
      const pictures = ["live-path", "live-map"].map((id) => byId(id).getBoundingClientRect());
      const framed = document.querySelector(".tour-place")?.getBoundingClientRect();
      const spanOf = (boxes) => [Math.min(...boxes.map(({ top: top2 }) => top2)), Math.max(...boxes.map(({ bottom: bottom2 }) => bottom2))];
      const visible2 = (framed ? [framed, ...pictures] : pictures).filter(({ height }) => height > 0);
      const candidates = [visible2, framed && framed.height > 0 ? [framed] : [], pictures.slice(0, 1)].filter((boxes) => boxes.length > 0).map(spanOf);
      const [top, bottom] = candidates.find(([first, last]) => last - first <= room) ?? candidates.at(-1);
      const start = isBelow ? 0 : Math.max(0, byId("live-body").getBoundingClientRect().top - SPACE);
      const shift = start && top - start >= SPACE ? start : top < SPACE ? top - SPACE : bottom > room + SPACE ? Math.min(top - SPACE, bottom - room - SPACE) : 0;
      const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
      scrollBy({ top: shift, behavior: isStill ? "auto" : "smooth" });
    }
    /** Show what the reader's change did, with the current numbers.
     *
     * @param isBeginning - Whether the step has just begun. The panel then shows the first lines of the step.
     */
    follow(scene, isBeginning = false) {
      if (!this.step || !this.start) return;
      if (this.start.reference !== this.referenceOf(scene)) {
        this.refresh(scene, this.start).catch(() => void 0);
        return;
      }
      const text2 = this.describe(scene, this.start);
      if (text2 === null || text2 === this.resultText) return;
      this.resultText = text2;
      this.result.replaceChildren(paragraph(text2));
      this.announce(splitTerms(text2).map((part) => part.split("|")[0]).join(""));
      const isAwaited = this.isAwaited || !(this.isDone || isBeginning);
      this.isAwaited = false;
      this.isDone = true;
      this.next.classList.add("ready");
      if (isAwaited) this.result.scrollIntoView({ block: "nearest" });
    }
    /** Say what the step shows; null: the reader has not done it yet. */
    describe(scene, start) {
      const { state } = scene;
      switch (this.step) {
        case "move":
          return this.describeMove(scene, start);
        case "look":
          return this.isDone || state.step !== start.step ? afterLook(scene, this.facts) : null;
        case "forbid":
          return scene.shown[0].answer !== scene.shown[0].own ? afterForce(scene, this.facts) : null;
        case "before":
          return this.isDone || state.subjects[0].epoch !== this.bestEpoch(scene) ? afterEpoch(scene, start.forecast, this.bestEpoch(scene)) : null;
        default:
          return this.facts.isOtherShown && scene.shown.length > 1 ? afterPlain(scene, this.count(scene)) : null;
      }
    }
    describeMove(scene, start) {
      const isMoved = this.isDone || JSON.stringify(scene.state.source) !== JSON.stringify(start.source);
      return isMoved ? afterMove(scene, start.forecast, this.facts) : null;
    }
    /** Return the closest models of each sequence that this step has shown. */
    count(scene) {
      const best = closest(scene);
      const { example, force, isChanged } = scene.state;
      if (best.length > 0 && example !== null && !isChanged && force.size === 0) this.winners.set(example, best);
      return [...this.winners.values()];
    }
  };

  // src/live/live.ts
  async function loadAll(contents, load2) {
    const models = [];
    for (const content of contents) models.push(await load2(content));
    return models;
  }
  function findRun(models, run = 0) {
    const all = models.flatMap((model) => model.content.runs.map(({ name }, index) => ({ model, index, name })));
    const found = typeof run === "number" ? all[run] : all.find(({ name }) => name === run);
    if (!found) throw new Error(`run ${run}: the page has ${all.map(({ name }) => name).join(", ")}.`);
    return found;
  }
  async function showPoints(page) {
    const models = await loadAll(page.live.models, (each) => LiveModel.load(each));
    const explorer = await LiveExplorer.load(page, models);
    const arithmetic = pointArithmetic(explorer);
    new Mechanism(explorer, addArithmetic(explorer, arithmetic), arithmetic);
    window.seqattn = {
      createSession,
      explorer,
      run: async (source, options = {}) => {
        const { model, index } = findRun(models, options.run);
        return model.run(source, { ...options, run: index });
      }
    };
    byId("live-body").hidden = false;
    explorer.draw();
    addLegend(explorer);
    new Share(explorer, sharedPoints(explorer));
    new Tour(explorer);
    return explorer;
  }
  async function showWords(page) {
    const models = await loadAll(page.live.models, (each) => WordModel.load(each));
    const explorer = await WordExplorer.load(page, models);
    const arithmetic = wordArithmetic(explorer);
    new Mechanism(explorer, addArithmetic(explorer, arithmetic), arithmetic);
    window.seqattn = {
      createSession,
      explorer,
      answer: async (source, search = {}, options = {}) => {
        const { model, index } = findRun(models, options.run);
        const numbers = model.source.split(source).map((symbol) => model.source.numberOf(symbol));
        return model.answer(numbers, { beam: 1, given: [], ...search }, { ...options, run: index });
      }
    };
    byId("live-body").hidden = false;
    explorer.draw();
    new Share(explorer, sharedWords(explorer));
    new WordTour(explorer);
    return explorer;
  }
  async function showLive(content) {
    if (hasRuntime()) window.seqattn = { createSession };
    const [points2, words] = [livePage(content), wordPage(content)];
    if (!points2 && !words) return null;
    byId("live").hidden = false;
    try {
      return await (words ? showWords(words) : showPoints(points2));
    } catch (error2) {
      byId("live-error").textContent = `The model of this page could not be loaded (${messageOf(error2)}). The rest of the page works.`;
      byId("live-body").remove();
      return null;
    }
  }

  // src/load_plotly.ts
  var PAUSE = 500;
  async function loadPlotly() {
    const packed = byId("plotly-script");
    const script = document.createElement("script");
    script.nonce = document.querySelector("script[nonce]").nonce;
    try {
      const bytes = await decodeGzip(packed.textContent);
      script.src = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
      await new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = () => {
          reject(new Error("the browser refuses the script"));
        };
        document.head.append(script);
      });
    } catch (error2) {
      const notice = textElement("p", `The plots of this page could not be loaded (${messageOf(error2)}).`);
      notice.className = "notice";
      document.querySelector("main").prepend(notice);
      return false;
    } finally {
      URL.revokeObjectURL(script.src);
      packed.remove();
    }
    return true;
  }
  function waitForPause(source = window, pause = PAUSE) {
    return new Promise((resolve) => {
      const kinds2 = ["pointerdown", "pointermove", "pointerup", "pointercancel", "keydown", "wheel"];
      let timer;
      let isPressed = false;
      const restart = ({ type }) => {
        isPressed = type === "pointerdown" || isPressed && type !== "pointerup" && type !== "pointercancel";
        clearTimeout(timer);
        if (!isPressed) timer = setTimeout(finish, pause);
      };
      const finish = () => {
        for (const kind of kinds2) source.removeEventListener(kind, restart, true);
        resolve();
      };
      for (const kind of kinds2) source.addEventListener(kind, restart, { capture: true, passive: true });
      restart({ type: "" });
    });
  }
  var nextTask = () => new Promise((resolve) => {
    setTimeout(resolve);
  });

  // src/main.ts
  function listParts() {
    for (const section of document.querySelectorAll("section[data-part]:not([hidden])")) {
      const link = textElement("a", section.dataset.part);
      link.href = `#${section.id}`;
      byId("parts").append(link);
    }
  }
  async function showRun(content, live) {
    showCurves(content.curves, content.loss_name ?? "mean squared error", content.unit);
    await nextTask();
    if (live instanceof LiveExplorer && hasResults(content)) {
      showErrors(content, {
        section: "live",
        chooseExample: (example) => {
          live.chooseExample(example);
        },
        chooseStep: (step) => {
          live.chooseStep(step);
        }
      });
      live.onAnswer(({ state }) => {
        markWorst(state.example ?? -1);
      });
    } else if (!live && hasResults(content)) await showExplorer(content);
    await nextTask();
    if (content.attention_history) await showHistory(content.attention_history);
  }
  async function main() {
    const content = readContent();
    const live = await showLive(content);
    if (live) document.querySelector("#explorer")?.remove();
    showGlossary(content.live?.words !== void 0 || content.kind === "run" && content.symbols !== void 0 && content.symbols !== null);
    listParts();
    followTheme();
    if (content.kind === "run" && content.contributions) showContributions(content.contributions);
    await (live ? waitForPause() : nextTask());
    if (await loadPlotly()) {
      if (content.kind === "comparison") showComparison(content);
      else if (content.kind === "run") await showRun(content, live);
    }
    document.documentElement.dataset.ready = "yes";
  }
  void main();
})();

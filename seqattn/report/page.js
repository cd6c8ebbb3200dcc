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
  function textElement(tag, text) {
    const element = document.createElement(tag);
    element.textContent = text;
    return element;
  }

  // src/format.ts
  var MINUS = "\u2212";
  function escapeMarkup(words) {
    return String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%&#123;");
  }
  var withMinus = (text) => text.replace("-", MINUS);
  function formatNumber(x, digits = 3) {
    return Number.isFinite(x) ? withMinus(x.toPrecision(digits)) : "none";
  }
  var decimalExponent = (x) => Math.floor(Math.log10(Math.abs(x)));
  function formatValue(x, spread2) {
    if (!Number.isFinite(x)) return "none";
    const decimals = Math.max(0, x === 0 ? 0 : 2 - decimalExponent(x), spread2 > 0 ? 2 - decimalExponent(spread2) : 0);
    return decimals > 8 || Math.abs(x) >= 1e15 ? formatNumber(x) : withMinus(x.toFixed(decimals));
  }
  function shorten(name, most = 18) {
    return name.length > most ? `${name.slice(0, Math.ceil(most / 2) - 1)}\u2026${name.slice(-Math.floor(most / 2))}` : name;
  }
  function pointNames(count, first = 1) {
    return Array.from({ length: count }, (_, k) => `point ${first + k}`);
  }
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
    const axes = Object.entries({ xaxis: {}, yaxis: {}, ...more }).filter(([key]) => /^[xy]axis/.test(key));
    return {
      paper_bgcolor: ground,
      plot_bgcolor: ground,
      font: { color: ink, size: 13 },
      margin: { l: 50, r: 15, t: 30, b: 45 },
      hoverlabel: { namelength: -1 },
      ...more,
      ...Object.fromEntries(axes.map(([key, own]) => [key, { ...axis, ...own }]))
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
  function colourScale(meaning, array, largest) {
    if (meaning === "strength") {
      const widest = Math.max(Math.abs(array.low), Math.abs(array.high)) || 1;
      return { colorscale: DIVERGING, zmin: -widest, zmax: widest };
    }
    return { colorscale: "Viridis", zmin: 0, zmax: largest || 1 };
  }
  function heatmap(z, across, down, colours, title) {
    return {
      type: "heatmap",
      z,
      x: across,
      y: down,
      ...colours,
      xgap: z.length <= 16 ? 1 : 0,
      ygap: z.length <= 16 ? 1 : 0,
      hovertemplate: "%{y} attends to %{x}: %{z:.3f}<extra></extra>",
      texttemplate: z.length <= 8 && z[0].length <= 8 ? "%{z:.2f}" : "",
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
        return { xref: "paper", x: side === "left" ? 0 : 1, xanchor: side, y: coordinate(loss), yanchor: anchor, text: escapeMarkup(name), showarrow: false, font: { size: 11, color: soft } };
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
      yaxis: { title: { text: `test loss, mean squared error${content.unit}` }, ...axis.axis },
      xaxis: variantAxis(variants)
    });
    showNote(axis.note);
  }
  function describeChosen(point, path) {
    const words = `Test loss ${formatNumber(point.loss)} free running, ${formatNumber(point.forced)} teacher-forced; best epoch ${point.best_epoch}; it ${point.beats ? "beats" : "does not beat"} the best parameter-free baseline. `;
    const link = textElement("a", point.page ? "Open the page of the run" : "Open the folder of the run");
    link.href = point.link.split("/").map(encodeURIComponent).join("/") + (point.page ? "/report.html" : "/");
    const command = textElement("code", `seqattn report ${path}/${point.path}`);
    byId("chosen-words").replaceChildren(words, link, ...point.page ? [] : [", or write the page: ", command]);
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
  function decodeBase64(text) {
    const { fromBase64 } = Uint8Array;
    if (fromBase64) return fromBase64.call(Uint8Array, text);
    const letters = atob(text);
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
  async function unpack(packed) {
    const raw = await decompress(decodeBase64(packed.data), "deflate");
    const kinds = { 8: Uint8Array, 16: Uint16Array, 32: Float32Array };
    const values = new kinds[packed.bits](raw);
    const strides = packed.shape.map((_, k) => packed.shape.slice(k + 1).reduce((a, b) => a * b, 1));
    const most = packed.bits === 16 ? 65534 : 254;
    const { low = NaN, high = NaN, decimals = NaN } = packed;
    const decode = packed.bits === 32 ? (code) => code : (code) => code > most ? NaN : low + code / most * (high - low);
    return {
      shape: packed.shape,
      decimals,
      low,
      high,
      at: (...indices) => decode(values[indices.reduce((sum, index, k) => sum + index * strides[k], 0)])
    };
  }
  function matrix(array, rows, columns, ...indices) {
    return Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_2, c) => {
      const value = array.at(...indices, r, c);
      return Number.isNaN(value) ? null : value;
    }));
  }

  // src/curves.ts
  var NOISE_FLOOR = "noise floor";
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
      const text = escapeMarkup(`${name} ${loss === 0 ? "0" : formatNumber(loss)}`);
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: colour, width: 1, dash: "dashdot" } });
      annotations.push({ xref: "paper", x: 1, xanchor: "right", y: axis.coordinate(loss), yanchor: side, text, showarrow: false, font: { size: 11, color: colour } });
    }
    if (curves.best_epoch) {
      shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: curves.best_epoch, x1: curves.best_epoch, line: { color: soft, width: 1, dash: "dot" } });
      annotations.push({ yref: "paper", y: 1, yanchor: "bottom", x: curves.best_epoch, text: `best epoch ${curves.best_epoch}`, showarrow: false, font: { size: 11 } });
    }
    return { shapes, annotations };
  }
  function showCurves(curves, unit) {
    const losses = [...curves.training, ...curves.validation, ...curves.teacher_forced];
    const drawLosses = () => {
      const axis = lossAxis(selectById("scale").value === "log", losses, referencesOf(curves));
      draw("loss", lossTraces(curves), {
        hovermode: "x unified",
        ...referenceLines2(curves, axis),
        legend: { orientation: "h", y: -0.18 },
        xaxis: { title: { text: "epoch" }, ...integerTicks(curves.epoch.length) },
        yaxis: { title: { text: `mean squared error${unit}` }, ...axis.axis }
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
    draw("by-step", [{ type: losses.length > MAX_BARS ? "scatter" : "bar", x: losses.map((_, k) => k + 1), y: losses, marker: { color: accent }, hovertemplate: "step %{x}: %{y:.4g}<extra></extra>" }], {
      title: { text: `Mean squared error${unit} by target step`, font: { size: 14 } },
      xaxis: { title: { text: "target step" }, ...integerTicks(losses.length) },
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
  function listWorst(content, choose) {
    const names = sequenceNames(content.examples.ids, content.examples.labels);
    for (const example of content.worst) {
      const item = document.createElement("li");
      const button = textElement("button", `${names[example]}, error ${formatNumber(content.examples.losses[example])}`);
      button.type = "button";
      button.dataset.example = String(example);
      button.addEventListener("click", () => {
        choose(example);
        byId("explorer").scrollIntoView({ behavior: "smooth" });
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
    listWorst(content, (example) => {
      choices.chooseExample(example);
    });
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
    const down = view.kind === "encoder_self" ? pointNames(rows) : pointNames(rows, S + 1);
    const title = view.meaning === "strength" ? "read strength" : "attention weight";
    const known = view.trueSteps.length ? "attended point; outlined in orange: the true one" : "attended point";
    draw("map", [heatmap(view.rows, across, down, colourScale(view.meaning, view.map, view.largest), title)], {
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
    constructor(examples, source, target, forecast, maps, meaning, alignment) {
      this.examples = examples;
      this.source = source;
      this.target = target;
      this.forecast = forecast;
      this.maps = maps;
      this.meaning = meaning;
      this.alignment = alignment;
      this.kind = this.kinds[0];
    }
    examples;
    source;
    target;
    forecast;
    maps;
    meaning;
    alignment;
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
      return new _View(examples, source, target, forecast, unpacked, meaning, alignment);
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
    points(array, count, feature) {
      return Array.from({ length: count }, (_, k) => array.at(this.example, k, feature));
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
    const isChosen = (k) => k === view.step && view.kind !== "encoder_self";
    return { symbol: "diamond-open", size: Array.from({ length: walked }, (_, k) => isChosen(k) ? 17 : 6), color: warn, line: { color: warn, width: 2.5 } };
  }
  function featureRows({ examples }) {
    return examples.plane ? [""] : [.../* @__PURE__ */ new Set([...examples.target_features, ...examples.features])];
  }
  function valueNames(view, rows) {
    const { plane, target_features: targets } = view.examples;
    const spreads = new Map((plane ? targets : rows).map((name) => [name, view.spread(name)]));
    const value = (name, number) => `${formatValue(number, spreads.get(name))}${escapeMarkup(view.unitOf(name))}`;
    return (feature, x, y) => plane ? targets.map((name, f) => value(name, f ? y : x)).join(", ") : `${escapeMarkup(feature)} ${value(feature, y)}`;
  }
  function rowTraces(view, feature, axis, nameValue) {
    const { soft, warn, accent } = theme();
    const { examples: { plane, features, target_features: targets }, lengths: [S, T] } = view;
    const walked = view.kind === "encoder_self" ? T : view.step + 1;
    const across = (array, first, count) => plane ? view.points(array, count, 0) : Array.from({ length: count }, (_, k) => first + k + 1);
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
        across(view.source, 0, S),
        view.points(view.source, S, given),
        { line: { color: soft, width: 1.5 }, marker: view.kind === "decoder_self" ? { size: 7, color: soft } : litMarkers(view, S), meta: "source" }
      ));
    }
    if (targetIndex >= 0) {
      traces.push(trace(
        "truth",
        pointNames(T, S + 1),
        across(view.target, S, T),
        view.points(view.target, T, targetIndex),
        { line: { color: accent, dash: "dot", width: 1.5 }, marker: { symbol: "x-thin-open", size: 9, color: accent }, meta: "target" }
      ));
      traces.push(trace(
        "forecast",
        pointNames(walked, S + 1),
        across(view.forecast, S, walked),
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
    const overSteps = more ? `step (${more} more features are not drawn)` : "step";
    const below = examples.plane ? view.nameOf(examples.features[0]) : overSteps;
    draw("path", traces, {
      ...rowAxes(view, rows),
      xaxis: { title: { text: escapeMarkup(below) }, anchor: rows.length > 1 ? `y${rows.length}` : "y" },
      legend: { orientation: "h", y: 1.12 },
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
    const digits = view.map.decimals > 2 ? 3 : 2;
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
    let text = `${step}.`;
    if (view.map) {
      const attended = describeAttended(view);
      text = `${step} attends to ${view.kind === "decoder_self" && attended ? "the steps of " : ""}${attended || "nothing"}.`;
    }
    if (view.kind !== "encoder_self") text += ` Forecast: ${describeForecast(view)}.`;
    return `${text} The mean squared error of the sequence${unit} is ${formatNumber(view.examples.losses[view.example])}.`;
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
      const { examples, kinds, meaning } = view;
      fill(selectById("example"), sequenceNames(examples.ids, examples.labels));
      fill(selectById("kind"), kinds.length ? kinds.map((kind) => KIND_NAMES[kind]) : ["no attention"]);
      const colours = selectById("colours");
      colours.value = Math.max(...examples.source_lengths) > MAX_UNIT_SCALE_COLUMNS ? "largest" : "1";
      view.endAtLargest = colours.value === "largest";
      colours.disabled = meaning === "strength" || !kinds.length;
      colours.parentElement.hidden = colours.disabled;
      const onChange = (id, change) => {
        byId(id).addEventListener("change", () => {
          change();
          this.show();
        });
      };
      onChange("colours", () => {
        view.endAtLargest = colours.value === "largest";
      });
      onChange("kind", () => {
        view.kind = kinds[numberOf("kind")];
      });
      onChange("layer", () => {
        view.layer = numberOf("layer");
      });
      onChange("head", () => {
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
  function drawFrame(history, weights, largest) {
    const [k, layer, head, frame] = ["history-example", "history-layer", "history-head", "history-frame"].map(numberOf);
    const [S, T] = [history.source_lengths[k], history.target_lengths[k]];
    const z = matrix(weights, T, S, frame, k, layer, head);
    const known = history.alignment ? history.alignment[k].slice(0, T) : [];
    const epoch = history.epochs[frame];
    const name = epoch ? `After epoch ${epoch}` : "Before training";
    byId("history-name").textContent = name;
    byId("history-frame").setAttribute("aria-valuetext", name);
    const title = history.meaning === "strength" ? "read strength" : "attention weight";
    draw("history-map", [heatmap(z, pointNames(S), pointNames(T, S + 1), colourScale(history.meaning, weights, largest), title)], {
      xaxis: { title: { text: "attended point" } },
      yaxis: { autorange: "reversed", title: { text: "query step" } },
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
  async function showHistory(history) {
    const weights = await unpack(history.weights);
    const [frames, , layers, heads] = weights.shape;
    fill(selectById("history-example"), sequenceNames(history.ids, history.labels));
    fill(selectById("history-layer"), indexNames(layers));
    fill(selectById("history-head"), indexNames(heads));
    inputById("history-frame").max = String(frames - 1);
    const isLong = Math.max(...history.source_lengths) > MAX_UNIT_SCALE_COLUMNS;
    let most = 1;
    const show = () => {
      drawFrame(history, weights, most);
    };
    const choose = () => {
      const [k, layer, head] = ["history-example", "history-layer", "history-head"].map(numberOf);
      if (isLong) most = largestWeight(weights, history.target_lengths[k], history.source_lengths[k], [k, layer, head]);
      show();
    };
    for (const id of ["history-example", "history-layer", "history-head"]) byId(id).addEventListener("change", choose);
    byId("history-frame").addEventListener("input", show);
    addPlayButton(frames, show);
    onThemeChange(show);
    choose();
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
  var reasonOf = (error) => error instanceof Error ? error.message : String(error);
  async function decodeGzip(text) {
    return new Uint8Array(await decompress(decodeBase64(text.trim()), "gzip"));
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
  function loaded() {
    runtime ??= load().catch((error) => {
      throw new RuntimeError(`The model cannot run in this browser: ONNX Runtime did not load (${reasonOf(error)}).`);
    });
    return runtime;
  }
  async function createSession(graphBytes) {
    const ort = await loaded();
    let session;
    try {
      session = await ort.InferenceSession.create(graphBytes, { executionProviders: ["wasm"], logSeverityLevel: FATAL });
    } catch (error) {
      throw new RuntimeError(`The model in this page is damaged: ONNX Runtime cannot read its graph (${reasonOf(error)}).`);
    }
    let last = Promise.resolve();
    const runOnce = async (inputs, outputs) => {
      const feeds = {};
      for (const [name, { type, data, dims }] of Object.entries(inputs)) feeds[name] = new ort.Tensor(type, data, dims);
      const found = await session.run(feeds, outputs);
      return Object.fromEntries(Object.entries(found).map(([name, { type, data, dims }]) => [name, { type, data, dims }]));
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

  // src/main.ts
  function listParts() {
    for (const section of document.querySelectorAll("section[data-part]")) {
      const link = textElement("a", section.dataset.part);
      link.href = `#${section.id}`;
      byId("parts").append(link);
    }
  }
  async function main() {
    const content = readContent();
    listParts();
    if (content.kind === "comparison") showComparison(content);
    else {
      showCurves(content.curves, content.unit);
      if (hasResults(content)) await showExplorer(content);
      if (content.attention_history) await showHistory(content.attention_history);
    }
    if (hasRuntime()) Object.assign(window, { seqattn: { createSession } });
    followTheme();
    document.documentElement.dataset.ready = "yes";
  }
  void main();
})();

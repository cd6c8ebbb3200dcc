"use strict";
// Script of the page. The data are in the element #data; arrays are deflated and in base64.
// Text from files is inserted with textContent only, or with escapeMarkup() for plotly.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
// Escapes markup and the templates of plotly, which begin with %{.
const escapeMarkup = (words) => String(words).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%&#123;");
const formatNumber = (x, digits = 3) => (Number.isFinite(x) ? Number(x).toPrecision(digits).replace("-", "\u2212") : "none");
const place = (x) => Math.floor(Math.log10(Math.abs(x)));
// Three digits, or as many as a hundredth of the spread needs: 1013.27, not 1.01e+3.
function formatValue(x, spread) {
  if (!Number.isFinite(x)) return "none";
  const decimals = Math.max(0, x === 0 ? 0 : 2 - place(x), spread > 0 ? 2 - place(spread) : 0);
  return decimals > 8 || Math.abs(x) >= 1e15 ? formatNumber(x) : x.toFixed(decimals).replace("-", "\u2212");
}
const config = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
const redraws = [];

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ground: of("--ground"), ink: of("--ink"), soft: of("--soft"), line: of("--line"), accent: of("--accent"), warn: of("--warn") };
}

function layout(more) {
  const { ground, ink, line } = theme();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  const axes = Object.entries({ xaxis: {}, yaxis: {}, ...more }).filter(([key]) => /^[xy]axis/.test(key));
  return {
    paper_bgcolor: ground, plot_bgcolor: ground, font: { color: ink, size: 13 },
    margin: { l: 50, r: 15, t: 30, b: 45 }, hoverlabel: { namelength: -1 }, ...more,
    ...Object.fromEntries(axes.map(([key, own]) => [key, { ...axis, ...own }])),
  };
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = await new Response(stream).arrayBuffer();
  const kinds = { 8: Uint8Array, 16: Uint16Array, 32: Float32Array };
  const values = new kinds[packed.bits](raw);
  const strides = packed.shape.map((_, k) => packed.shape.slice(k + 1).reduce((a, b) => a * b, 1));
  const most = packed.bits === 16 ? 65534 : 254;
  const decode = packed.bits === 32
    ? (code) => code
    : (code) => (code > most ? NaN : packed.low + (code / most) * (packed.high - packed.low));
  return {
    shape: packed.shape, decimals: packed.decimals, low: packed.low, high: packed.high,
    at: (...places) => decode(values[places.reduce((sum, place, k) => sum + place * strides[k], 0)]),
  };
}

function matrix(array, rows, columns, ...places) {
  return Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_, c) => {
    const value = array.at(...places, r, c);
    return Number.isNaN(value) ? null : value;
  }));
}

function fill(select, words, chosen = 0) {
  select.replaceChildren(...words.map((word, k) => new Option(word, k, false, k === chosen)));
  select.disabled = words.length < 2;
}

// Replaces a plot by text.
function write(id, words) {
  Plotly.purge(id);
  $(id).textContent = words;
}

function clear(id) {
  if (!$(id).data) $(id).textContent = "";
}

const indexNames = (count) => Array.from({ length: count }, (_, k) => String(k));

// Ticks of a log axis: 1, 2 and 5 of each power of ten, or equal steps in a small range.
function logTicks(log, values) {
  if (!log) return { tickformat: "~g" };
  const real = values.filter((x) => x > 0);
  const [low, high] = [Math.min(...real), Math.max(...real)];
  if (real.length < 2 || low === high || high > 5 * low) return { dtick: "D2", tickformat: "~g" };
  const rough = (high - low) / 3;
  const power = 10 ** place(rough);
  const step = power * [5, 2, 1].find((digit) => digit * power <= rough * 1.0001);
  return { dtick: `L${step}`, tickformat: "~g" };
}

// Ticks of epochs and steps are integers.
const integerTicks = (count) => ({ tickformat: "d", ...(count <= 12 ? { dtick: 1 } : {}) });

// From blue through white, which is 0, to red.
const DIVERGING = ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b"].map((colour, k) => [k / 4, colour]);

function colourScale(meaning, array, largest) {
  if (meaning === "strength") {
    const widest = Math.max(Math.abs(array.low), Math.abs(array.high)) || 1;
    return { colorscale: DIVERGING, zmin: -widest, zmax: widest };
  }
  return { colorscale: "Viridis", zmin: 0, zmax: largest || 1 };
}

// With more columns weights are small, so the colour scale ends at the largest weight.
const MAX_UNIT_SCALE_COLUMNS = 16;

function heatmap(z, across, down, colours, title) {
  return {
    type: "heatmap", z, x: across, y: down, ...colours, xgap: z.length <= 16 ? 1 : 0, ygap: z.length <= 16 ? 1 : 0,
    hovertemplate: "%{y} attends to %{x}: %{z:.3f}<extra></extra>",
    texttemplate: z.length <= 8 && z[0].length <= 8 ? "%{z:.2f}" : "",
    colorbar: { title: { text: title, side: "right" }, thickness: 12 },
  };
}

// Thin outlines get a dark border to be visible on bright cells.
function outlines(places, colour) {
  const lines = places.length > 24 ? [{ color: "#000000", width: 4 }, { color: colour, width: 1.5 }] : [{ color: colour, width: 2.5 }];
  return places.flatMap((column, row) => (column < 0 ? [] : lines.map((line) => (
    { type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5, line }
  ))));
}

// --- the attention explorer ----------------------------------------------------------------------

const KINDS = { cross: "decoder to source (cross-attention)", encoder_self: "encoder self-attention", decoder_self: "decoder self-attention" };

const DECODER_STEPS = "attended decoder steps, named by the point they<br>forecast; the input of each is the point before";
const MAX_ROWS = 4;
// Omits the middle, since long names often begin alike.
function shorten(name, most = 18) {
  return name.length > most ? `${name.slice(0, Math.ceil(most / 2) - 1)}\u2026${name.slice(-Math.floor(most / 2))}` : name;
}

async function explorer() {
  const { examples, meaning } = data;
  const source = await unpack(examples.source);
  const target = await unpack(examples.target);
  const forecast = await unpack(examples.forecast);
  const maps = {};
  for (const [kind, packed] of Object.entries(data.maps)) maps[kind] = await unpack(packed);
  const kinds = Object.keys(maps);
  const name = (k) => examples.ids[k] + (examples.labels[k] ? `: ${examples.labels[k]}` : "");
  fill($("example"), examples.ids.map((_, k) => name(k)));
  fill($("kind"), kinds.length ? kinds.map((kind) => KINDS[kind]) : ["no attention"]);
  const now = { example: 0, kind: kinds[0], layer: 0, head: 0, step: 0 };

  const lengths = () => [examples.source_lengths[now.example], examples.target_lengths[now.example]];
  const rowsAndColumns = () => {
    const [S, T] = lengths();
    return { cross: [T, S], encoder_self: [S, S], decoder_self: [T, T] }[now.kind] || [T, S];
  };
  const sourceNames = (count) => Array.from({ length: count }, (_, k) => `point ${k + 1}`);
  const targetNames = (count, S) => Array.from({ length: count }, (_, k) => `point ${S + k + 1}`);
  const weightsNow = () => {
    const [, columns] = rowsAndColumns();
    if (!now.kind) return [];
    return Array.from({ length: columns }, (_, c) => maps[now.kind].at(now.example, now.layer, now.head, now.step, c));
  };
  const points = (array, count, feature) =>
    Array.from({ length: count }, (_, k) => array.at(now.example, k, feature));

  const inUnits = (name) => (Object.hasOwn(examples.units, name) ? ` ${examples.units[name]}` : "");
  const named = (name) => (Object.hasOwn(examples.units, name) ? examples.named[name] : name);

  // The range of a feature in the target and forecast of the sequence, or else in the source.
  function spread(feature) {
    const [S, T] = lengths();
    const targetIndex = examples.target_features.indexOf(feature);
    const values = targetIndex < 0
      ? points(source, S, examples.features.indexOf(feature))
      : [...points(target, T, targetIndex).filter(Number.isFinite), ...points(forecast, T, targetIndex)];
    return Math.max(...values) - Math.min(...values);
  }

  // The end of the colour scale: 1, or the largest weight of the heatmap.
  function largest() {
    if ($("colours").value === "1") return 1;
    const [rows, columns] = rowsAndColumns();
    const all = matrix(maps[now.kind], rows, columns, now.example, now.layer, now.head).flat();
    return Math.max(1e-6, ...all.filter((w) => w !== null));
  }

  function drawPath() {
    const { ink, soft, warn, accent } = theme();
    const [S, T] = lengths();
    const weights = weightsNow();
    const colours = now.kind ? colourScale(meaning, maps[now.kind], largest()) : {};
    const isDecoderSelf = now.kind === "decoder_self";
    const walked = now.kind === "encoder_self" ? T : now.step + 1;
    const widest = now.kind ? Math.max(Math.abs(colours.zmin), colours.zmax) : 1;
    const strongest = Math.max(widest, ...weights.map((w) => Math.abs(w)).filter(Number.isFinite));
    const base = S > 16 ? 4 : 8;
    const lit = (count) => (weights.length ? {
      size: Array.from({ length: count }, (_, k) => base + 20 * (Number.isFinite(weights[k]) ? Math.abs(weights[k]) / strongest : 0) ** 0.5),
      color: Array.from({ length: count }, (_, k) => (Number.isFinite(weights[k]) ? weights[k] : 0)),
      colorscale: colours.colorscale, cmin: colours.zmin, cmax: colours.zmax,
      line: { color: ink, width: 1 },
    } : { size: 9, color: soft });
    const traces = [];
    const { plane } = examples;
    // Over the steps each feature has its own row and scale; target features come first.
    const every = plane ? [""] : [...new Set([...examples.target_features, ...examples.features])];
    const rows = every.slice(0, MAX_ROWS);
    const axes = {};
    const spreads = new Map((plane ? examples.target_features : rows).map((name) => [name, spread(name)]));
    const at = (feature, x, y) => (plane
      ? examples.target_features.map((name, f) => `${formatValue(f ? y : x, spreads.get(name))}${escapeMarkup(inUnits(name))}`).join(", ")
      : `${escapeMarkup(feature)} ${formatValue(y, spreads.get(feature))}${escapeMarkup(inUnits(feature))}`);
    rows.forEach((feature, row) => {
      const axis = row ? `y${row + 1}` : "y";
      const add = (kind, names, xs, ys, extra) => traces.push({
        x: xs, y: ys, text: names.map((name, k) => `${name}<br>${at(feature, xs[k], ys[k])}`), yaxis: axis, mode: "lines+markers", name: kind, legendgroup: kind,
        showlegend: !traces.some((trace) => trace.name === kind),
        hovertemplate: "%{text}<extra></extra>",
        ...extra,
      });
      const given = plane ? 1 : examples.features.indexOf(feature);
      const targetIndex = plane ? 1 : examples.target_features.indexOf(feature);
      const across = (array, first, count) => (plane ? points(array, count, 0) : Array.from({ length: count }, (_, k) => first + k + 1));
      if (given >= 0) {
        add("source", sourceNames(S), across(source, 0, S), points(source, S, given),
          { line: { color: soft, width: 1.5 }, marker: isDecoderSelf ? { size: 7, color: soft } : lit(S), meta: "source" });
      }
      if (targetIndex >= 0) {
        add("truth", targetNames(T, S), across(target, S, T), points(target, T, targetIndex),
          { line: { color: accent, dash: "dot", width: 1.5 }, marker: { symbol: "x-thin-open", size: 9, color: accent }, meta: "target" });
        add("forecast", targetNames(walked, S), across(forecast, S, walked), points(forecast, walked, targetIndex),
          { line: { color: warn, width: 1.5 }, marker: isDecoderSelf ? lit(walked) : { symbol: "diamond-open", size: Array.from({ length: walked }, (_, k) => (k === now.step && now.kind !== "encoder_self" ? 17 : 6)), color: warn, line: { color: warn, width: 2.5 } }, meta: "target" });
      }
      const gap = 0.07;
      const high = (1 - gap * (rows.length - 1)) / rows.length;
      const top = 1 - row * (high + gap);
      axes[row ? `yaxis${row + 1}` : "yaxis"] = plane
        ? { title: { text: escapeMarkup(named(examples.features[1])) }, scaleanchor: "x" }
        : { title: { text: escapeMarkup(shorten(named(feature), named(feature) === feature ? 18 : 28)), font: { size: 12 } }, domain: [Math.max(0, top - high), top], nticks: rows.length > 2 ? 5 : 0 };
    });
    const more = every.length - rows.length;
    const below = plane ? named(examples.features[0]) : more ? `step (${more} more features are not drawn)` : "step";
    Plotly.react("path", traces, layout({
      ...axes, xaxis: { title: { text: escapeMarkup(below) }, anchor: rows.length > 1 ? `y${rows.length}` : "y" },
      legend: { orientation: "h", y: 1.12 }, hovermode: "closest", uirevision: `${now.example}`,
    }), config);
  }

  function marks() {
    const { warn } = theme();
    const [, columns] = rowsAndColumns();
    const known = now.kind === "cross" && data.alignment ? data.alignment[now.example].slice(0, rowsAndColumns()[0]) : [];
    return [...outlines(known, "#e69f00"), {
      type: "rect", x0: -0.5, x1: columns - 0.5, y0: now.step - 0.5, y1: now.step + 0.5, line: { color: warn, width: 3 },
    }];
  }

  function drawMap() {
    if (!now.kind) {
      $("map").textContent = "This model has no attention.";
      return;
    }
    const [S] = lengths();
    const [rows, columns] = rowsAndColumns();
    const z = matrix(maps[now.kind], rows, columns, now.example, now.layer, now.head);
    const across = now.kind === "decoder_self" ? targetNames(columns, S) : sourceNames(columns);
    const down = now.kind === "encoder_self" ? sourceNames(rows) : targetNames(rows, S);
    const title = meaning === "strength" ? "read strength" : "attention weight";
    const known = now.kind === "cross" && data.alignment ? "attended point; outlined in orange: the true one" : "attended point";
    const below = now.kind === "decoder_self" ? DECODER_STEPS : known;
    Plotly.react("map", [heatmap(z, across, down, colourScale(meaning, maps[now.kind], largest()), title)], layout({
      xaxis: { title: { text: below }, constrain: "domain" }, yaxis: { autorange: "reversed", title: { text: "query step" } }, shapes: marks(),
    }), config);
  }

  function words() {
    const [S] = lengths();
    const weights = weightsNow();
    const rowName = now.kind === "encoder_self" ? `point ${now.step + 1}` : `point ${S + now.step + 1}`;
    const first = now.kind === "decoder_self" ? S : 0;
    const order = weights.map((w, k) => [w, k]).filter(([w]) => Number.isFinite(w)).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 5);
    const attended = order.map(([w, k]) => `point ${first + k + 1} with ${w.toFixed(maps[now.kind].decimals > 2 ? 3 : 2).replace("-", "\u2212")}`).join(", ");
    const steps = now.kind === "decoder_self" && attended ? "the steps of " : "";
    let text = `Step ${now.step + 1} (${rowName}) attends to ${steps}${attended || "nothing"}.`;
    if (!now.kind) text = `Step ${now.step + 1} (${rowName}).`;
    if (now.kind !== "encoder_self") {
      const each = examples.target_features.slice(0, MAX_ROWS).map((feature, f) => {
        const [value, truth] = [forecast, target].map((array) => array.at(now.example, now.step, f));
        const truthText = Number.isFinite(truth) ? `truth ${formatValue(truth, spread(feature))}` : "not observed";
        return `${feature} ${formatValue(value, spread(feature))}${inUnits(feature)} (${truthText})`;
      });
      const more = examples.target_features.length - each.length;
      text += ` Forecast: ${each.join(", ")}${more ? `, and ${more} more` : ""}.`;
    }
    text += ` The mean squared error of the sequence${data.unit_of_one} is ${formatNumber(examples.losses[now.example])}.`;
    $("step-text").textContent = text;
    $("step-name").textContent = `Step ${now.step + 1} of ${rowsAndColumns()[0]}, ${rowName}`;
    $("step").setAttribute("aria-valuetext", $("step-name").textContent);
  }

  function setStep(step) {
    const [rows] = rowsAndColumns();
    now.step = Math.max(0, Math.min(rows - 1, step));
    $("step").max = rows - 1;
    $("step").value = now.step;
    drawPath();
    if (now.kind) Plotly.relayout("map", { shapes: marks() });
    words();
  }

  function all() {
    if (now.kind) {
      const [, layers, heads] = maps[now.kind].shape;
      now.layer = Math.min(now.layer, layers - 1);
      now.head = Math.min(now.head, heads - 1);
      fill($("layer"), indexNames(layers), now.layer);
      fill($("head"), indexNames(heads), now.head);
    } else {
      fill($("layer"), ["none"]);
      fill($("head"), ["none"]);
    }
    $("example").value = now.example;
    for (const button of document.querySelectorAll("#worst button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.example) === now.example));
    }
    now.step = Math.min(now.step, rowsAndColumns()[0] - 1);
    drawMap();
    setStep(now.step);
  }

  const choose = (example) => {
    now.example = (example + examples.ids.length) % examples.ids.length;
    now.step = 0;
    all();
  };
  $("example").addEventListener("change", (event) => choose(Number(event.target.value)));
  $("before").addEventListener("click", () => choose(now.example - 1));
  $("after").addEventListener("click", () => choose(now.example + 1));
  $("kind").addEventListener("change", (event) => { now.kind = kinds[Number(event.target.value)]; all(); });
  $("layer").addEventListener("change", (event) => { now.layer = Number(event.target.value); all(); });
  $("head").addEventListener("change", (event) => { now.head = Number(event.target.value); all(); });
  $("colours").value = Math.max(...examples.source_lengths) > MAX_UNIT_SCALE_COLUMNS ? "largest" : "1";
  $("colours").disabled = meaning === "strength" || !kinds.length;
  $("colours").parentElement.hidden = $("colours").disabled;
  $("colours").addEventListener("change", all);
  $("step").addEventListener("input", (event) => setStep(Number(event.target.value)));
  errors(choose, (step) => (now.kind === "encoder_self" ? undefined : setStep(step)));
  all();
  if (now.kind) $("map").on("plotly_hover", (event) => { const row = event.points[0].pointIndex[0]; if (row !== now.step) setStep(row); });
  $("path").on("plotly_hover", (event) => {
    const point = event.points[0];
    const side = now.kind === "encoder_self" ? "source" : "target";
    if (point.data.meta === side && point.pointNumber !== now.step) setStep(point.pointNumber);
  });
  redraws.push(all);
}

// --- errors --------------------------------------------------------------------------------------

function errors(choose, setStep) {
  const draw = () => {
    const { accent } = theme();
    Plotly.react("by-step", [{ type: data.by_step.length > 40 ? "scatter" : "bar", x: data.by_step.map((_, k) => k + 1), y: data.by_step, marker: { color: accent }, hovertemplate: "step %{x}: %{y:.4g}<extra></extra>" }],
      layout({ title: { text: `Mean squared error${data.unit} by target step`, font: { size: 14 } }, xaxis: { title: { text: "target step" }, ...integerTicks(data.by_step.length) }, yaxis: { rangemode: "tozero" } }), config);
  };
  draw();
  $("by-step").on("plotly_click", (event) => setStep(event.points[0].x - 1));
  redraws.push(draw);
  for (const { name, rows } of data.classes) {
    const table = document.createElement("table");
    table.createCaption().textContent = `Mean squared error${data.unit_of_one} by ${name}`;
    const most = Math.max(...rows.map((row) => row[2]));
    for (const [group, count, loss] of rows) {
      const row = table.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = group;
      row.append(head);
      row.insertCell().textContent = `${count} sequences`;
      row.insertCell().textContent = formatNumber(loss);
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${most > 0 ? (8 * loss) / most : 0}rem`;
      row.insertCell().append(bar);
    }
    $("by-class").append(table);
  }
  for (const example of data.worst) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.example = example;
    const label = data.examples.labels[example];
    button.textContent = `${data.examples.ids[example]}${label ? `: ${label}` : ""}, error ${formatNumber(data.examples.losses[example])}`;
    button.addEventListener("click", () => {
      choose(example);
      $("explorer").scrollIntoView({ behavior: "smooth" });
    });
    item.append(button);
    $("worst").append(item);
  }
}

// --- loss curves ---------------------------------------------------------------------------------

function curves() {
  const found = data.curves;
  const draw = () => {
    const { ink, soft, accent, warn } = theme();
    const line = (name, values, colour, dash) => ({ type: "scatter", mode: found.epoch.length > 1 ? "lines" : "markers", name, x: found.epoch, y: values, line: { color: colour, dash, width: 2 }, hovertemplate: "%{y:.4g}" });
    const traces = [
      line("training", found.training, soft, "dot"),
      line("validation, free running", found.validation, accent, "solid"),
      line("validation, teacher-forced", found.teacher_forced, warn, "dash"),
    ];
    const shapes = [];
    const annotations = [];
    const log = $("scale").value === "log";
    const level = (value, words, colour, side = "bottom") => {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color: colour, width: 1, dash: "dashdot" } });
      annotations.push({ xref: "paper", x: 1, xanchor: "right", y: log ? Math.log10(value) : value, yanchor: side, text: words, showarrow: false, font: { size: 11, color: colour } });
    };
    if (found.floor) level(found.floor, `noise floor ${formatNumber(found.floor)}`, ink, "top");
    if (found.baseline && found.baseline[1] > 0) level(found.baseline[1], escapeMarkup(`${found.baseline[0]} ${formatNumber(found.baseline[1])}`), soft);
    if (found.best_epoch) shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: found.best_epoch, x1: found.best_epoch, line: { color: soft, width: 1, dash: "dot" } });
    if (found.best_epoch) annotations.push({ yref: "paper", y: 1, yanchor: "bottom", x: found.best_epoch, text: `best epoch ${found.best_epoch}`, showarrow: false, font: { size: 11 } });
    Plotly.react("loss", traces, layout({
      hovermode: "x unified", shapes, annotations, legend: { orientation: "h", y: -0.18 },
      xaxis: { title: { text: "epoch" }, ...integerTicks(found.epoch.length) }, yaxis: { type: log ? "log" : "linear", title: { text: `mean squared error${data.unit}` }, ...logTicks(log, [...found.training, ...found.validation, ...found.teacher_forced, found.floor, found.baseline?.[1]]) },
    }), config);
  };
  $("scale").addEventListener("change", draw);
  redraws.push(draw);
  draw();
}

// --- attention history ---------------------------------------------------------------------------

async function attentionHistory() {
  const found = data.attention_history;
  const weights = await unpack(found.weights);
  const [frames, , layers, heads] = weights.shape;
  fill($("history-example"), found.ids.map((id, k) => id + (found.labels[k] ? `: ${found.labels[k]}` : "")));
  fill($("history-layer"), indexNames(layers));
  fill($("history-head"), indexNames(heads));
  $("history-frame").max = frames - 1;
  const long = Math.max(...found.source_lengths) > MAX_UNIT_SCALE_COLUMNS;
  // The largest weight of all frames, which share a colour scale.
  function largest(k, layer, head) {
    const [S, T] = [found.source_lengths[k], found.target_lengths[k]];
    let most = 1e-6;
    for (let frame = 0; frame < frames; frame += 1) {
      for (const w of matrix(weights, T, S, frame, k, layer, head).flat()) most = Math.max(most, w);
    }
    return most;
  }
  let most = 1;
  const draw = () => {
    const [k, layer, head, frame] = ["history-example", "history-layer", "history-head", "history-frame"].map((id) => Number($(id).value));
    const [S, T] = [found.source_lengths[k], found.target_lengths[k]];
    const z = matrix(weights, T, S, frame, k, layer, head);
    const across = Array.from({ length: S }, (_, s) => `point ${s + 1}`);
    const down = Array.from({ length: T }, (_, t) => `point ${S + t + 1}`);
    const known = found.alignment ? found.alignment[k].slice(0, T) : [];
    const epoch = found.epochs[frame];
    $("history-name").textContent = epoch ? `After epoch ${epoch}` : "Before training";
    $("history-frame").setAttribute("aria-valuetext", $("history-name").textContent);
    Plotly.react("history-map", [heatmap(z, across, down, colourScale(found.meaning, weights, most), found.meaning === "strength" ? "read strength" : "attention weight")],
      layout({ xaxis: { title: { text: "attended point" } }, yaxis: { autorange: "reversed", title: { text: "query step" } }, shapes: outlines(known, "#e69f00") }), config);
  };
  const choose = () => {
    if (long) most = largest(...["history-example", "history-layer", "history-head"].map((id) => Number($(id).value)));
    draw();
  };
  for (const id of ["history-example", "history-layer", "history-head"]) $(id).addEventListener("change", choose);
  $("history-frame").addEventListener("input", draw);
  let playing = null;
  const pause = () => {
    clearInterval(playing);
    playing = null;
    $("history-play").textContent = "Play";
  };
  $("history-play").addEventListener("click", () => {
    if (playing) return pause();
    if (Number($("history-frame").value) === frames - 1) $("history-frame").value = 0;
    $("history-play").textContent = "Pause";
    playing = setInterval(() => {
      const next = Number($("history-frame").value) + 1;
      if (next >= frames) return pause();
      $("history-frame").value = next;
      return draw();
    }, Math.max(60, Math.min(500, 6000 / frames)));
    return undefined;
  });
  redraws.push(draw);
  choose();
}

// --- many runs -----------------------------------------------------------------------------------

// Positions of the labels of lines that do not overlap: the first free one of each line.
function labelPositions(levels, others) {
  const every = [...levels, ...others];
  const high = 0.07 * (Math.max(...every) - Math.min(...every));
  const sides = $("seeds").clientWidth < 500 ? ["right"] : ["right", "left"];
  const free = sides.flatMap((side) => ["bottom", "top"].map((anchor) => [side, anchor]));
  const taken = [];
  const found = new Map();
  // From the top down: of two close lines the upper has its label above, the lower below.
  for (const level of [...levels].sort((a, b) => b - a)) {
    const middle = (anchor) => level + (anchor === "bottom" ? high / 2 : -high / 2);
    const [side, anchor] = free.find((position) => taken.every(([takenSide, at]) => takenSide !== position[0] || Math.abs(at - middle(position[1])) >= 0.99 * high)) || free[0];
    taken.push([side, middle(anchor)]);
    found.set(level, [...(found.get(level) || []), [side, anchor]]);
  }
  return levels.map((level) => found.get(level).shift());
}

function comparison() {
  const { variants } = data;
  const now = { variant: variants.findIndex((variant) => variant.points.length), seed: 0 };
  const spread = (k, count) => (count < 2 ? 0 : ((((k * 0.618034) % 1) - 0.5) * 0.5));
  fill($("variant"), variants.map((variant) => variant.name), now.variant);

  function draw() {
    const { ink, accent, warn, soft } = theme();
    const log = $("scale").value === "log" && variants.every((variant) => variant.points.every((point) => point.loss > 0));
    const traces = variants.map((variant, a) => ({
      type: "scatter", mode: "markers", name: escapeMarkup(variant.name), x: variant.points.map((_, k) => a + spread(k, variant.points.length)), y: variant.points.map((point) => point.loss),
      marker: { color: variant.points.map((_, k) => (a === now.variant && k === now.seed ? warn : accent)), size: variant.points.map((_, k) => (a === now.variant && k === now.seed ? 15 : 9)), opacity: 0.85, line: { color: ink, width: 0.5 } },
      text: variant.points.map((point) => escapeMarkup(`${variant.name}, seed ${point.seed}`)), hovertemplate: "%{text}: %{y:.4g}<extra></extra>", showlegend: false, meta: a,
    }));
    const shapes = [];
    const annotations = [];
    const highest = Math.max(...variants.flatMap((variant) => variant.points.map((point) => point.loss)));
    variants.forEach((variant, a) => {
      // null stands for infinity: too many seeds diverged.
      if (variant.median !== null) shapes.push({ type: "line", x0: a - 0.35, x1: a + 0.35, y0: variant.median, y1: variant.median, line: { color: ink, width: 2.5 } });
      if (!variant.interval || variant.interval[0] === null) return;
      const top = variant.interval[1] === null ? highest : variant.interval[1];
      shapes.push({ type: "rect", x0: a - 0.35, x1: a + 0.35, y0: variant.interval[0], y1: top, line: { width: 0 }, fillcolor: soft, opacity: 0.3, layer: "below" });
    });
    const along = (loss) => (log ? Math.log10(loss) : loss);
    const places = labelPositions(data.references.map((row) => along(row[1])), variants.flatMap((variant) => variant.points.map((point) => along(point.loss))));
    data.references.forEach(([name, loss], k) => {
      const [side, anchor] = places[k];
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: loss, y1: loss, line: { color: soft, width: 1, dash: "dashdot" } });
      annotations.push({ xref: "paper", x: side === "left" ? 0 : 1, xanchor: side, y: along(loss), yanchor: anchor, text: escapeMarkup(name), showarrow: false, font: { size: 11, color: soft } });
    });
    const room = Math.floor($("seeds").clientWidth / variants.length / 9);
    const names = variants.map((variant) => escapeMarkup(shorten(variant.name, Math.max(18, room))) + (variant.diverged ? `<br>${variant.diverged} diverged` : ""));
    const slanted = names.some((name) => name.length > room) ? { tickangle: -40, ticklabeloverflow: "allow" } : {};
    Plotly.react("seeds", traces, layout({
      shapes, annotations, hovermode: "closest", yaxis: { type: log ? "log" : "linear", title: { text: `test loss, mean squared error${data.unit}` }, ...logTicks(log, [...variants.flatMap((variant) => variant.points.map((point) => point.loss)), ...data.references.map((row) => row[1])]) },
      xaxis: { tickvals: variants.map((_, a) => a), ticktext: names, ...slanted, range: [-0.6, variants.length - 0.4], zeroline: false },
    }), config);
  }

  function show() {
    const variant = variants[now.variant];
    fill($("seed"), variant.points.map((point) => String(point.seed)), now.seed);
    $("variant").value = now.variant;
    const point = variant.points[now.seed];
    draw();
    if (!point) {
      $("chosen-name").textContent = `${variant.name}: no run has finished`;
      for (const id of ["chosen-words", "chosen-curve", "chosen-map"]) write(id, "");
      return;
    }
    $("chosen-name").textContent = `${variant.name}, seed ${point.seed}`;
    const words = `Test loss ${formatNumber(point.loss)} free running, ${formatNumber(point.forced)} teacher-forced; best epoch ${point.best_epoch}; it ${point.beats ? "beats" : "does not beat"} the best parameter-free baseline. `;
    const link = document.createElement("a");
    link.href = point.link.split("/").map(encodeURIComponent).join("/") + (point.page ? "/report.html" : "/");
    link.textContent = point.page ? "Open the page of the run" : "Open the folder of the run";
    const command = document.createElement("code");
    command.textContent = `seqattn report ${data.path}/${point.path}`;
    $("chosen-words").replaceChildren(words, link, point.page ? "" : ", or write the page: ", point.page ? "" : command);
    const { accent } = theme();
    if (point.curve) {
      clear("chosen-curve");
      Plotly.react("chosen-curve", [{ type: "scatter", mode: point.curve.length > 1 ? "lines" : "markers", x: point.curve.map((row) => row[0]), y: point.curve.map((row) => row[1]), line: { color: accent }, hovertemplate: "epoch %{x}: %{y:.4g}<extra></extra>" }],
        layout({ title: { text: "Validation loss, free running", font: { size: 14 } }, yaxis: { type: "log", ...logTicks(true, point.curve.map((row) => row[1])) }, xaxis: { title: { text: "epoch" }, ...integerTicks(point.curve.at(-1)[0]) } }), config);
    } else {
      write("chosen-curve", "This run has no preview of its curve.");
    }
    if (point.weights) {
      clear("chosen-map");
      const z = point.weights;
      const signed = { low: Math.min(...z.flat()), high: Math.max(...z.flat()) };
      Plotly.react("chosen-map", [heatmap(z, z[0].map((_, s) => `point ${s + 1}`), z.map((_, t) => `point ${z[0].length + t + 1}`), colourScale(point.signed ? "strength" : "distribution", signed, z[0].length > MAX_UNIT_SCALE_COLUMNS ? signed.high : 1), "weight")],
        layout({ title: { text: `Attention in the first test sequence${point.part}`, font: { size: 14 } }, yaxis: { autorange: "reversed" } }), config);
    } else {
      write("chosen-map", "This run has no preview of its attention.");
    }
  }

  $("scale").addEventListener("change", draw);
  $("variant").addEventListener("change", (event) => { now.variant = Number(event.target.value); now.seed = 0; show(); });
  $("seed").addEventListener("change", (event) => { now.seed = Number(event.target.value); show(); });
  show();
  $("seeds").on("plotly_click", (event) => {
    const point = event.points[0];
    now.variant = point.data.meta;
    now.seed = point.pointNumber;
    show();
  });
  redraws.push(show);
}

// --- all of it -----------------------------------------------------------------------------------

async function main() {
  for (const section of document.querySelectorAll("section[data-part]")) {
    const link = document.createElement("a");
    link.href = `#${section.id}`;
    link.textContent = section.dataset.part;
    $("parts").append(link);
  }
  if (data.kind === "comparison") comparison();
  else {
    curves();
    if (data.examples) await explorer();
    if (data.attention_history) await attentionHistory();
  }
  const again = () => redraws.forEach((draw) => draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  matchMedia("print").addEventListener("change", again);
  document.documentElement.dataset.ready = "yes";
}

main();

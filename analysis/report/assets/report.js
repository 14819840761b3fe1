/* What a reader may do with a page: choose light or dark, filter the claims, look into a figure's numbers.
   A classic script: modules and fetch fail from disk.  Without it every page is complete. */
"use strict";

const ratebed = (() => {
  const byId = (id) => document.getElementById(id);

  function element(tag, properties = {}, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  // --- light and dark -----------------------------------------------------------------------------

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function toggleTheme() {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("ratebed-theme", theme); } catch (error) { /* a private window keeps nothing */ }
    chart.draw();
  }

  // --- the claims' filter: its state is the part of the address after "#", so that a view can be sent ----

  const filter = {
    fields: ["verdict", "paper", "testbed", "fitted", "text"],

    chosen() {
      const chosen = new URLSearchParams();
      for (const [name, value] of new FormData(byId("filter"))) if (value) chosen.append(name, value);
      return chosen;
    },

    apply() {
      const chosen = filter.chosen();
      const words = (chosen.get("text") || "").toLowerCase().split(/\s+/).filter(Boolean);
      const verdicts = chosen.getAll("verdict");
      let shown = 0;
      const rows = document.querySelectorAll("table.claims tbody tr");
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const isShown = (!verdicts.length || verdicts.includes(row.dataset.verdict)) &&
          ["paper", "testbed", "fitted"].every((name) => !chosen.get(name) || row.dataset[name] === chosen.get(name)) &&
          words.every((word) => text.includes(word));
        row.classList.toggle("is-hidden", !isShown);
        shown += isShown;
      }
      for (const dot of document.querySelectorAll(".dot")) {
        const row = byId(dot.dataset.row);
        dot.classList.toggle("is-hidden", !!row && row.classList.contains("is-hidden"));
      }
      byId("shown").textContent = `${shown} of ${rows.length} claims`;
      return chosen;
    },

    changed() {
      const text = filter.apply().toString();
      history.replaceState(null, "", text ? `#${text}` : location.pathname);
    },

    fromAddress() {
      const hash = location.hash.slice(1);
      if (hash && !hash.includes("=")) return filter.apply();
      const asked = new URLSearchParams(hash);
      for (const field of byId("filter").elements) {
        if (field.type === "checkbox") field.checked = asked.getAll(field.name).includes(field.value);
        else if (filter.fields.includes(field.name)) field.value = asked.get(field.name) || "";
      }
      return filter.apply();
    },

    start() {
      const form = byId("filter");
      form.addEventListener("input", filter.changed);
      form.addEventListener("reset", () => setTimeout(filter.changed));
      form.addEventListener("submit", (event) => event.preventDefault());
      addEventListener("hashchange", filter.fromAddress);
      filter.fromAddress();
    },
  };

  // Arrow keys go from dot to dot; the strip is one stop of the tabulator.
  function walkDots(strip) {
    const dots = [...strip.querySelectorAll(".dot")];
    dots.forEach((dot, n) => { dot.tabIndex = n ? -1 : 0; });
    strip.addEventListener("keydown", (event) => {
      const place = dots.indexOf(document.activeElement);
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? dots.length - 1 : place + (step || 0);
      if (place < 0 || next === place || !dots[next]) return;
      event.preventDefault();
      dots[place].tabIndex = -1;
      dots[next].tabIndex = 0;
      dots[next].focus();
    });
  }

  // --- a figure's numbers ----------------------------------------------------------------------------

  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255", "#999933", "#777777"];
  const USAGE = "what live runs used";
  const HEIGHT = 340, LINE = 13;  // pixels: of a chart, of a line of its text
  const isInfinite = (value) => value === "inf" || value === "-inf";  // JSON has no such numbers

  const chart = {
    figure: null,
    hidden: new Set(),
    view: null,

    table() { return chart.figure.tables[chart.choice.table]; },

    rows(name) {
      const { columns, rows } = chart.figure.tables[name];
      return rows.map((row) => Object.fromEntries(columns.map((column, n) => [column, row[n]])));
    },

    start() {
      if (!chart.figure || !Object.keys(chart.figure.tables).length) return;
      if (chart.usage) chart.figure.tables[USAGE] = chart.usage;
      byId("axes").addEventListener("change", (event) => chart.chosen(event.target));
      byId("axes").addEventListener("submit", (event) => event.preventDefault());
      byId("series").addEventListener("change", (event) => {
        chart.hidden[event.target.checked ? "delete" : "add"](event.target.value);
        chart.draw();
      });
      chart.take(chart.firstTable());
    },

    // The table that says most in a slice: one with intervals, else the first with an x that is not the series;
    // never one of equal values.
    firstTable() {
      const tables = Object.entries(chart.figure.tables).filter(([name]) => name !== USAGE);
      const drawn = chart.figure.digitised.find((curve) => curve.table);
      if (drawn) return drawn.table;
      const heights = (table) => table.rows.map((row) => row[table.columns.indexOf(table.y)]).filter((y) => y !== null);
      const differs = (table) => new Set(heights(table)).size > 1;
      const fits = ([, table]) => table.y && table.x && table.x !== table.series && differs(table);
      return (tables.find((entry) => fits(entry) && entry[1].y === "mean") || tables.find(fits) || tables[0])[0];
    },

    take(name) {
      const table = chart.figure.tables[name];
      const curve = chart.figure.digitised.find((each) => each.table === name);
      const only = Object.fromEntries(curve ? curve.conditions.map((column) => [column, String(chart.points(curve)[0][column])]) : []);
      chart.choice = { table: name, x: curve ? curve.x : table.x, y: curve ? curve.y : table.y, series: table.series, log: "as it is", only };
      chart.hidden.clear();
      chart.draw();
    },

    chosen(field) {
      if (field.name === "table") return chart.take(field.value);
      if (field.name.startsWith("only ")) chart.choice.only[field.name.slice(5)] = field.value;
      else chart.choice[field.name] = field.type === "checkbox" ? (field.checked ? "yes" : "") : field.value;
      if (field.name === "y") chart.choice.log = "as it is";
      if (field.name === "series") chart.hidden.clear();
      chart.draw(field.name);
    },

    // Rows of one slice: every telling column but x and the series has one value.
    slice() {
      const { table, x, y, series, only } = chart.choice;
      let rows = chart.rows(table).filter((row) => row[y] !== null && row[y] !== undefined);
      const held = [];
      for (const column of chart.table().telling) {
        if (column === x || column === series) continue;
        const values = [...new Set(rows.map((row) => String(row[column])))];
        if (values.length < 2) continue;
        if (!values.includes(only[column])) only[column] = chart.telling(rows, column, values);
        held.push([column, values]);
        rows = rows.filter((row) => String(row[column]) === only[column]);
      }
      return [rows, held];
    },

    // Whether a logarithmic axis shows more of a column: positive numbers over two decades or more.
    isWide(rows, name) {
      const values = rows.map((row) => row[name]).filter((value) => value !== null && !isInfinite(value));
      return values.every((value) => typeof value === "number" && value > 0) && Math.max(...values) >= 100 * Math.min(...values);
    },

    // As the reader wants it; until then as the values do.
    isLog(rows) {
      const { y, log } = chart.choice;
      return log === "as it is" ? chart.isWide(rows, y) : !!log;
    },

    // The value of a column whose rows differ most in y, then in x and series: others may be all zeros, or one point.
    telling(rows, column, values) {
      const { x, y, series } = chart.choice;
      const seen = new Map(values.map((value) => [value, [new Set(), new Set()]]));
      for (const row of rows) {
        const [heights, points] = seen.get(String(row[column]));
        heights.add(row[y]);
        points.add(JSON.stringify([row[x], row[series]]));
      }
      const [most] = [...seen].sort(([, one], [, other]) => other[0].size - one[0].size || other[1].size - one[1].size);
      return most[0];
    },

    label(name) { return (chart.figure.looks[name] || [name])[0] || "none"; },

    // A known system has its colour in every figure; others take colours that are left.
    colours(names) {
      const known = names.map((name) => (chart.figure.looks[name] || [])[1]);
      const left = COLOURS.filter((colour) => !known.includes(colour));
      let next = 0;
      return known.map((colour) => colour || (left.length ? left : COLOURS)[next++ % (left.length || COLOURS.length)]);
    },

    draw(focused) {
      if (!chart.choice) return;
      const [rows, held] = chart.slice();
      const { x, series } = chart.choice;
      const names = [...new Set(rows.map((row) => (series ? String(row[series]) : "all")))];
      const colours = chart.colours(names);
      const isLog = chart.isLog(rows);
      chart.controls(isLog, held, focused);
      chart.keys(names, colours);
      const values = rows.map((row) => ({ ...row, " series": series ? String(row[series]) : "all" }))
        .filter((row) => !chart.hidden.has(row[" series"]));
      if (!x || !chart.choice.y || !values.length) {
        byId("view").replaceChildren(element("p", { className: "soft", textContent: "Nothing to draw here; the table is below." }));
        byId("view").dataset.drawn = "0";
        return;
      }
      const spec = chart.spec(values, held, names, colours, x, isLog);
      const options = { actions: false, renderer: "svg", tooltip: { theme: isDark() ? "dark" : "light" } };
      window.vegaEmbed(byId("view"), spec, options).then(({ view }) => {
        if (chart.view) chart.view.finalize();
        chart.view = view;
        view.addEventListener("click", (event, item) => chart.pick(item && item.datum));
        byId("view").dataset.drawn = String(values.length);
      }).catch((error) => {
        byId("view").dataset.drawn = "0";
        console.error(`${chart.choice.table} cannot be drawn: ${error.message}`);
      });
    },

    controls(isLog, held, focused) {
      const { table, x, y, series } = chart.choice;
      const its = chart.table();
      const select = (name, title, values, value) => element("label", {}, `${title} `,
        element("select", { name, onchange: null }, ...values.map((each) =>
          element("option", { value: each, selected: each === value, textContent: each || "none" }))));
      const axes = [...new Set([its.x, x, ...its.columns.filter((name) => name !== "run_id")])].filter(Boolean);
      const parts = [];
      if (Object.keys(chart.figure.tables).length > 1) parts.push(select("table", "Table", Object.keys(chart.figure.tables), table));
      parts.push(select("x", "x", axes, x), select("y", "y", [...new Set([...its.measures, y])].filter(Boolean), y));
      parts.push(select("series", "Colour", ["", ...its.telling], series));
      for (const [column, values] of held) parts.push(select(`only ${column}`, column, values, chart.choice.only[column]));
      parts.push(element("label", {}, element("input", { type: "checkbox", name: "log", checked: isLog }), " logarithmic"));
      if (its.total > its.rows.length) parts.push(element("span", { className: "soft", textContent:
        `the first ${its.rows.length} of ${its.total} rows; the files have all` }));
      byId("axes").replaceChildren(...parts);
      const again = focused && byId("axes").elements.namedItem(focused);
      if (again) again.focus();
    },

    keys(names, colours) {
      const shown = byId("series");
      const had = document.activeElement && document.activeElement.name === "series-key" && document.activeElement.value;
      const boxes = names.map((name, n) => {
        const box = element("input", { type: "checkbox", name: "series-key", value: name, checked: !chart.hidden.has(name) });
        const label = element("label", {}, box, ` ${chart.label(name)}`);
        label.style.setProperty("--own", colours[n]);
        return label;
      });
      shown.replaceChildren(shown.querySelector("legend"), ...boxes);
      if (had) for (const label of boxes) if (label.firstChild.value === had) label.firstChild.focus();
    },

    // At each x of each series the mean; where a value is infinite so is the mean: in words, as it has no height.
    means(values) {
      const { x, y } = chart.choice;
      const groups = new Map();
      for (const row of values) {
        const place = JSON.stringify([row[x], row[" series"]]);
        if (!groups.has(place)) groups.set(place, []);
        groups.get(place).push(row);
      }
      return [...groups.values()].map((rows) => {
        const point = { [x]: rows[0][x], " series": rows[0][" series"] };
        const ends = rows.map((row) => row[y]).filter(isInfinite);
        if (!ends.length) return { ...point, [y]: rows.reduce((sum, row) => sum + row[y], 0) / rows.length };
        const shared = Object.entries(rows[0]).filter(([name, value]) => rows.every((row) => row[name] === value));
        const said = [...new Set(ends)].join(" and ") + (rows.length > 1 ? ` (${ends.length} of ${rows.length})` : "");
        return { ...Object.fromEntries(shared), ...point, [y]: null, " end": ends[0], " said": said };
      });
    },

    // Infinite means in words at the upper edge, or the lower: a line of text a series.
    infiniteLayers(means, names, xs, colour) {
      const { x, y, series } = chart.choice;
      const told = [[" said", `mean ${y}`], [x, x], ...(series ? [[" series", series]] : [])];
      const tooltip = told.map(([name, title]) => ({ field: chart.field(name), title }));
      const said = means.filter((row) => row[" said"]);
      const lines = names.filter((name) => said.some((row) => row[" series"] === name));
      return lines.flatMap((name, n) => ["inf", "-inf"].map((end) => ({
        data: { values: said.filter((row) => row[" series"] === name && row[" end"] === end) },
        mark: { type: "text", align: "left", dx: 4, baseline: end === "inf" ? "top" : "bottom", fontSize: 11, cursor: "pointer" },
        encoding: { x: xs, y: { value: end === "inf" ? 2 + LINE * n : HEIGHT - 2 - LINE * n }, text: { field: " said" }, color: colour, tooltip },
      }))).filter((layer) => layer.data.values.length);
    },

    field(name) { return name.replace(/([.\[\]\\])/g, "\\$1"); },

    spec(values, held, names, colours, x, wantsLog) {
      const { y, table } = chart.choice;
      const { field } = chart;
      const isNumber = (value) => value === null || typeof value === "number" || isInfinite(value);
      const kind = (column) => values.every((row) => isNumber(row[column])) ? "quantitative" : "nominal";
      const finite = values.filter((row) => !isInfinite(row[y]));
      const isLog = wantsLog && finite.every((row) => row[y] > 0);
      const scale = isLog ? { type: "log" } : { zero: false };
      const xKind = kind(x);
      const xScale = chart.table().telling.includes(x) && chart.isWide(values, x) ? { type: "log" } : { zero: false };
      const xs = { field: field(x), type: xKind, title: x, ...(xKind === "quantitative" ? { scale: xScale } : {}), axis: { labelAngle: 0, labelLimit: 120 } };
      const ys = { field: field(y), type: "quantitative", title: y, scale };
      const colour = { field: " series", type: "nominal", legend: null, scale: { domain: names, range: colours } };
      const tooltip = chart.table().columns.map((name) => ({ field: field(name), title: name }));
      const isDense = new Set(values.map((row) => row[x])).size > 40;
      const means = chart.means(values);
      const line = xs.type === "quantitative" ? { type: "line", opacity: 0.8 } : { type: "tick", thickness: 2, width: 24 };
      const layers = [
        { data: { values: means }, mark: line, encoding: { x: xs, y: ys, color: colour } },
        { data: { values: finite }, mark: { type: "point", filled: true, size: isDense ? 12 : 55, opacity: isDense ? 0.5 : 0.85, cursor: "pointer" },
          encoding: { x: xs, y: ys, color: colour, tooltip } },
      ].filter((layer) => layer.data.values.some((row) => row[y] !== null));  // an axis of nothing complains
      layers.push(...chart.infiniteLayers(means, names, xs, colour));
      const ends = values.filter((row) => typeof row.low === "number" && typeof row.high === "number" && !(isLog && row.low <= 0));
      if (chart.table().intervals && y === "mean" && ends.length) layers.push({ data: { values: ends },
        mark: { type: "rule", strokeWidth: 1.2 }, encoding: { x: xs, y: { ...ys, field: "low" }, y2: { field: "high" }, color: colour } });
      const curves = chart.figure.digitised.filter((curve) => (!curve.table || curve.table === table) && curve.x === x && curve.y === y);
      for (const curve of curves) layers.push(...chart.digitisedLayers(curve, held, xs, ys, colour));
      const [ink, grid] = isDark() ? ["#e4e7eb", "#3a4048"] : ["#1c2024", "#d9dde2"];
      return {
        $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: "container", height: HEIGHT, background: null,
        layer: layers,
        config: { aria: false, mark: { aria: false }, axis: { labelColor: ink, titleColor: ink, gridColor: grid, domainColor: ink, tickColor: ink }, view: { stroke: null },
          font: "system-ui, sans-serif" },
      };
    },

    points(curve) { return curve.rows.map((row) => Object.fromEntries(curve.columns.map((column, n) => [column, row[n]]))); },

    // What somebody read off a picture: open diamonds, dashes, the reading's own error; of the slice that is shown.
    digitisedLayers(curve, held, xs, ys, colour) {
      const told = held.map(([column]) => column).filter((column) => curve.conditions.includes(column));
      const values = chart.points(curve).filter((row) => told.every((column) => String(row[column]) === chart.choice.only[column]))
        .map((row) => ({ ...row, " series": row.series, " low": row[curve.y] - row.error, " high": row[curve.y] + row.error,
          " what": "digitised from the source's picture" }));
      if (!values.length) return [];
      const data = { values };
      const tooltip = [" what", "series", ...curve.conditions, curve.x, curve.y, "error", "ours", "apart"].map((name) => ({ field: name, title: name.trim() }));
      const layers = [
        { data, mark: { type: "line", strokeDash: [5, 4] }, encoding: { x: xs, y: ys, color: colour } },
        { data, mark: { type: "point", shape: "diamond", size: 70, filled: false }, encoding: { x: xs, y: ys, color: colour, tooltip } },
      ];
      if (values.some((row) => typeof row.error === "number")) layers.push({ data, mark: { type: "rule", strokeDash: [2, 2] },
        encoding: { x: xs, y: { ...ys, field: " low" }, y2: { field: " high" }, color: colour } });
      return layers;
    },

    // The runs behind a row: the one it names, else those that agree in every column that both have.
    pick(row) {
      const out = byId("behind");
      if (!row || row[" what"]) return out.replaceChildren();
      const runs = chart.figure.runs;
      const shared = Object.keys(row).filter((column) => runs.length && column in runs[0]);
      const found = row.run_id ? runs.filter((run) => run.run_id === row.run_id)
        : runs.filter((run) => shared.every((column) => run[column] === null || String(run[column]) === String(row[column])));
      const ids = found.length ? found.map((run) => run.run_id) : [].concat(row.run_id || []);
      const some = chart.figure.unlisted ? "of those in the list, " : "";
      const what = row.run_id ? "the run behind this point" : shared.length
        ? `${some}runs with the same ${shared.join(", ")}` : `${some}the figure's runs: this table does not tell them apart`;
      const links = ids.slice(0, 60).flatMap((id) => [" ", byId(`run-${id}`) ? element("a", { href: `#run-${id}`, textContent: id }) : id]);
      out.replaceChildren(`${ids.length} ${ids.length === 1 ? "run" : "runs"} (${what}):`, ...links, ids.length > 60 ? " …" : "");
    },
  };

  // A link into a closed part opens it, and print shows everything.
  function openTarget() {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    const details = target && target.closest("details");
    if (details) { details.open = true; target.scrollIntoView(); }
  }

  function openAll() {
    for (const details of document.querySelectorAll("details")) details.open = true;
  }

  document.addEventListener("DOMContentLoaded", () => {
    byId("theme").addEventListener("click", toggleTheme);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.draw());
    addEventListener("hashchange", openTarget);
    addEventListener("beforeprint", openAll);
    if (byId("filter")) filter.start();
    if (byId("strip")) walkDots(byId("strip"));
    chart.start();
    openTarget();
  });

  return {
    figure(figure) { chart.figure = figure; },
    usage(table) { chart.usage = table; },
  };
})();

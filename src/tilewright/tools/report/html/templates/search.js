// The searches of journals: a map of the best speed over two parameters, and every config against the seconds.
"use strict";

const OUTCOMES = { timed: "var(--shape-0)", stopped: "var(--shape-5)" };

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function speed(gflops) {
  return gflops.toLocaleString("en", { maximumFractionDigits: gflops < 10 ? 2 : 0 });
}

function trialWords(search, trial) {
  const config = search.parameters.map((name, index) => `${name}=${trial.values[index]}`);
  const lines = [];
  for (let at = 0; at < config.length; at += 6) lines.push(config.slice(at, at + 6).join(" "));
  const facts = [`${trial.outcome} after ${trial.at_s.toFixed(1)} s of searching`];
  if (trial.time_us !== null) facts.push(`median ${trial.time_us.toFixed(2)} us`);
  if (trial.registers !== null) facts.push(`${trial.registers} registers`);
  const head = trial.gflops === null ? trial.outcome : `${speed(trial.gflops)} GFLOP/s`;
  return [`<b>${head}</b>`, ...[...lines, facts.join(", "), ...(trial.note ? [trial.note] : [])].map(escaped)].join("<br>");
}

function choices(id) {
  return document.getElementById(id);
}

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name, index) => new Option(name, String(index), false, index === chosen)));
}

function shownSearch() {
  return page.searches[Number(choices("search").value)];
}

// Parameters that were tried with several values come first in question; BM and BN where a kernel has them.
function chooseParameters() {
  const search = shownSearch();
  const names = search.parameters;
  const varied = names.map((_, index) => index)
    .filter((index) => new Set(search.trials.map((trial) => trial.values[index])).size > 1);
  const rest = names.map((_, index) => index).filter((index) => !varied.includes(index));
  const wanted = ["BM", "BN"].map((name) => names.indexOf(name)).filter((index) => varied.includes(index));
  const [across, down] = [...new Set([...wanted, ...varied, ...rest])];
  fill(choices("across"), names, across ?? 0);
  fill(choices("down"), names, down ?? across ?? 0);
}

function drawLandscape(search) {
  const [across, down] = ["across", "down"].map((id) => Number(choices(id).value));
  const timed = search.trials.filter((trial) => trial.gflops !== null);
  const values = (index) => [...new Set(timed.map((trial) => trial.values[index]))].sort((one, other) => one - other);
  const [columns, rows] = [values(across), values(down)];
  const best = rows.map((row) => columns.map((column) => timed
    .filter((trial) => trial.values[across] === column && trial.values[down] === row)
    .reduce((top, trial) => (top === null || trial.gflops > top.gflops ? trial : top), null)));
  const map = (of) => best.map((line) => line.map((trial) => (trial ? of(trial) : null)));
  const trace = {
    type: "heatmap",
    x: columns.map(String),
    y: rows.map(String),
    z: map((trial) => trial.gflops),
    text: best.map((line) => line.map((trial) => (trial ? speed(trial.gflops) : ""))),
    hovertext: map((trial) => trialWords(search, trial)),
    texttemplate: "%{text}",
    hovertemplate: "%{hovertext}<extra></extra>",
    hoverongaps: false,
    xgap: 2,
    ygap: 2,
    colorscale: [[0, "var(--low)"], [1, "var(--high)"]],
    colorbar: { thickness: 12, outlinewidth: 0 },
  };
  const category = (index) => ({ type: "category", showgrid: false, title: { text: search.parameters[index] } });
  const layout = { xaxis: category(across), yaxis: category(down), height: 440 };
  draw(document.getElementById("landscape"), [trace], layout, `${search.title}/${across}/${down}`);
}

function drawTrials(search) {
  const outcomes = [...new Set(search.trials.map((trial) => trial.outcome))];
  const traces = outcomes.map((outcome) => {
    const trials = search.trials.filter((trial) => trial.outcome === outcome && trial.gflops !== null);
    return {
      type: "scatter",
      mode: "markers",
      name: outcome,
      x: trials.map((trial) => trial.at_s),
      y: trials.map((trial) => trial.gflops),
      text: trials.map((trial) => trialWords(search, trial)),
      hovertemplate: "%{text}<extra></extra>",
      marker: { color: OUTCOMES[outcome] ?? "var(--wrong)", size: 8, opacity: 0.85 },
    };
  }).filter((trace) => trace.x.length);
  let top = 0;
  const improvements = search.trials.filter((trial) => {
    if (trial.outcome !== "timed" || !(trial.gflops > top)) return false;
    top = trial.gflops;
    return true;
  });
  const end = Math.max(...search.trials.map((trial) => trial.at_s));
  if (improvements.length) {
    traces.push({
      type: "scatter",
      mode: "lines",
      name: "best so far",
      x: [...improvements.map((trial) => trial.at_s), end],
      y: [...improvements.map((trial) => trial.gflops), top],
      line: { shape: "hv", color: "var(--accent)", width: 2 },
      hoverinfo: "skip",
    });
  }
  const layout = {
    xaxis: { title: { text: "seconds of searching" }, rangemode: "tozero" },
    yaxis: { title: { text: "GFLOP/s" }, rangemode: "tozero", exponentformat: "none", separatethousands: true },
    legend: { orientation: "h", y: 1.1 },
    showlegend: true,
    height: 440,
  };
  draw(document.getElementById("trials"), traces, layout, search.title);
}

function drawSearch() {
  if (!page.searches.length) return;
  const search = shownSearch();
  choices("search-counts").textContent = `${search.trials.length} configs: ${search.counts}.`;
  drawLandscape(search);
  drawTrials(search);
}

if (page.searches.length) {
  fill(choices("search"), page.searches.map((search) => `${search.title} (${search.trials.length})`), 0);
  chooseParameters();
  choices("search").addEventListener("change", () => {
    chooseParameters();
    drawSearch();
  });
  for (const id of ["across", "down"]) choices(id).addEventListener("change", drawSearch);
}
drawAll();

// Draws the page's charts with plotly, in the colours of the theme, and draws them again where it changes.
// search.js follows, and starts the drawing.
"use strict";

const page = JSON.parse(document.getElementById("page-data").textContent);
const root = document.documentElement;
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 700px)");
const FONT = "system-ui, sans-serif";

// Colours stand in figures as var(--NAME): plotly takes no CSS variables, so each is replaced by its value of now.
function inTheme(figure) {
  const style = getComputedStyle(root);
  const replace = (value) => {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map(replace);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, replace(part)]));
    }
    return value;
  };
  return replace(figure);
}

function axis(own) {
  return {
    gridcolor: "var(--grid)", zerolinecolor: "var(--grid)", linecolor: "var(--grid)", automargin: true, ...own,
  };
}

// A chart of this element's width. What a reader zoomed or hid stays so (uirevision) until the chart shows other data.
function draw(element, data, layout, revision = "same") {
  const legend = narrow.matches ? { orientation: "h", y: -0.15 } : { x: 1.01, y: 1 };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: "var(--ink)", size: 12, family: FONT },
    hoverlabel: {
      bgcolor: "var(--card)", bordercolor: "var(--muted)", align: "left", font: { color: "var(--ink)", family: FONT },
    },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "var(--muted)", activecolor: "var(--ink)" },
    hovermode: "closest",
    margin: { l: 60, r: 20, t: 20, b: 50 },
    legend: { ...legend, tracegroupgap: 0 },
    uirevision: revision,
    ...layout,
    xaxis: axis(layout.xaxis),
    yaxis: axis(layout.yaxis),
  };
  element.style.minWidth = layout.meta ? `${layout.meta.least_width}px` : "";
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
  return Plotly.react(element, inTheme(data), inTheme(whole), config);
}

// The traces of the files that are ticked; the first of each group stands for it in the legend.
function ticked(name, data) {
  const boxes = document.querySelectorAll(`.files[data-figure="${name}"] input`);
  const files = new Set([...boxes].filter((box) => box.checked).map((box) => Number(box.value)));
  // A name of its own keeps a trace hidden that a reader hid, whichever others are drawn; plotly puts it in selectors.
  const named = data.map((trace, index) => ({ ...trace, uid: `trace${index}` }));
  const shown = named.filter((trace) => !boxes.length || !trace.meta || files.has(trace.meta.file));
  const groups = new Set();
  return shown.map((trace) => {
    if (trace.type !== "scatter" || !trace.legendgroup) return trace;
    const first = !groups.has(trace.legendgroup);
    groups.add(trace.legendgroup);
    return { ...trace, showlegend: first };
  });
}

// The layout with speeds on a linear scale from 0, where a reader wants that.
function scaled(name, layout) {
  if (!document.querySelector(`.linear[data-figure="${name}"]`)?.checked) return layout;
  const { dtick, ...linear } = layout.yaxis;
  return { ...layout, yaxis: { ...linear, type: "linear", rangemode: "tozero", uirevision: "linear" } };
}

function drawFigure(name) {
  const { data, layout } = page.figures[name];
  return draw(document.getElementById(`chart-${name}`), ticked(name, data), scaled(name, layout));
}

function drawAll() {
  Object.keys(page.figures).forEach(drawFigure);
  drawSearch();
}

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches;
}

function nameTheme() {
  document.querySelector("#theme span").textContent = isDark() ? "light" : "dark";
}

// Storage may be refused to a page that is opened from a file; the choice then lasts as long as the page.
function remembered(choice) {
  try {
    if (choice) localStorage.setItem("tilewright-theme", choice);
    return localStorage.getItem("tilewright-theme");
  } catch {
    return null;
  }
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remembered(root.dataset.theme);
  nameTheme();
  drawAll();
});
narrow.addEventListener("change", drawAll);
systemDark.addEventListener("change", () => {
  nameTheme();
  drawAll();
});
document.querySelectorAll(".files").forEach((box) => {
  box.addEventListener("change", () => drawFigure(box.dataset.figure));
});

document.querySelectorAll(".linear").forEach((box) => {
  box.addEventListener("change", () => drawFigure(box.dataset.figure));
});

const before = remembered();
if (before === "light" || before === "dark") root.dataset.theme = before;
nameTheme();

// Sorts tables by a click on a heading, and keeps the rows that hold all words of a filter.
"use strict";

// What a cell is sorted by: its key, as a number in columns of numbers; null where it says nothing.
function sortKey(row, column, numeric) {
  const key = row.cells[column].dataset.key;
  if (key === undefined) return null;
  return numeric ? Number(key) : key.toLowerCase();
}

function sortBy(table, column) {
  const heading = table.tHead.rows[0].cells[column];
  const numeric = heading.classList.contains("number");
  // Numbers come largest first at the first click, words in the order of the alphabet.
  const now = heading.getAttribute("aria-sort");
  const ascending = now === "none" ? !numeric : now === "descending";
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0) * (ascending ? 1 : -1);
  const keyed = [...table.tBodies[0].rows].map((row) => [sortKey(row, column, numeric), row]);
  const empty = keyed.filter(([key]) => key === null);
  const sorted = keyed.filter(([key]) => key !== null).sort(([one], [other]) => compare(one, other));
  table.tBodies[0].append(...[...sorted, ...empty].map(([, row]) => row));
}

function filterBy(name, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const table = document.getElementById(name);
  const rows = [...table.tBodies[0].rows];
  // A parameter of a config is a word such as BM=64; where a kernel has none, it is none.
  const names = [...table.tHead.rows[0].cells].map((head) => head.classList.contains("parameter") && head.textContent.trim());
  const word = (cell, column) => (names[column] && cell.textContent ? `${names[column]}=` : "") + cell.textContent;
  for (const row of rows) {
    const cells = [...row.cells].map(word).join(" ").toLowerCase();
    row.hidden = !words.every((word) => cells.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  const count = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
  document.querySelector(`.count[data-table="${name}"]`).textContent = count;
}

document.querySelectorAll("table.sortable").forEach((table) => {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, column));
  });
});
document.querySelectorAll("input.filter").forEach((input) => {
  input.addEventListener("input", () => filterBy(input.dataset.table, input.value));
});

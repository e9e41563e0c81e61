
// SPDX-License-Identifier: MIT OR Apache-2.0
// What a report does in a browser: tells the values of a plot under the pointer, and sorts tables.
// Foreign text is only ever put in as text.
(() => {
  'use strict';

  const SVG = 'http://www.w3.org/2000/svg';
  // More lines than these would cover the plot.
  const LINES_MAX = 16;

  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // A small square of a series' colour, as a picture has it, so that the page's style treats both alike.
  const swatch = (colour) => {
    const square = document.createElementNS(SVG, 'svg');
    const fill = document.createElementNS(SVG, 'rect');
    fill.setAttribute('width', '100%');
    fill.setAttribute('height', '100%');
    fill.setAttribute('fill', colour);
    square.append(fill);
    return square;
  };

  const lines = (panel, cell) => {
    const told = panel.series.filter((series) => series.values[cell]);
    const table = make('table');
    for (const series of told.slice(0, LINES_MAX)) {
      const row = table.insertRow();
      row.insertCell().append(swatch(series.colour));
      row.insertCell().textContent = series.label;
      row.insertCell().textContent = series.values[cell];
    }
    if (told.length > LINES_MAX) {
      table.insertRow().insertCell().colSpan = 3;
      table.rows[LINES_MAX].cells[0].textContent = `and ${told.length - LINES_MAX} more`;
    }
    return told.length ? table : make('div', '', 'nothing');
  };

  const plot = (figure, data) => {
    const picture = figure.querySelector('svg');
    const glass = figure.querySelector('.glass');
    const mark = make('div', 'mark');
    const tip = make('div', 'tip');
    tip.setAttribute('role', 'status');
    mark.hidden = tip.hidden = true;
    figure.append(mark, tip);
    if (!data.cells.length || !data.panels.length) return;
    let cell = -1;
    let panel = data.panels[0];

    const hide = () => { mark.hidden = tip.hidden = true; };

    const show = () => {
      // The data count in tenths of the picture's own pixels.
      const scale = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width / 10;
      const [from, to] = data.cells[cell];
      const middle = (from + to) / 2 * scale;
      mark.style.left = `${middle}px`;
      mark.style.top = `${panel.top * scale}px`;
      mark.style.height = `${(panel.bottom - panel.top) * scale}px`;
      tip.replaceChildren(make('b', '', data.when[cell]));
      if (panel.name) tip.append(make('div', '', panel.name));
      tip.append(lines(panel, cell));
      mark.hidden = tip.hidden = false;
      const right = middle + 14 + tip.offsetWidth <= figure.clientWidth;
      tip.style.left = `${Math.max(0, right ? middle + 14 : middle - 14 - tip.offsetWidth)}px`;
      tip.style.top = `${panel.top * scale + 8}px`;
    };

    const at = (event) => {
      const box = picture.getBoundingClientRect();
      const scale = picture.viewBox.baseVal.width * 10 / box.width;
      const x = (event.clientX - box.left) * scale;
      const y = (event.clientY - box.top) * scale;
      const away = (one) => Math.max(one.top - y, y - one.bottom, 0);
      panel = data.panels.reduce((best, one) => (away(one) < away(best) ? one : best));
      cell = data.cells.findIndex(([from, to]) => from <= x && x < to);
      if (cell < 0 || away(panel) > 0) hide(); else show();
    };

    const keys = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    const key = (event) => {
      if (event.key === 'Escape') return hide();
      const places = data.panels.length;
      const place = data.panels.indexOf(panel);
      if (event.key in keys) {
        cell = Math.min(Math.max(cell + keys[event.key], 0), data.cells.length - 1);
      } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        panel = data.panels[(place + (event.key === 'ArrowDown' ? 1 : places - 1)) % places];
        cell = Math.max(cell, 0);
      } else {
        return undefined;
      }
      event.preventDefault();
      return show();
    };

    glass.addEventListener('pointermove', at);
    glass.addEventListener('pointerdown', at);
    glass.addEventListener('pointerleave', hide);
    glass.addEventListener('keydown', key);
    glass.addEventListener('blur', hide);
  };

  // Empty cells come last, whichever way the others are sorted.
  const compare = (one, other, way) => {
    const [a, b] = [one, other].map((cell) => cell.dataset.value ?? cell.textContent);
    if (a === '' || b === '') return (a === '') - (b === '');
    const numbers = one.dataset.value !== undefined && other.dataset.value !== undefined;
    const order = numbers ? Number(a) - Number(b) : a.localeCompare(b, 'en', { numeric: true });
    return way * order;
  };

  const sort = (head) => {
    const table = head.closest('table');
    const column = head.cellIndex;
    const first = head.classList.contains('number') ? 'descending' : 'ascending';
    const second = first === 'ascending' ? 'descending' : 'ascending';
    const order = head.getAttribute('aria-sort') === first ? second : first;
    for (const other of head.parentElement.cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', order);
    const way = order === 'ascending' ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => compare(one.cells[column], other.cells[column], way));
    table.tBodies[0].append(...rows);
  };

  // What a test would see: tips in the middle of each panel of each plot, and the first column of each table
  // after each of its heads was clicked.
  const selfTest = () => {
    const tips = [...document.querySelectorAll('figure')].map((figure) => {
      const picture = figure.querySelector('svg');
      const box = picture.getBoundingClientRect();
      const scale = box.width / picture.viewBox.baseVal.width / 10;
      const seen = [];
      for (const panel of data[figure.dataset.plot].panels) {
        for (const part of [0.3, 0.5, 0.7]) {
          const y = box.top + (panel.top + panel.bottom) / 2 * scale;
          const place = { clientX: box.left + box.width * part, clientY: y };
          figure.querySelector('.glass').dispatchEvent(new PointerEvent('pointermove', place));
          const tip = figure.querySelector('.tip');
          seen.push(tip.hidden ? '' : tip.textContent);
        }
      }
      return seen;
    });
    const tables = [...document.querySelectorAll('main table')].filter((table) => !table.closest('.tip'));
    const sorted = tables.map((table) => [...table.tHead.rows[0].cells].map((head) => {
      head.querySelector('button').click();
      return [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
    }));
    document.documentElement.dataset.selfTest = JSON.stringify({ tips, sorted });
  };

  const data = JSON.parse(document.getElementById('data').textContent);
  for (const figure of document.querySelectorAll('figure')) plot(figure, data[figure.dataset.plot]);
  for (const head of document.querySelectorAll('th')) {
    head.querySelector('button').addEventListener('click', () => sort(head));
  }
  if (window.location.hash === '#self-test') selfTest();
})();


// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns: who had the device when, and what waited. A bar is a request: pale while it waited, full while the
// device had it. A click, or an arrow key, tells what it waited for; the words and figures are the page's data.
(() => {
  'use strict';

  const block = document.getElementById('turns');
  if (!block) return;
  const [LINE, GAP, ROWS, LANE, ZOOM_MAX] = [18, 8, 40, 130, 64];
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  // As the page's style has it for pictures.
  const BRIGHT = { '#0072b2': '#3d9fe0', '#56b4e9': '#a6dcff', '#000000': '#ffffff' };

  const make = (name, text) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const time = (ns) => {
    for (const [size, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'us']]) {
      if (ns >= size * 0.9995) return `${(ns / size).toFixed(ns >= 99.95 * size ? 0 : 1)} ${unit}`;
    }
    return `${ns} ns`;
  };

  // Rows in which no two of these overlap; what has no row of its own shares the last.
  const pack = (turns, from, to) => {
    const ends = [];
    const rows = new Map();
    for (const turn of [...turns].sort((a, b) => from(a) - from(b))) {
      let row = ends.findIndex((end) => end <= from(turn));
      if (row < 0) row = Math.min(ends.length, ROWS - 1);
      ends[row] = Math.max(ends[row] ?? 0, to(turn));
      rows.set(turn, row);
    }
    return { rows, count: Math.max(ends.length, 1) };
  };

  const timeline = (figure, data) => {
    const box = figure.querySelector('.lanes');
    const wide = figure.querySelector('.wide');
    const canvas = figure.querySelector('canvas');
    const why = figure.querySelector('.why');
    const turns = data.turns.map(([client, words, asked, issued, ended, parts]) => (
      { client, words, asked, issued, ended, parts }));
    if (!turns.length) return;
    // What waited from before is cut: one that waited long would press all others flat.
    const from = Math.min(...turns.map((turn) => turn.issued));
    const to = Math.max(...turns.map((turn) => turn.ended), from + 1);
    const lane = (name, own, begin) => {
      const packed = pack(own, begin, (turn) => turn.ended);
      return { name, own, begin, ...packed, height: Math.max(3, Math.min(14, LANE / packed.count)) };
    };
    const lanes = [lane('in the device', turns, (turn) => turn.issued)];
    data.clients.forEach((name, client) => {
      const own = turns.filter((turn) => turn.client === client);
      if (own.length) lanes.push(lane(name, own, (turn) => turn.asked));
    });
    let height = 0;
    for (const one of lanes) {
      one.top = height + LINE;
      height = one.top + one.count * one.height + GAP;
    }
    height += LINE;
    let zoom = 1;
    let chosen = turns.reduce((most, turn) => (
      turn.ended - turn.asked > most.ended - most.asked ? turn : most));

    const width = () => box.clientWidth * zoom;
    const x = (at) => (at - from) / (to - from) * width() - box.scrollLeft;

    const draw = () => {
      const scale = window.devicePixelRatio || 1;
      wide.style.width = `${width()}px`;
      wide.style.height = canvas.style.height = `${height}px`;
      canvas.style.width = `${box.clientWidth}px`;
      canvas.width = box.clientWidth * scale;
      canvas.height = height * scale;
      const pen = canvas.getContext('2d');
      const style = getComputedStyle(figure);
      const [ink, line] = ['--ink', '--line'].map((name) => style.getPropertyValue(name).trim());
      const colour = (turn) => {
        const own = data.colours[turn.client % data.colours.length];
        return dark.matches ? BRIGHT[own] ?? own : own;
      };
      pen.scale(scale, scale);
      pen.font = '13px sans-serif';
      for (const one of lanes) {
        pen.fillStyle = line;
        pen.fillRect(0, one.top - 2, box.clientWidth, 1);
        for (const turn of one.own) {
          const [begin, middle, right] = [one.begin(turn), turn.issued, turn.ended].map(x);
          const left = Math.max(begin, -4);
          if (right < 0 || left > box.clientWidth) continue;
          const top = one.top + one.rows.get(turn) * one.height;
          pen.fillStyle = colour(turn);
          pen.globalAlpha = 0.3;
          pen.fillRect(left, top, Math.max(Math.max(middle, -4) - left, 0), one.height - 1);
          pen.globalAlpha = 1;
          pen.fillRect(Math.max(middle, -4), top, Math.max(right - Math.max(middle, -4), 0.7), one.height - 1);
          if (turn === chosen) {
            pen.strokeStyle = ink;
            pen.lineWidth = 2;
            pen.strokeRect(left - 1, top - 1, right - left + 2, one.height + 1);
          }
        }
        pen.fillStyle = ink;
        pen.fillText(one.name, 4, one.top - 5);
      }
      for (let nth = 0; nth < 5; nth += 1) {
        const at = (box.scrollLeft + box.clientWidth * nth / 5) / width() * (to - from);
        pen.fillStyle = line;
        pen.fillRect(box.clientWidth * nth / 5, 0, 1, height - LINE);
        pen.fillStyle = ink;
        pen.fillText(`+${time(Math.round(at))}`, box.clientWidth * nth / 5 + 3, height - 4);
      }
    };

    const tell = () => {
      const all = chosen.ended - chosen.asked;
      const table = make('table');
      for (const [label, ns] of chosen.parts) {
        const row = table.insertRow();
        row.insertCell().textContent = time(ns);
        row.cells[0].className = 'number';
        const meter = make('span');
        meter.className = 'meter';
        meter.style.width = `${Math.max(100 * ns / Math.max(all, 1), 1)}px`;
        row.insertCell().append(meter);
        row.insertCell().textContent = data.labels[label];
      }
      const name = `${data.clients[chosen.client]}, ${chosen.words}: ${time(all)}`;
      const asked = `asked for at ${time(chosen.asked)}; its time went`;
      const head = make('p');
      head.append(make('b', name), ` ${asked}`);
      why.replaceChildren(head, table);
      draw();
    };

    const show = () => {
      const middle = (Math.max(chosen.asked, from) + chosen.ended) / 2;
      const at = (middle - from) / (to - from) * width();
      if (at < box.scrollLeft || at > box.scrollLeft + box.clientWidth) {
        box.scrollLeft = at - box.clientWidth / 2;
      }
      tell();
    };

    const magnify = (factor) => {
      const at = (box.scrollLeft + box.clientWidth / 2) / width();
      zoom = Math.max(1, Math.min(ZOOM_MAX, zoom * factor));
      wide.style.width = `${width()}px`;
      box.scrollLeft = at * width() - box.clientWidth / 2;
      draw();
    };

    // The bar under the pointer, or the nearest of its lane.
    const pick = (event) => {
      const place = canvas.getBoundingClientRect();
      const [left, top] = [event.clientX - place.left, event.clientY - place.top];
      const one = lanes.find((lane) => top < lane.top + lane.count * lane.height + GAP / 2);
      if (!one) return;
      const away = (turn) => {
        const middle = one.top + (one.rows.get(turn) + 0.5) * one.height;
        const beside = Math.max(x(one.begin(turn)) - left, left - x(turn.ended), 0);
        return beside + Math.max(Math.abs(top - middle) - one.height / 2, 0) * 4;
      };
      chosen = one.own.reduce((best, turn) => (away(turn) < away(best) ? turn : best));
      tell();
    };

    const key = (event) => {
      const of = lanes.slice(1);
      const place = of.findIndex((one) => one.own.includes(chosen));
      const own = [...of[place].own].sort((a, b) => a.asked - b.asked);
      const nth = own.indexOf(chosen);
      const steps = { ArrowLeft: nth - 1, ArrowRight: nth + 1, PageUp: nth - 20, PageDown: nth + 20,
        Home: 0, End: own.length - 1 };
      if (event.key in steps) {
        chosen = own[Math.max(0, Math.min(own.length - 1, steps[event.key]))];
      } else if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
        const next = (place + (event.key === 'ArrowDown' ? 1 : of.length - 1)) % of.length;
        const away = (turn) => Math.abs(turn.asked - chosen.asked);
        chosen = of[next].own.reduce((best, turn) => (away(turn) < away(best) ? turn : best));
      } else if (event.key === '+' || event.key === '-') {
        magnify(event.key === '+' ? 2 : 0.5);
      } else {
        return;
      }
      event.preventDefault();
      show();
    };

    box.addEventListener('click', pick);
    box.addEventListener('keydown', key);
    box.addEventListener('scroll', () => window.requestAnimationFrame(draw));
    window.addEventListener('resize', draw);
    dark.addEventListener('change', draw);
    for (const button of figure.querySelectorAll('button')) {
      button.addEventListener('click', () => magnify(Number(button.dataset.zoom)));
    }
    tell();
  };

  const all = JSON.parse(block.textContent);
  for (const figure of document.querySelectorAll('.turns')) timeline(figure, all[figure.dataset.turns]);

  // What a test would see: the longest request, what a click finds, and where keys lead.
  if (window.location.hash === '#self-test') {
    const seen = [...document.querySelectorAll('.turns')].map((figure) => {
      const said = () => figure.querySelector('.why').textContent;
      const box = figure.querySelector('.lanes');
      const told = [said()];
      const place = box.getBoundingClientRect();
      const at = { clientX: place.left + place.width / 2, clientY: place.top + 22, bubbles: true };
      box.dispatchEvent(new MouseEvent('click', at));
      told.push(said());
      for (const name of ['Home', 'ArrowRight', 'ArrowDown', '+', 'End']) {
        box.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
        told.push(said());
      }
      for (const button of figure.querySelectorAll('button')) button.click();
      return told;
    });
    document.documentElement.dataset.turnsTest = JSON.stringify(seen);
  }
})();

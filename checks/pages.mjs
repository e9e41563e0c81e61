// SPDX-License-Identifier: MIT OR Apache-2.0
// Pages of `--html` as a user's browser shows them: a wide window, a phone, in dark mode.
//
//   node checks/pages.mjs AXE.js PICTURES PAGE.html…
//
// For each page and each of the three: nothing on the console, no network request, no axe-core
// finding that is serious or critical, no sideways scrolling; a click on a bar of the turns and the
// arrow keys change the details, a click on a head sorts. Pictures go into the folder PICTURES.
// Chromium is driven by its own protocol over two pipes, so that only node is needed.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

const [axe, pictures, ...pages] = process.argv.slice(2);
const SCREENS = {
  wide: { width: 1100, height: 900, mobile: false, scheme: 'light' },
  dark: { width: 1100, height: 900, mobile: false, scheme: 'dark' },
  telephone: { width: 390, height: 844, mobile: true, scheme: 'light' },
};

const profile = mkdtempSync(join(tmpdir(), 'paternoster-pages-'));
const browser = spawn(process.env.CHROMIUM ?? 'chromium', ['--headless', '--no-sandbox', '--disable-gpu',
  '--disable-dev-shm-usage', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank'],
{ stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'], detached: true });
browser.on('error', (error) => {
  rmSync(profile, { recursive: true, force: true });
  console.error(`the browser does not start: ${error.message}`);
  process.exit(1);
});
const [, , , to, from] = browser.stdio;

// Messages are JSON, each followed by a zero byte.
let last = 0;
let rest = '';
const waiting = new Map();
const heard = [];
from.on('data', (bytes) => {
  const parts = (rest + bytes).split('\0');
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id) {
      const { resolve: done, reject } = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message)); else done(message.result);
    } else {
      heard.push(message);
    }
  }
});
const ask = (method, params = {}, sessionId = undefined) => new Promise((done, reject) => {
  last += 1;
  waiting.set(last, { resolve: done, reject });
  to.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
});
const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });

const wrong = [];
let checked = 0;

const check = async (page, screen) => {
  const { width, height, mobile, scheme } = SCREENS[screen];
  const complain = (what) => wrong.push(`${basename(page)}, ${screen}: ${what}`);
  const { targetId } = await ask('Target.createTarget', { url: 'about:blank' });
  const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true });
  const own = (method, params) => ask(method, params, sessionId);
  const run = async (expression) => {
    const told = await own('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (told.exceptionDetails) throw new Error(told.exceptionDetails.exception?.description ?? expression);
    return told.result.value;
  };
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await own(`${domain}.enable`);
  await own('Emulation.setDeviceMetricsOverride', { width, height, mobile, deviceScaleFactor: 1 });
  await own('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  const address = `file://${resolve(page)}`;
  const begun = heard.length;
  await own('Page.navigate', { url: address });
  for (let tries = 0; tries < 200 && !heard.slice(begun).some((one) => one.sessionId === sessionId
    && one.method === 'Page.loadEventFired'); tries += 1) await sleep(50);

  // What a user does, with a real pointer and real keys.
  const click = async (x, y) => {
    for (const type of ['mousePressed', 'mouseReleased']) {
      await own('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
    }
  };
  const press = async (key) => {
    for (const type of ['keyDown', 'keyUp']) await own('Input.dispatchKeyEvent', { type, key });
  };
  const place = (selector) => run(`(() => { const one = document.querySelector(${JSON.stringify(selector)});
    if (!one) return null;
    one.scrollIntoView({ block: 'center' });
    const { left, top, width, height } = one.getBoundingClientRect();
    return { left, top, width, height }; })()`);
  const said = () => run("document.querySelector('.turns .why')?.textContent ?? ''");
  const lanes = await place('.turns .lanes');
  if (lanes) {
    const told = new Set([await said()]);
    for (const part of [0.2, 0.5, 0.8]) {
      await click(lanes.left + lanes.width * part, lanes.top + 24);
      told.add(await said());
    }
    if (told.size < 2) complain('a click on a bar tells nothing else');
    const before = told.size;
    await run("document.querySelector('.turns .lanes').focus()");
    for (const key of ['ArrowRight', 'ArrowDown', 'Home', 'End']) {
      await press(key);
      told.add(await said());
    }
    if (told.size === before) complain('the arrow keys tell nothing else');
    if (!(await said()).includes('its time went')) complain('nothing is told of a request');
  }
  const head = await place('thead th button, th button, thead th');
  if (head) {
    await click(head.left + Math.min(head.width / 2, 12), head.top + head.height / 2);
    if (!await run("!!document.querySelector('th[aria-sort]')")) complain('a click on a head sorts nothing');
  }
  const sideways = await run('document.documentElement.scrollWidth - document.documentElement.clientWidth');
  if (sideways > 0) complain(`the page scrolls sideways by ${sideways} pixels`);

  await run(readFileSync(axe, 'utf8'));
  const found = await run(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => (
    { passes: passes.length, violations: violations.map(({ id, impact, help, nodes }) => (
      { id, impact, help, where: nodes.slice(0, 3).map((node) => node.target.join(' ')) })) }))`);
  const serious = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  for (const { id, impact, help, where } of serious) complain(`${impact}: ${help} (${id}): ${where.join('; ')}`);
  const others = found.violations.length - serious.length;
  if (!found.passes) complain('axe-core looked at nothing');

  await run('window.scrollTo(0, 0)');
  await sleep(100);
  const shot = async (name, clip) => {
    const { data } = await own('Page.captureScreenshot', { format: 'png', captureBeyondViewport: !!clip, clip });
    writeFileSync(join(pictures, `${basename(page, '.html')}-${screen}${name}.png`), Buffer.from(data, 'base64'));
  };
  await shot('');
  for (const [name, selector] of [['turns', '.turns'], ['picture', 'figure:not(.turns)']]) {
    const clip = await run(`(() => { const one = document.querySelector('${selector}'); if (!one) return null;
      const { left, top, width, height } = one.getBoundingClientRect();
      return { x: left + window.scrollX, y: top + window.scrollY, width, height, scale: 1 }; })()`);
    if (clip) await shot(`-${name}`, clip);
  }

  for (const { method, params } of heard.filter((one) => one.sessionId === sessionId)) {
    if (method === 'Runtime.consoleAPICalled') complain(`the console: ${params.args.map((arg) => arg.value).join(' ')}`);
    if (method === 'Runtime.exceptionThrown') complain(`an exception: ${params.exceptionDetails.text}`);
    if (method === 'Log.entryAdded' && params.entry.level !== 'verbose') complain(`the log: ${params.entry.text}`);
    if (method === 'Network.requestWillBeSent' && !/^(data:|file:|blob:)/.test(params.request.url)) {
      complain(`it asks for ${params.request.url}`);
    }
  }
  await ask('Target.closeTarget', { targetId });
  checked += 1;
  console.log(`${basename(page)}, ${screen}: axe-core: ${found.passes} rules kept, ${serious.length} broken seriously, ${others} less`);
};

let status = 1;
try {
  for (const page of pages) {
    for (const screen of Object.keys(SCREENS)) await check(page, screen);
  }
  wrong.forEach((what) => console.log(`wrong: ${what}`));
  console.log(`${checked} pages looked at, ${wrong.length} findings`);
  status = wrong.length ? 1 : 0;
} finally {
  // All of its processes: one that lives on writes its profile while that is removed.
  try {
    process.kill(-browser.pid, 'SIGKILL');
  } catch {
    // It has ended by itself, or never begun; what went wrong then is told.
  }
  await new Promise((done) => { browser.on('exit', done); setTimeout(done, 3000); });
  rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
process.exit(status);

// SPDX-License-Identifier: Apache-2.0
// chart.js: the best time by trial: a dot for each trial, a line for the best so far, lines for the untuned kernel and
// the floor. Time is drawn logarithmically. What is drawn does not grow with the number of trials: of the dots that
// share a column of pixels only the best and the worst are.
import {h, svg} from "./dom.js";
import * as text from "./text.js";

const HEIGHT = 260, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 26;
const FLOOR_IN_SIGHT = 20; // a floor further below the best than this would press all else together

// 1, 2 and 5 times each power of ten from lo to hi, thinned to a handful.
function logTicks(lo, hi) {
  const all = [];
  for (let power = Math.floor(Math.log10(lo)); power <= Math.ceil(Math.log10(hi)); power++)
    for (const digit of [1, 2, 5]) all.push(digit * 10 ** power);
  const inside = all.filter((value) => value >= lo && value <= hi);
  const every = Math.ceil(inside.length / 6);
  return inside.filter((_, i) => i % every === 0);
}

// The first trial is number 1.
function linearTicks(most) {
  const raw = most / 5, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((n) => n * power >= raw) * power;
  const ticks = [];
  for (let at = 0; at <= most; at += Math.max(1, step)) ticks.push(Math.max(1, at));
  return ticks;
}

// What the trials come to: range of times, and the points where the best improved.
function digest({costs, baseline_us, floor_us}) {
  let best = Infinity, first = null, failed = 0;
  const steps = [];
  costs.forEach((cost, trial) => {
    if (cost === null) {
      failed++;
      return;
    }
    first ??= cost;
    if (cost < best) steps.push([trial, (best = cost)]);
  });
  const above = Math.max(baseline_us || 0, first || 0), low = Math.min(best, baseline_us || Infinity);
  const lo = (floor_us && low < floor_us * FLOOR_IN_SIGHT ? Math.min(floor_us, low) : low) / 1.15;
  return {best, steps, failed, lo, hi: Math.max(above, best) * 1.3};
}

// A dot is a line of no length with round ends, so that all are one path.
function dots(costs, x, y, hi) {
  const columns = new Map();
  costs.forEach((cost, trial) => {
    if (cost === null || cost > hi) return;
    const at = Math.round(x(trial)), seen = columns.get(at);
    if (!seen) columns.set(at, [cost, cost]);
    else if (cost < seen[0]) seen[0] = cost;
    else if (cost > seen[1]) seen[1] = cost;
  });
  return [...columns].flatMap(([at, [low, high]]) => (low === high ? [low] : [low, high]).map((cost) =>
    `M${at} ${y(cost).toFixed(1)}h0`)).join("");
}

function line(steps, x, y, last) {
  const moves = steps.map(([trial, cost], i) => `${i ? "H" : "M"}${x(trial).toFixed(1)}${i ? "V" : " "}${y(cost).toFixed(1)}`);
  return moves.length ? `${moves.join("")}H${x(last).toFixed(1)}` : "";
}

const tick = (x, y, anchor, label) => svg("text", {x, y, "text-anchor": anchor}, label);

// A chart that `update` draws anew; its readout tells the trial under the pointer.
export function chart() {
  const image = svg("svg", {role: "img", class: "chart", height: HEIGHT}), legend = h("p", {class: "legend"});
  const readout = h("p", {class: "readout small", "aria-hidden": "true"});
  const host = h("div", {class: "chart-host"}, image, legend, readout);
  let data = null, scale = null;

  function axes(width, x, y, digested, most) {
    const grid = logTicks(digested.lo, digested.hi).map((cost) => [
      svg("line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(cost), y2: y(cost)}),
      tick(LEFT - 8, y(cost) + 4, "end", text.time_us(cost))]);
    return [grid, linearTicks(most + 1).map((trial) => tick(x(trial - 1), HEIGHT - 8, "middle", text.amount(trial)))];
  }

  function level(kind, cost, width, y, {lo, hi}) {
    return cost >= lo && cost <= hi
      ? svg("line", {class: kind, x1: LEFT, x2: width - RIGHT, y1: y(cost), y2: y(cost)}) : null;
  }

  function words({best, failed}) {
    const entry = (kind, label, cost) => h("span", {class: `key ${kind}`}, label, " ", h("b", {}, text.time_us(cost)));
    legend.replaceChildren(entry("best", "best trial", best), entry("baseline", "untuned", data.baseline_us),
      entry("floor", "floor", data.floor_us), h("span", {class: "key dot"}, "a trial each"),
      failed ? h("span", {class: "key failed"}, `${text.whole(failed)} failed`) : "");
    image.setAttribute("aria-label", `Best time by trial: ${text.time_us(best)} after ${data.costs.length} trials, ` +
      `untuned ${text.time_us(data.baseline_us)}, floor ${text.time_us(data.floor_us)}.`);
  }

  function update(next) {
    data = next;
    const digested = digest(data), {best, steps, lo, hi} = digested, width = Math.max(280, host.clientWidth);
    const most = Math.max(data.planned || 0, data.costs.length, 2) - 1;
    image.setAttribute("width", width);
    host.classList.toggle("waiting", !Number.isFinite(best));
    words(digested);
    if (!Number.isFinite(best)) {
      image.replaceChildren(tick(width / 2, HEIGHT / 2, "middle", data.costs.length ? "No trial has worked yet" : "No trials yet"));
      scale = null;
      return;
    }
    const x = (trial) => LEFT + (trial / most) * (width - LEFT - RIGHT);
    const y = (cost) => TOP + (1 - Math.log(cost / lo) / Math.log(hi / lo)) * (HEIGHT - TOP - BOTTOM);
    scale = {most, width};
    image.replaceChildren(...[axes(width, x, y, digested, most), level("baseline", data.baseline_us, width, y, digested),
      level("floor", data.floor_us, width, y, digested), svg("path", {class: "dots", d: dots(data.costs, x, y, hi)}),
      svg("path", {class: "best", d: line(steps, x, y, data.costs.length - 1)})].flat(Infinity).filter(Boolean));
  }

  image.addEventListener("pointermove", (event) => {
    if (!scale) return;
    const trial = Math.round(((event.offsetX - LEFT) / (scale.width - LEFT - RIGHT)) * scale.most), cost = data.costs[trial];
    readout.textContent = cost === undefined ? "" : `Trial ${trial + 1}: ${cost === null ? "failed" : text.time_us(cost)}`;
  });
  image.addEventListener("pointerleave", () => (readout.textContent = ""));
  return {host, update, resized: () => data && update(data)};
}

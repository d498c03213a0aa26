// SPDX-License-Identifier: Apache-2.0
// text.js: figures as people read them; an en dash where there is none.
import {h} from "./dom.js";

const none = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);
const digits = (value) => value.toLocaleString("en", {maximumSignificantDigits: Math.abs(value) >= 1000 ? 4 : 3});

function scaled(value, units, step) {
  if (!known(value)) return none;
  let i = 0;
  for (; Math.abs(value) >= step && i + 1 < units.length; i++) value /= step;
  return `${digits(value)} ${units[i]}`;
}

export const time_us = (us) => (known(us) && us < 1 ? `${digits(us * 1000)} ns` : scaled(us, ["µs", "ms", "s"], 1000));
export const bytes = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
export const amount = (n) => scaled(n, ["", "k", "M", "G", "T"], 1000).trim();
export const flops = (n) => scaled(n, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"], 1000);
export const whole = (n) => (known(n) ? n.toLocaleString("en") : none);
export const times = (ratio) => (known(ratio) ? `${ratio < 100 ? ratio.toPrecision(3) : digits(ratio)}×` : none);
export const ratio = (above, below) => (known(above) && known(below) && below > 0 ? above / below : null);
export const percent = (share) => (known(share) ? `${digits(share * 100)} %` : none);

export function duration(seconds) {
  if (!known(seconds)) return none;
  if (seconds < 60) return `${seconds < 10 && seconds % 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} days`;
}

// A moment as its distance from now, exactly in its title.
export function moment(iso) {
  if (!iso) return none;
  const date = new Date(iso), ago = (Date.now() - date) / 1000;
  const near = Math.abs(ago) < 60 ? "just now" : ago > 0 ? `${duration(Math.floor(ago / 60) * 60)} ago` : "soon";
  const text = ago > 86400 ? date.toLocaleDateString() : near.replace(" 0 s", "");
  return h("time", {datetime: iso, title: date.toLocaleString()}, text);
}

export const shape = (dims) => dims.map((dim) => (dim < 0 ? "N" : dim)).join("×") || "scalar";

// "min_repeat_ms" as "Min repeat (ms)".
export function title(name) {
  const unit = /_(s|ms|us|w|c|mhz|percent|bytes)$/.exec(name);
  const words = (unit ? name.slice(0, unit.index) : name).replaceAll("_", " ");
  const units = {us: "µs", w: "W", c: "°C", mhz: "MHz", percent: "%"};
  return words[0].toUpperCase() + words.slice(1) + (unit && unit[1] !== "bytes" ? ` (${units[unit[1]] || unit[1]})` : "");
}

// A workload's canonical text: what it is in front, the rest small.
export function workload(text) {
  const open = text.indexOf("(");
  return h("span", {class: "workload", title: text}, h("b", {}, open > 0 ? text.slice(0, open) : text),
    open > 0 ? text.slice(open) : "");
}

// [["tile", "ot", 261], …] as "tile 261, …".
export function knobs(entity) {
  return (Array.isArray(entity) ? entity : []).map((knob) =>
    Array.isArray(knob) ? `${knob[0]} ${[].concat(knob[knob.length - 1]).join("×")}` : String(knob)).join(", ");
}

// SPDX-License-Identifier: Apache-2.0
// devices.js: the workers, their devices, and what each is doing.
import {every, get} from "./api.js";
import {badge, empty, h, keyed} from "./dom.js";
import * as text from "./text.js";

export const title = "Devices";
const SILENT_S = 15;

function memory(device) {
  const used = device.now && device.now.memory_used_bytes, all = device.info && device.info.memory_bytes;
  if (!(used >= 0) || !all) return all ? text.bytes(all) : "–";
  return h("span", {}, h("meter", {min: 0, max: all, value: used, "aria-label": "Memory in use"}), ` ${text.bytes(used)} of ${text.bytes(all)}`);
}

// What has a line of its own is left out of the rest.
function figures(device) {
  const now = Object.entries(device.now || {}).filter(([name]) => name !== "memory_used_bytes");
  const info = device.info || {};
  return [["Architecture", info.arch], ["Units", info.units], ["Driver", info.driver], ["Compiler", info.compiler],
    ["Peak", info.peak_gflops > 0 && text.amount(info.peak_gflops * 1e9) + "FLOP/s"],
    ["Bandwidth", info.peak_gb_per_s > 0 && `${text.whole(info.peak_gb_per_s)} GB/s`], ["Memory", memory(device)],
    ...now.map(([name, value]) => [text.title(name), typeof value === "number" ? text.whole(value) : String(value)])]
    .filter(([, value]) => value);
}

function doing({doing}) {
  if (!doing) return h("p", {}, badge("idle"));
  return h("p", {}, badge("running", doing.work), " ", h("a", {href: `#/jobs/${doing.job_id}`}, `job ${doing.job_id.slice(0, 8)}`),
    doing.task >= 0 && `, task ${doing.task + 1}`, doing.lease_until && h("span", {class: "small"},
      " leased until ", h("time", {datetime: doing.lease_until}, new Date(doing.lease_until).toLocaleTimeString())));
}

function deviceCard(device) {
  return h("li", {class: "card"}, h("h3", {}, (device.info && device.info.name) || device.device_key),
    h("p", {class: "small"}, `${device.kind}:${device.ordinal} · ${device.device_key}`), doing(device),
    h("dl", {class: "facts"}, figures(device).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function workerSection(worker) {
  const silent = worker.silent_s > SILENT_S;
  const devices = h("ul", {class: "cards plain"});
  keyed(devices, worker.devices, (device) => `${device.kind}:${device.ordinal}`, deviceCard);
  return h("section", {}, h("h2", {}, `${worker.host}, process ${worker.pid} `,
    badge(silent ? "failed" : "succeeded", silent ? "silent" : "alive")),
  h("p", {class: "small"}, `Version ${worker.version}`, worker.key && `, label ${worker.key}`,
    `, last heard of ${text.duration(Math.round(worker.silent_s))} ago, started `, text.moment(worker.started_at)), devices);
}

export async function show(main, {signal, tell}) {
  const list = h("div"), none = empty("No workers", "Nothing can measure, so jobs wait. Start a worker on a machine with a GPU: " +
    "warptune worker --database-url …, or the server without --no-worker.");
  const look = async () => {
    const {workers} = await get("workers", {}, signal);
    keyed(list, workers, (worker) => worker.id, workerSection);
    none.hidden = workers.length > 0;
  };
  await look();
  main.replaceChildren(h("h1", {}, "Devices and workers"), none, list);
  await every(2, signal, look, tell);
}

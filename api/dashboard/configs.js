// SPDX-License-Identifier: Apache-2.0
// configs.js: the best configurations known: found by words, looked up for a workload on a device, exported.
import {get, path} from "./api.js";
import {badge, empty, framed, h, keyed, row, table} from "./dom.js";
import {fileLink} from "./files.js";
import {field, onSubmit} from "./forms.js";
import * as text from "./text.js";

export const title = "Configurations";
const MOST = 5000, PAGE = 500, SHOWN = 200;
const columns = ["Workload", {text: "Time", number: true}, {text: "Speed-up", number: true}, {text: "Kernel", tight: true},
  {text: "Device", wide: true}, {text: "Measured", wide: true}];
const matches = {
  exact: "Measured for this workload on this class of devices.", none: "Nothing is known that could serve.",
};

function details(config) {
  return h("details", {}, h("summary", {}, config.template), h("p", {class: "small knobs"}, text.knobs(config.entity)),
    h("p", {class: "small knobs"}, config.device_key, ". ", Object.entries(config.provenance || {}).map(([name, value]) => `${text.title(name)} ${value}`).join(", "),
      config.job_id && [" · ", h("a", {href: `#/jobs/${config.job_id}`}, "its job")]));
}

const configRow = (config) => row(columns, text.workload(config.workload), text.time_us(config.cost_us),
  text.times(text.ratio(config.baseline_us, config.cost_us)), details(config), config.device_key, text.moment(config.updated_at));

async function loadAll(signal) {
  const all = [];
  let cursor = null;
  do {
    const page = await get("configs", {limit: PAGE, cursor}, signal);
    all.push(...page.configs);
    cursor = page.next;
  } while (cursor && all.length < MOST);
  return {all, complete: !cursor};
}

const suggestions = (id, values) => h("datalist", {id}, [...new Set(values)].slice(0, SHOWN).map((value) => h("option", {value})));

function lookupForm(all, query, signal) {
  const answer = h("div", {"aria-live": "polite"});
  const workload = h("input", {value: query.get("workload"), autocomplete: "off", spellcheck: "false", list: "workloads"});
  const device = h("input", {value: query.get("device"), autocomplete: "off", spellcheck: "false", list: "devices"});
  const form = h("form", {class: "card lookup", novalidate: true}, h("h2", {}, "Look up"), h("div", {class: "grid"},
    field("workload", "Workload", workload, "Its canonical text, as tables here show it."),
    field("device", "Class of devices", device, "cpu/… or cuda/…")),
  suggestions("workloads", all.map((config) => config.workload)), suggestions("devices", all.map((config) => config.device_key)),
  h("div", {class: "actions"}, h("button", {class: "primary"}, "Look it up")), answer);
  onSubmit(form, async () => {
    answer.replaceChildren();
    const found = await get("configs/lookup", {workload: workload.value.trim(), device: device.value.trim()}, signal);
    answer.replaceChildren(h("p", {}, badge(found.match === "exact" ? "succeeded" : "paused", found.match), " ",
      found.note || matches[found.match] || ""), found.config ? table("Found", columns, h("tbody", {}, configRow(found.config))) : "");
  });
  if (query.get("workload") && query.get("device")) queueMicrotask(() => form.requestSubmit());
  return form;
}

const exportLinks = (tell) => [["Export (JSON)", "json", "jsonl"], ["Export (AutoTVM)", "autotvm", "log"]].map(
  ([label, format, ending]) => fileLink(label, path("configs/export", {format}), `configurations.${ending}`, tell));

export async function show(main, {query, signal, tell}) {
  const {all, complete} = await loadAll(signal);
  const haystack = all.map((config) => `${config.workload} ${config.device_key} ${config.template}`.toLowerCase());
  const body = h("tbody"), count = h("p", {class: "small", role: "status"});
  const words = h("input", {type: "search", input: () => draw(), autocomplete: "off", spellcheck: "false"});
  const draw = framed(() => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((_, i) => wanted.every((word) => haystack[i].includes(word)));
    keyed(body, found.slice(0, SHOWN), (config) => `${config.workload}|${config.device_key}`, configRow, (config) => config.updated_at);
    count.textContent = `${text.whole(found.length)} of ${text.whole(all.length)}${complete ? "" : ` (the first ${MOST}: export has all)`}` +
      (found.length > SHOWN ? `; the first ${SHOWN} are shown` : "");
  });
  const search = all.length
    ? h("section", {}, h("div", {class: "heading"}, h("h2", {}, "All"), exportLinks(tell)),
      field("words", "Search", words, "Words of the workload, the device or the kernel."), count, table("Configurations", columns, body))
    : empty("No configurations yet", "Each finished job leaves the best configuration of each of its workloads here, for all jobs to use.",
      h("a", {class: "button primary", href: "#/new"}, "Submit a job"));
  main.replaceChildren(h("h1", {}, "Configurations"), lookupForm(all, query, signal), search);
  draw();
}

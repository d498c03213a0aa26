// SPDX-License-Identifier: Apache-2.0
// jobs.js: all jobs, newest first, as they go.
import {every, get, modelName} from "./api.js";
import {badge, empty, h, keyed, row, table} from "./dom.js";
import * as text from "./text.js";

export const title = "Jobs";
const states = ["", "queued", "running", "paused", "succeeded", "failed", "cancelled"];
const columns = ["Model", "State", "Progress", {text: "Speed-up", number: true}, {text: "Device", wide: true},
  {text: "Tuner", wide: true}, "Submitted", {text: "Took", number: true, wide: true}];

export const link = (query, changes) => {
  const parameters = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  return `#/jobs${parameters.size ? `?${parameters}` : ""}`;
};

export function progress(done, planned, label) {
  return h("span", {class: "progress"}, h("progress", {value: done, max: planned || 1, "aria-label": label}),
    h("span", {}, planned ? `${text.whole(done)} / ${text.whole(planned)}` : "–"));
}

function jobRow(job) {
  const {trials_done, trials_planned} = job.progress;
  return row(columns, h("a", {href: `#/jobs/${job.id}`}, job.name), badge(job.state),
    progress(trials_done, trials_planned, "Trials"), text.times(job.result && job.result.speedup),
    job.device_key || job.device, job.options.tuner.name, text.moment(job.created_at), text.duration(job.elapsed_s));
}

function filters(query) {
  const current = query.get("state") || "";
  return h("nav", {class: "tabs", "aria-label": "Jobs by state"}, states.map((state) =>
    h("a", {href: link(query, {state, cursor: ""}), "aria-current": state === current ? "true" : null}, state || "all")));
}

const nothing = (query) => (query.size
  ? empty("No jobs here", "None is in this state, or on this page.", h("a", {class: "button", href: "#/jobs"}, "Show all jobs"))
  : empty("No jobs yet", "Upload a network as ONNX, then submit a job that tunes its layers.",
    h("a", {class: "button primary", href: "#/models"}, "Upload a model"),
    h("a", {class: "button", href: "#/new"}, "Submit a job")));

export async function show(main, {query, signal, tell}) {
  const body = h("tbody"), list = table("Jobs", columns, body), pages = h("nav", {class: "pages", "aria-label": "More jobs"});
  const none = nothing(query);
  const parameters = {limit: 50, state: query.get("state"), model_id: query.get("model_id"), cursor: query.get("cursor")};
  const look = async () => {
    const page = await get("jobs", parameters, signal);
    const names = await Promise.all(page.jobs.map((job) => modelName(job.model_id)));
    if (signal.aborted) return;
    keyed(body, page.jobs.map((job, i) => ({...job, name: names[i], minute: Math.floor(Date.now() / 60000)})),
      (job) => job.id, jobRow);
    keyed(pages, [query.get("cursor") && ["Newest", ""], page.next && ["Older", page.next]].filter(Boolean),
      ([name]) => name, ([name, cursor]) => h("a", {class: "button", href: link(query, {cursor})}, name));
    none.hidden = page.jobs.length > 0;
    list.hidden = !none.hidden;
  };
  await look(); // a first failure is the page's
  main.replaceChildren(h("h1", {}, "Jobs"), filters(query), none, list, pages);
  await every(2, signal, look, tell);
}

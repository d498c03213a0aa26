// SPDX-License-Identifier: Apache-2.0
// job.js: one job, followed by its events: what it is doing, each task's search, and what came of it.
import {get, modelName, path, post, throttled} from "./api.js";
import {chart} from "./chart.js";
import {alertBox, badge, framed, h, keyed, part, row, table} from "./dom.js";
import {fileLink} from "./files.js";
import {progress} from "./jobs.js";
import {layers} from "./layers.js";
import {follow} from "./sse.js";
import * as text from "./text.js";

export const title = "Job";
const LOG_LINES = 200;
const columns = ["Layer", {text: "Search", wide: true}, "Trials", {text: "Best", number: true}, {text: "Untuned", number: true},
  {text: "Floor", number: true, wide: true}, {text: "Speed-up", number: true}, "Errors"];
// Why a search stopped, in words.
const stops = {
  trials: "all trials done", early_stopping: "no better one for long", space_exhausted: "all were tried", budget: "budget spent",
  at_floor: "at the floor", cancelled: "cancelled", all_failed: "all failed", reused: "known already",
};
const moves = {
  queued: ["pause", "cancel"], running: ["pause", "cancel"], paused: ["resume", "cancel"],
  failed: ["retry"], cancelled: ["retry"], succeeded: [],
};
const files = [
  ["Module (.so)", "module", {format: "so"}, "so"], ["Module (.tar)", "module", {format: "tar"}, "tar"],
  ["Configurations", "config", {}, "json"], ["Records (JSON)", "records", {format: "json"}, "jsonl"],
  ["Records (AutoTVM)", "records", {format: "autotvm"}, "log"], ["Log", "log", {}, "txt"],
  ["Report (HTML)", "report", {format: "html"}, "html"], ["Report (Markdown)", "report", {format: "markdown"}, "md"],
];

const ended = (job) => ["succeeded", "failed", "cancelled"].includes(job.state);
const floorOf = (task) => (task.floor_s ? task.floor_s * 1e6 : null);

const linkTo = (job, [label, what, parameters, ending], tell) => fileLink(label, path(`jobs/${job.id}/${what}`, parameters),
  `${job.id.slice(0, 8)}-${what}.${ending}`, tell, ending === "html" || ending === "txt");

const isThere = (job) => ([, what]) =>
  (what !== "module" || job.module_so) && (what !== "report" || (ended(job) && job.progress.tasks > 0));

function errorCounts(task) {
  const kinds = Object.entries(task.errors).filter(([kind, count]) => kind !== "none" && count > 0);
  if (!kinds.length) return "none";
  return h("ul", {class: "plain"}, kinds.map(([kind, count]) =>
    h("li", {title: task.error_texts[kind] || null}, `${text.whole(count)} ${kind.replaceAll("_", " ")}`)));
}

function summary(job) {
  const facts = [["Device", job.device_key || job.device], ["Tuner", job.options.tuner.name],
    ["Precision", job.options.precision], ["Submitted", text.moment(job.created_at)], ["Took", text.duration(job.elapsed_s)],
    ["Tasks", job.progress.tasks ? `${job.progress.tasks_ended} of ${job.progress.tasks} done` : "not planned yet"]];
  return h("div", {}, job.error && h("div", {class: "alert"}, h("strong", {}, job.error.code), h("p", {}, job.error.text)),
    h("dl", {class: "facts"}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("div", {class: "overall"}, progress(job.progress.trials_done, job.progress.trials_planned, "Trials of all tasks")));
}

export async function show(main, {params: [id], signal, tell}) {
  let job = await get(`jobs/${encodeURIComponent(id)}`, {}, signal);
  let chosen = null, lastEvent = 0, tuning = 0, report = null, again = null;
  const trials = new Map(), log = []; // trials: by task, the time in µs of each, null where it failed
  const name = await modelName(job.model_id);
  document.title = `${name} · Warptune`;

  const state = h("span", {"aria-live": "polite"}), live = h("span", {class: "small", role: "status"});
  const actions = h("div", {class: "actions"}), head = h("section", {"aria-label": "Progress"});
  const results = h("section", {"aria-label": "Results"}), rows = h("tbody"), picture = chart(), what = h("h2");
  const lines = h("pre", {class: "log", tabindex: "0", "aria-label": "Last lines of the log"});
  const downloads = h("div", {class: "actions"});
  const search = h("section", {}, what, picture.host, table("Tasks", columns, rows));

  const tasks = () => job.tasks || [];
  const current = () => tasks()[chosen ?? tuning];

  function taskRow(task) {
    const choose = () => {
      chosen = task.number;
      draw();
    };
    return row(columns,
      h("div", {}, h("button", {type: "button", class: "link", click: choose, "aria-pressed": String(task.shown),
        title: "Show its trials"}, task.name || `task ${task.number + 1}`), task.count > 1 && ` ×${task.count}`,
      text.workload(task.workload)),
      badge(task.state, stops[task.stop_reason] || task.stop_reason || task.state),
      progress(task.trials_done, task.trials_planned, `Trials of ${task.name}`), text.time_us(task.best_us),
      text.time_us(task.baseline_us), text.time_us(floorOf(task)), text.times(text.ratio(task.baseline_us, task.best_us)),
      errorCounts(task));
  }

  function drawChart() {
    const task = current();
    search.hidden = !task;
    if (!task) return;
    what.textContent = `Trials of ${task.name || `task ${task.number + 1}`}`;
    picture.update({costs: trials.get(task.number) || [], baseline_us: task.baseline_us, floor_us: floorOf(task),
      planned: task.trials_planned});
  }

  const draw = framed(() => {
    if (signal.aborted) return;
    part(state, job.state, (value) => badge(value));
    keyed(actions, moves[job.state] || [], (verb) => verb, (verb) => h("button",
      {type: "button", class: verb === "cancel" ? "danger" : null, click: () => move(verb)}, text.title(verb)));
    part(head, {...job, tasks: null, last_event: 0}, summary);
    keyed(rows, tasks().map((task) => ({...task, shown: task === current()})), (task) => task.number, taskRow);
    keyed(downloads, files.filter(isThere(job)), ([label]) => label, (file) => linkTo(job, file, tell));
    part(results, report, (value) => (value ? layers(value) : h("span")));
    part(lines, log.join("\n"), (value) => h("span", {}, value));
    drawChart();
  });

  const refresh = throttled(1.5, signal, async () => {
    try {
      job = await get(`jobs/${id}`, {}, signal);
      if (ended(job) && job.progress.tasks && !report) report = await get(`jobs/${id}/report`, {}, signal);
      if (!ended(job)) report = null;
      tell(null);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status !== 409) tell(error); // 409: it ended without a result to report
    }
    draw();
  });

  async function move(verb) {
    try {
      await post(`jobs/${id}/${verb}`, undefined, signal);
      if (verb === "retry" && again) again();
      main.querySelector(".alert.passing")?.remove();
    } catch (error) {
      if (signal.aborted) return;
      main.querySelector(".alert.passing")?.remove();
      const box = alertBox(error);
      box.classList.add("passing");
      actions.after(box);
    }
    refresh();
  }

  const on = {
    trial({task, number, error_no, cost_us}) {
      if (!trials.has(task)) trials.set(task, []);
      trials.get(task)[number] = error_no === 0 && cost_us > 0 ? cost_us : null;
    },
    progress(data) {
      tuning = data.task;
      const task = tasks()[data.task];
      if (task && !ended(job) && data.trials_done >= task.trials_done)
        for (const field of ["trials_done", "trials_planned", "best_us", "baseline_us", "state", "stop_reason"])
          task[field] = data[field] ?? task[field];
      refresh();
    },
    state: () => refresh(),
    end: () => refresh(),
    log: (data) => log.push(data.text) > LOG_LINES && log.shift(),
  };
  const onEvent = (event, data, number) => {
    lastEvent = Number(number) || lastEvent;
    on[event]?.(data);
    draw();
  };
  const onState = (value) => {
    live.textContent = value === "live" ? "live" : "connection lost, coming again…";
  };

  main.replaceChildren(h("div", {class: "heading"}, h("h1", {}, name), state, live), actions, head, results, search,
    h("section", {}, h("h2", {}, "Files"), downloads), h("details", {}, h("summary", {}, "Log"), lines));
  const observer = new ResizeObserver(framed(picture.resized));
  observer.observe(picture.host);
  signal.addEventListener("abort", () => observer.disconnect());
  draw();
  while (!signal.aborted) {
    await follow(path(`jobs/${id}/events`, {after: lastEvent}), {signal, onEvent, onState});
    live.textContent = "";
    await new Promise((resolve) => (again = resolve)); // an ended job may be taken up again
  }
}

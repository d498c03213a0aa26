// SPDX-License-Identifier: Apache-2.0
// model.js: one network: what it takes and gives, its tasks, and the best that is known for each.
import {get} from "./api.js";
import {alertBox, h, row, table} from "./dom.js";
import * as text from "./text.js";

export const title = "Model";
const columns = ["Task", {text: "Work", number: true}, {text: "Traffic", number: true, wide: true},
  {text: "Best known", number: true}, {text: "Kernel", tight: true}, {text: "Device", wide: true}];

const tensors = (list) => list.map(({name, dtype, shape}) => `${name}: ${dtype} ${text.shape(shape)}`).join(", ");

function taskRow(task) {
  const {best} = task;
  const lookup = new URLSearchParams({workload: task.workload, device: best ? best.device_key : ""});
  return row(columns, h("div", {}, task.name, task.count > 1 && ` ×${task.count}`, text.workload(task.workload)),
    text.flops(task.flops), text.bytes(task.bytes), text.time_us(best && best.cost_us),
    best && h("a", {href: `#/configs?${lookup}`, title: text.knobs(best.entity)}, best.template), best && best.device_key);
}

export async function show(main, {params: [id], signal}) {
  const model = await get(`models/${encodeURIComponent(id)}`, {}, signal);
  document.title = `${model.name} · Warptune`;
  const facts = [["Inputs", tensors(model.inputs)], ["Outputs", tensors(model.outputs)],
    ["Parameters", text.amount(model.parameters)], ["Work", text.flops(model.flops)], ["Size", text.bytes(model.bytes)],
    ["Operators", model.operators.map(({name, count}) => `${count} ${name}`).join(", ")]];
  const place = h("section", {"aria-busy": "true"}, h("p", {class: "small"}, "Looking for what is known of its tasks…"));
  main.replaceChildren(h("div", {class: "heading"}, h("h1", {}, model.name)), h("div", {class: "actions"},
    h("a", {class: "button primary", href: `#/new?model=${model.id}`}, "Tune it"),
    h("a", {class: "button", href: `#/jobs?model_id=${model.id}`}, "Its jobs")),
  h("dl", {class: "facts"}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))), place);
  try {
    const {tasks} = await get(`models/${model.id}/tasks`, {}, signal);
    place.replaceChildren(table("Tasks", columns, h("tbody", {}, tasks.map(taskRow))));
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(alertBox(error));
  }
  place.removeAttribute("aria-busy");
}

// SPDX-License-Identifier: Apache-2.0
// new_job.js: the form for a job. Its fields are those of the server's own description of a job, so that whatever a job
// can ask for can be asked for here; what is left empty is the server's default.
import {get, post, schema} from "./api.js";
import {empty, h} from "./dom.js";
import {field, onSubmit} from "./forms.js";
import * as text from "./text.js";

export const title = "New job";
const first = ["model_id", "device", "precision", "objective", "tuner.name", "tuner.trials", "budget_s"];
const labels = {
  model_id: "Model", "tuner.name": "Tuner", "tuner.trials": "Trials", budget_s: "Budget (s)", key: "Worker label",
  labels: "Labels", reuse: "Reuse", "measure.number": "Runs a sample", "measure.repeat": "Samples",
};

// The properties of the description, those of objects inside by their path: [["tuner.trials", schema], …].
function flatten(document_, object, prefix = "") {
  return Object.entries(object.properties || {}).flatMap(([name, given]) => {
    const property = given.$ref ? document_.components.schemas[given.$ref.split("/").pop()] : given;
    return property.properties ? flatten(document_, property, `${prefix}${name}.`) : [[prefix + name, property]];
  });
}

const choicesOf = (property) => property.enum || (property.type === "boolean" ? [true, false] : null) ||
  (property.anyOf ? property.anyOf.flatMap((one) => ("const" in one ? [one.const] : choicesOf(one) || [])) : null);

// An input, which `read` makes a JSON value of; text that is no number goes as it is, for the server to name.
const toNumber = (typed) => (Number.isFinite(Number(typed)) ? Number(typed) : typed);
const toPairs = (typed) => Object.fromEntries(typed.split(",").filter((pair) => pair.trim()).map((pair) => {
  const [name, ...value] = pair.split("=");
  return [name.trim(), value.join("=").trim()];
}));

function control(property) {
  const choices = choicesOf(property), type = [].concat(property.type)[0], standard = property.default;
  if (choices && type !== "number" && choices.length)
    return {read: JSON.parse, input: h("select", {}, h("option", {value: ""}, standard === undefined ? "default" : `${standard} (default)`),
      choices.filter((choice) => choice !== standard).map((choice) => h("option", {value: JSON.stringify(choice)}, String(choice))))};
  if (type === "object")
    return {read: toPairs, hint: "name=value, name=value", input: h("input", {spellcheck: "false", autocomplete: "off"})};
  const numeric = type === "integer" || type === "number";
  return {read: numeric ? toNumber : String, input: h("input", {inputmode: numeric ? "decimal" : null, autocomplete: "off",
    spellcheck: "false", placeholder: standard === undefined || standard === "" ? null : String(standard)})};
}

function modelChoice(models, chosen) {
  return {read: String, input: h("select", {}, models.map((model) =>
    h("option", {value: model.id, selected: model.id === chosen}, model.name)))};
}

// {"tuner.trials": 5} as {tuner: {trials: 5}}.
function nest(values) {
  const body = {};
  for (const [path, value] of values) {
    const names = path.split("."), last = names.pop();
    names.reduce((object, name) => (object[name] ||= {}), body)[last] = value;
  }
  return body;
}

export async function show(main, {query, signal}) {
  const [document_, {models}] = await Promise.all([schema(), get("models", {limit: 500}, signal)]);
  if (signal.aborted) return;
  if (!models.length) {
    main.replaceChildren(h("h1", {}, "New job"), empty("No models yet", "A job tunes the layers of a network: upload one first.",
      h("a", {class: "button primary", href: "#/models"}, "Upload a model")));
    return;
  }
  const controls = new Map(flatten(document_, document_.components.schemas.JobRequest).map(([name, property]) => {
    const made = name === "model_id" ? modelChoice(models, query.get("model")) : control(property);
    const label = labels[name] || text.title(name.replace(/^.*\./, "")), about = (property.description || "").replaceAll("`", "");
    const hint = [made.hint, about === `${label}.` ? "" : about].filter(Boolean).join(". ");
    return [name, {...made, box: field(name, label, made.input, hint)}];
  }));
  const boxes = (names) => names.filter((name) => controls.has(name)).map((name) => controls.get(name).box);
  const others = [...controls.keys()].filter((name) => !first.includes(name));
  const group = (legend, names) => names.length && h("fieldset", {}, h("legend", {}, legend), h("div", {class: "grid"}, boxes(names)));
  const of = (prefix) => others.filter((name) => (prefix ? name.startsWith(prefix) : !name.includes(".")));
  const form = h("form", {class: "card", novalidate: true}, h("div", {class: "grid"}, boxes(first)),
    h("details", {}, h("summary", {}, "More options"), group("Job", of("")), group("Search", of("tuner.")), group("Measurement", of("measure."))),
    h("div", {class: "actions"}, h("button", {class: "primary"}, "Submit the job")));
  onSubmit(form, async () => {
    const given = [...controls].filter(([, {input}]) => input.value.trim() !== "");
    const job = await post("jobs", nest(given.map(([name, {input, read}]) => [name, read(input.value.trim())])), signal);
    location.hash = `#/jobs/${job.id}`;
  });
  main.replaceChildren(h("h1", {}, "New job"), form);
}

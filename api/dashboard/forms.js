// SPDX-License-Identifier: Apache-2.0
// forms.js: fields with their label, hint and error, named as the server names them in a problem document.
import {alertBox, h} from "./dom.js";

// `input` gets its name, id and descriptions here.
export function field(name, label, input, hint) {
  const id = `field-${name.replaceAll(".", "-")}`;
  for (const [attribute, value] of [["name", name], ["id", id], ["aria-describedby", `${id}-error ${id}-hint`]])
    input.setAttribute(attribute, value);
  return h("div", {class: "field"}, h("label", {for: id}, label), input,
    h("p", {class: "error", id: `${id}-error`}), h("p", {class: "small", id: `${id}-hint`}, hint || ""));
}

export function clearErrors(form) {
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    document.getElementById(`${input.id}-error`).textContent = "";
  }
  form.querySelector(".alert")?.remove();
}

// Beside the field that the problem names, or that it is inside of; else at the end of the form.
export function showError(form, error) {
  const problem = error.problem, at = (problem && problem.field) || "";
  const inputs = [...form.elements].filter((input) => input.name && (at === input.name || at.startsWith(`${input.name}.`)));
  const input = inputs.find((candidate) => candidate.name === at) || inputs[0];
  if (!input) {
    form.append(alertBox(error));
    return;
  }
  const folded = input.closest("details");
  if (folded) folded.open = true;
  input.setAttribute("aria-invalid", "true");
  document.getElementById(`${input.id}-error`).textContent = problem.detail;
  input.focus();
}

// Runs `send` when the form is submitted, with its button off meanwhile.
export function onSubmit(form, send) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button.primary");
    clearErrors(form);
    button.disabled = true;
    try {
      await send();
    } catch (error) {
      if (error.name !== "AbortError") showError(form, error);
    } finally {
      button.disabled = false;
    }
  });
}

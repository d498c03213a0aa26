// SPDX-License-Identifier: Apache-2.0
// dom.js: makes elements. Data only ever becomes text or an attribute, never markup.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// h("a", {href: "#/jobs", click: () => …}, "text", anotherElement): functions are listeners, true an empty attribute.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// A function that calls `draw` once in the next frame, however often it is called until then.
export function framed(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// Makes the children of `parent` those of `items`, in their order. `make` runs only for an item that is new or that
// `stateOf` tells from before, so that what has not changed keeps its focus, selection and open details.
export function keyed(parent, items, keyOf, make, stateOf = JSON.stringify) {
  const before = new Map([...parent.children].map((node) => [node.key, node]));
  const nodes = items.map((item) => {
    const key = keyOf(item), state = stateOf(item), old = before.get(key);
    if (old && old.state === state) return old;
    const node = Object.assign(make(item), {key, state});
    if (old && old.contains(document.activeElement))
      queueMicrotask(() => (node.querySelector("a, button") || node).focus());
    return node;
  });
  if (nodes.length !== parent.children.length || nodes.some((node, i) => parent.children[i] !== node))
    parent.replaceChildren(...nodes);
}

// The same for a part of the page that depends on `state` alone.
export function part(parent, state, make) {
  keyed(parent, [state], () => "part", make);
}

// A table that scrolls sideways by itself where the window is narrow. Columns: texts, or {text, number, wide, tight}:
// digits that line up, what a narrow window leaves out, what does not wrap.
export function table(caption, columns, body = h("tbody")) {
  const heads = columns.map((column) => h("th", {scope: "col", class: cell(column)}, column.text ?? column));
  return h("div", {class: "scroll", role: "region", "aria-label": caption, tabindex: "0"},
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body));
}

// The cells of a row of such a table; the first is its header.
export function row(columns, ...cells) {
  return h("tr", {}, cells.map((content, i) =>
    h(i ? "td" : "th", {scope: i ? null : "row", class: cell(columns[i])}, content ?? "–")));
}

const cell = (column) => ["number", "wide", "tight"].filter((name) => column[name]).join(" ") || null;

// What there is to do where there is nothing yet.
export function empty(title, text, ...actions) {
  return h("div", {class: "empty"}, h("h2", {}, title), h("p", {}, text), h("div", {class: "actions"}, actions));
}

export function badge(state, text = state) {
  return h("span", {class: `badge ${String(state).replace(/[^a-z-]/g, "")}`}, text);
}

export function alertBox(error, again) {
  const problem = error.problem;
  return h("div", {class: "alert", role: "alert"},
    h("strong", {}, problem ? problem.title : "It did not work"), h("p", {}, problem ? problem.detail : error.message),
    problem && problem.request_id && h("p", {class: "small"}, `Request ${problem.request_id}`),
    again && h("button", {type: "button", click: again}, "Try again"));
}

// Asks before something that cannot be taken back; resolves to whether to go on.
export function ask(question, verb) {
  return new Promise((resolve) => {
    const dialog = h("dialog", {"aria-label": question},
      h("form", {method: "dialog"}, h("p", {}, question), h("div", {class: "actions"},
        h("button", {class: "danger", value: "yes"}, verb), h("button", {value: "", autofocus: true}, "Keep it"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

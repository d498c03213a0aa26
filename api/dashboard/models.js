// SPDX-License-Identifier: Apache-2.0
// models.js: the uploaded networks, and the uploading of more.
import {get, remove, upload} from "./api.js";
import {alertBox, ask, empty, h, keyed, row, table} from "./dom.js";
import * as text from "./text.js";

export const title = "Models";
const columns = ["Name", {text: "Size", number: true}, {text: "Operators", number: true, wide: true},
  {text: "Tasks", number: true}, {text: "Work", number: true, wide: true}, {text: "Uploaded", wide: true}, "Actions"];

// One file on its way: a bar until it is sent, then the server reads it.
async function sendFile(file, list, signal, reload) {
  const bar = h("progress", {max: 1, value: 0, "aria-label": `Upload of ${file.name}`}), state = h("span", {class: "small"}, "sending");
  const item = h("li", {}, h("span", {}, file.name), " ", bar, " ", state);
  list.append(item);
  try {
    const {model, created} = await upload(file, (share) => {
      bar.value = share;
      if (share < 1) return;
      bar.removeAttribute("value"); // no telling how long
      state.textContent = "the server reads it";
    }, signal);
    item.replaceChildren(h("a", {href: `#/models/${model.id}`}, model.name),
      created ? " is uploaded. " : " was there already: the same bytes. ", h("a", {href: `#/new?model=${model.id}`}, "Tune it"));
    await reload();
  } catch (error) {
    if (!signal.aborted) item.replaceChildren(h("span", {}, `${file.name} was refused.`), alertBox(error));
  }
}

function dropZone(send) {
  const input = h("input", {type: "file", accept: ".onnx", multiple: true, id: "file", change: () => {
    send([...input.files]);
    input.value = "";
  }});
  const over = (on) => (event) => {
    event.preventDefault();
    zone.classList.toggle("over", on);
  };
  const zone = h("div", {class: "drop", dragenter: over(true), dragover: over(true), dragleave: over(false), drop: (event) => {
    over(false)(event);
    send([...event.dataTransfer.files]);
  }}, h("label", {for: "file"}, "Upload networks (.onnx)"), input, h("p", {class: "small"}, "or drop the files here"));
  return zone;
}

export async function show(main, {query, signal, tell}) {
  const body = h("tbody"), list = table("Models", columns, body), more = h("nav", {class: "pages", "aria-label": "More models"});
  const uploads = h("ul", {class: "uploads plain", "aria-live": "polite"});
  const none = empty("No models yet", "Choose an ONNX file above. Its layers become tasks that can be tuned.");
  const cursor = query.get("cursor");

  const drop = async (model) => {
    if (!(await ask(`Delete ${model.name}? Its jobs and configurations stay.`, "Delete"))) return;
    try {
      await remove(`models/${model.id}`);
      await reload();
    } catch (error) {
      uploads.append(h("li", {}, alertBox(error)));
    }
  };
  const modelRow = (model) => row(columns, h("a", {href: `#/models/${model.id}`}, model.name), text.bytes(model.bytes),
    text.whole(model.operators.reduce((sum, {count}) => sum + count, 0)), text.whole(model.tasks.length),
    text.flops(model.flops), text.moment(model.created_at),
    h("div", {class: "actions"}, h("a", {class: "button", href: `#/new?model=${model.id}`, "aria-label": `Tune ${model.name}`}, "Tune"),
      h("button", {type: "button", class: "danger", click: () => drop(model), "aria-label": `Delete ${model.name}`}, "Delete")));
  const reload = async () => {
    const page = await get("models", {limit: 50, cursor}, signal);
    keyed(body, page.models, (model) => model.id, modelRow, (model) => model.id);
    more.replaceChildren(...[cursor && h("a", {class: "button", href: "#/models"}, "Newest"),
      page.next && h("a", {class: "button", href: `#/models?cursor=${encodeURIComponent(page.next)}`}, "Older")].filter(Boolean));
    none.hidden = page.models.length > 0;
    list.hidden = !none.hidden;
  };
  const send = async (files) => {
    for (const file of files) await sendFile(file, uploads, signal, () => reload().catch((error) => tell(error, false)));
  };

  await reload();
  main.replaceChildren(h("h1", {}, "Models"), dropZone(send), uploads, none, list, more);
}

// SPDX-License-Identifier: Apache-2.0
// files.js: links to files. A link by itself cannot carry the token: with one, the file is fetched and then saved.
import {request, token} from "./api.js";
import {h} from "./dom.js";

async function save(href, name) {
  const url = URL.createObjectURL(await (await request(href)).blob());
  const link = h("a", {href: url, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// `opens`: in a tab of its own, where that needs no token. `tell` hears what went wrong.
export function fileLink(label, href, name, tell, opens = false) {
  const click = (event) => {
    if (!token()) return;
    event.preventDefault();
    save(href, name).catch((error) => tell(error, false));
  };
  return h("a", {class: "button", href, click, download: opens ? null : name, target: opens ? "_blank" : null, rel: "noopener"}, label);
}

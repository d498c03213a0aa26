// SPDX-License-Identifier: Apache-2.0
// app.js: which page shows (the address after '#'), and signing in.
import {events, setToken, token} from "./api.js";
import {alertBox, h} from "./dom.js";
import * as configs from "./configs.js";
import * as devices from "./devices.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as model from "./model.js";
import * as models from "./models.js";
import * as newJob from "./new_job.js";

// A page: title, and show(main, {params, query, signal, tell}), which fills `main`. `signal` ends all that it began;
// `tell` shows an error, null takes it away; `again` says that the page goes on trying.
const routes = [
  [/^\/jobs$/, jobs], [/^\/jobs\/([^/]+)$/, job], [/^\/models$/, models], [/^\/models\/([^/]+)$/, model],
  [/^\/new$/, newJob], [/^\/configs$/, configs], [/^\/devices$/, devices],
];
const main = document.getElementById("main"), notice = document.getElementById("notice");
let leave = new AbortController();

function tell(error, again = true) {
  notice.hidden = !error;
  notice.textContent = error ? `${error.message}${again ? " Trying again…" : ""}` : "";
}

function markCurrent(path) {
  for (const link of document.querySelectorAll("header a")) {
    const to = link.getAttribute("href").slice(1);
    if (path === to || path.startsWith(`${to}/`)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function find(path) {
  for (const [pattern, page] of routes) {
    const match = pattern.exec(path);
    if (match) return {page, params: match.slice(1).map(decodeURIComponent)};
  }
  return null;
}

async function show() {
  const [path, search] = (location.hash.slice(1) || "/jobs").split("?", 2), found = find(path);
  leave.abort();
  leave = new AbortController();
  const {signal} = leave;
  tell(null);
  markCurrent(path);
  main.replaceChildren();
  document.title = `${found ? found.page.title : "Not found"} · Warptune`;
  if (!found) {
    main.replaceChildren(h("h1", {}, "Not found"), h("p", {}, "There is no such page. ", h("a", {href: "#/jobs"}, "All jobs")));
    return;
  }
  try {
    await found.page.show(main, {params: found.params, query: new URLSearchParams(search), signal, tell});
  } catch (error) {
    if (signal.aborted) return;
    if (!(error.status >= 0)) reportError(error); // our own mistake, no answer of the server's
    main.replaceChildren(h("h1", {}, found.page.title), alertBox(error, show));
  }
}

// ---- signing in ----

const dialog = document.getElementById("sign-in"), input = document.getElementById("sign-in-token");
const button = document.getElementById("token");

function openSignIn(why) {
  if (dialog.open) return;
  document.getElementById("sign-in-error").textContent = why;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
}

function showToken() {
  button.textContent = token() ? "Signed in" : "Sign in";
}

dialog.addEventListener("close", () => {
  const typed = input.value.trim();
  input.value = "";
  if (dialog.returnValue === "use" && typed) setToken(typed);
  else if (dialog.returnValue === "forget") setToken("");
  else return;
  showToken();
  show();
});
button.addEventListener("click", () => openSignIn(""));
events.addEventListener("unauthorized", () =>
  openSignIn(token() ? "The server does not take this token any more." : "This server asks for a token."));

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the page's
  main.focus();
});
addEventListener("hashchange", () => {
  scrollTo(0, 0);
  main.focus({preventScroll: true});
  show();
});
showToken();
show();

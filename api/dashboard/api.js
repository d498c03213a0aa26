// SPDX-License-Identifier: Apache-2.0
// api.js: requests to /v1 with the token of this tab; errors carry the server's problem document.

const KEY = "warptune.token";
export const events = new EventTarget(); // "unauthorized": a token is needed, or the one there is does not do

export const token = () => sessionStorage.getItem(KEY) || "";

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

export const authorization = () => (token() ? {Authorization: `Bearer ${token()}`} : {});

export class RequestError extends Error {
  constructor(status, problem, text) {
    super(problem ? problem.detail : text);
    this.status = status;
    this.problem = problem;
  }
}

// The error of an answer whose body was `text`.
export function refusal(status, text) {
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    // No problem document: a proxy's answer, for example.
  }
  if (status === 401) events.dispatchEvent(new Event("unauthorized"));
  const isProblem = problem && typeof problem.detail === "string";
  return new RequestError(status, isProblem ? problem : null, `The server answered with status ${status}.`);
}

// fetch, for answers that are good: others are thrown, and so is a server that cannot be reached.
export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: {...authorization(), ...options.headers}});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(0, null, "The server cannot be reached.");
  }
  if (!response.ok) throw refusal(response.status, await response.text());
  return response;
}

const query = (parameters) => {
  const given = Object.entries(parameters || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

export const path = (route, parameters) => `/v1/${route}${query(parameters)}`;

export async function get(route, parameters, signal) {
  return (await request(path(route, parameters), {signal})).json();
}

export async function post(route, body, signal) {
  const json = body === undefined ? {} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
  return (await request(path(route), {method: "POST", signal, ...json})).json();
}

export const remove = (route) => request(path(route), {method: "DELETE"});

// What bodies of requests may hold, as the server itself describes it.
let document_;
export const schema = () =>
  (document_ ||= request("/openapi.json").then((response) => response.json()).catch((error) => {
    document_ = undefined;
    throw error;
  }));

// The models' names by id, each asked for once; a deleted one is known by its id.
const names = new Map();
export function modelName(id) {
  if (!names.has(id))
    names.set(id, get(`models/${id}`).then((model) => model.name, (error) => {
      if (error.status !== 404) names.delete(id);
      return id.slice(0, 8);
    }));
  return names.get(id);
}

// Uploads a file, telling how much has been sent (fetch does not): onProgress(0 to 1).
export function upload(file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open("POST", path("models", {name: file.name.replace(/\.onnx$/i, "") || "model"}));
    for (const [name, value] of Object.entries(authorization())) xhr.setRequestHeader(name, value);
    xhr.setRequestHeader("Content-Type", "application/octet-stream");
    xhr.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    xhr.onload = () => (xhr.status < 300 ? resolve({model: JSON.parse(xhr.responseText), created: xhr.status === 201})
      : reject(refusal(xhr.status, xhr.responseText)));
    xhr.onerror = () => reject(new RequestError(0, null, "The server cannot be reached."));
    signal.addEventListener("abort", () => xhr.abort());
    xhr.send(file);
  });
}

export function sleep(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, {once: true});
  });
}

// Runs `look` now and then every so often, while the page is there and can be seen. `tell` hears of each error, and of
// null once it goes well again; but a token that is missing ends it.
export async function every(seconds, signal, look, tell) {
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        await look();
        tell(null);
      } catch (error) {
        if (error.status === 401) throw error;
        if (!signal.aborted) tell(error);
      }
    }
    await sleep(seconds, signal);
  }
}

// A function that has `run` called soon, but never twice at a time nor within so many seconds.
export function throttled(seconds, signal, run) {
  let asked = false, busy = false;
  return async () => {
    asked = true;
    if (busy) return;
    busy = true;
    while (asked && !signal.aborted) {
      asked = false;
      await run();
      await sleep(seconds, signal);
    }
    busy = false;
  };
}

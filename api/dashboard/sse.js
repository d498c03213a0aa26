// SPDX-License-Identifier: Apache-2.0
// sse.js: server-sent events over fetch, because EventSource cannot send a token. Comes again after a cut, with
// Last-Event-ID, so that no event is missed and none comes twice.
import {request, sleep} from "./api.js";

// Cuts text that comes in pieces into events {id, event, data}; `onRetry` hears the server's wish in ms.
export function parser(onEvent, onRetry) {
  let rest = "", id = "", event = "", data = [];
  const line = (text) => {
    if (text === "") {
      if (data.length) onEvent({id, event: event || "message", data: data.join("\n")});
      event = "";
      data = [];
      return;
    }
    const colon = text.indexOf(":"), name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
    else if (name === "id" && !value.includes("\0")) id = value;
    else if (name === "retry" && /^\d+$/.test(value)) onRetry(Number(value));
  };
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/); // a CR at the end may be half of a line's end
    rest = lines.pop();
    lines.forEach(line);
  };
}

async function read(response, feed) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    feed(value);
  }
}

// What no second try changes.
const isFinal = (error) => error.status >= 400 && error.status < 500 && ![408, 429].includes(error.status);

// Follows until the event "end"; onEvent(name, data, id), onState("live" or "waiting"). Throws what no retry helps.
export async function follow(path, {signal, onEvent, onState}) {
  let last = "", retry = 1000, ended = false;
  const deliver = ({id, event, data}) => {
    if (id) last = id;
    ended ||= event === "end";
    try {
      onEvent(event, JSON.parse(data), id);
    } catch (error) {
      reportError(error); // a mistake of the page's, which coming again would hide
    }
  };
  while (!signal.aborted && !ended) {
    try {
      const headers = {Accept: "text/event-stream", ...(last && {"Last-Event-ID": last})};
      const response = await request(path, {headers, signal, cache: "no-store"});
      onState("live");
      await read(response, parser(deliver, (ms) => (retry = ms)));
    } catch (error) {
      if (signal.aborted) return;
      if (isFinal(error)) throw error;
    }
    if (ended || signal.aborted) return;
    onState("waiting");
    await sleep(retry / 1000, signal);
  }
}

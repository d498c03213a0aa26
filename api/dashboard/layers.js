// SPDX-License-Identifier: Apache-2.0
// layers.js: what came of a job: the network's latency, and each layer beside the untuned kernel and the floor.
import {h, row, table} from "./dom.js";
import * as text from "./text.js";

const columns = ["Layer", {text: "Ours", number: true}, {text: "Untuned", number: true}, {text: "Floor", number: true},
  {text: "Speed-up", number: true}, {text: "Of the floor", number: true}, {text: "Share", number: true, wide: true},
  {text: "Kernel", wide: true, tight: true}];

const layerRow = (layer) => row(columns,
  h("div", {}, layer.name || `layer ${layer.number + 1}`, layer.count > 1 && ` ×${layer.count}`, text.workload(layer.workload)),
  text.time_us(layer.ours_us), text.time_us(layer.baseline_us), text.time_us(layer.floor_us), text.times(layer.speedup),
  text.times(layer.floor_ratio), text.percent(layer.share),
  layer.template && h("div", {}, layer.template, h("div", {class: "small knobs"}, text.knobs(layer.knobs))));

export function layers(report) {
  const {network} = report;
  const figures = [["Latency, median", text.time_us(network.latency.p50_us), `untuned ${text.time_us(network.baseline.p50_us)}`],
    ["Speed-up", text.times(network.speedup), "median against median"],
    ["Latency, 99 of 100", text.time_us(network.latency.p99_us), `untuned ${text.time_us(network.baseline.p99_us)}`],
    ["Throughput", text.amount(network.samples_per_s), `samples a second, batch ${network.batch ?? "–"}`],
    ["Error", network.relative_error?.toExponential(1) ?? "–", "relative, against the reference"]];
  return h("div", {}, h("h2", {}, "Result"),
    h("dl", {class: "figures"}, figures.map(([name, value, note]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("span", {class: "small"}, note))))),
    table("Layers", columns, h("tbody", {}, report.layers.map(layerRow))));
}

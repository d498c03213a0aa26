// SPDX-License-Identifier: Apache-2.0
// dashboard_checks.js: texts that are hard to read: whose contrast to what is behind them is below `least` (WCAG 2.1).
const rgba = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return {r, g, b, a};
};
const over = (top, below) => ({
  r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1,
});
const luminance = ({r, g, b}) => {
  const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
function behind(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
  return layers.reduceRight((below, layer) => over(layer, below), {r: 255, g: 255, b: 255, a: 1});
}
function faintTexts(least) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, :disabled")) continue;
    const style = getComputedStyle(element), ground = behind(element);
    const ink = over(rgba(element instanceof SVGElement ? style.fill : style.color), ground);
    const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least) found.push(`${walker.currentNode.data.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}

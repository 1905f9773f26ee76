// The keys and the prefixes with the most gets.

import { byId, element, number, percent, replace } from "./format.js";
import { row, table } from "./memory.js";

export function showHotKeys(hotKeys) {
  byId("hot-keys-words").textContent = sentence(hotKeys);
  byId("hot-keys-tables").hidden = !hotKeys.enabled;
  // Clients choose the keys, so a key is only shown as a text, never as a part of the page.
  const rows = (entries) => entries.map((it) => row([
    element("code", {}, it.name), percent(it.get_share), percent(it.get_share - it.get_share_error),
  ], [0]));
  const show = (id, head, entries) => replace(id, entries.length > 0
    ? table([head, "Share of gets", "At least"], rows(entries), [0])
    : element("p", { class: "muted" }, "None has a large share of the gets."));
  show("hot-keys", "Key", hotKeys.keys);
  show("hot-prefixes", "Prefix", hotKeys.prefixes);
}

function sentence(hotKeys) {
  if (!hotKeys.enabled) return `Keys are not sampled. To see hot keys, ${hotKeys.remedy}.`;
  const dropped = hotKeys.samples_dropped > 0 ? ` ${number(hotKeys.samples_dropped)} more did not fit into the memory for samples.` : "";
  return `The server has sampled ${number(hotKeys.samples)} gets. Old samples count less.${dropped}`;
}

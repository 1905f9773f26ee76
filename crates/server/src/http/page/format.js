// Numbers and times as text, and small helpers to make elements.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit < UNITS.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count.toFixed(0) : digits(count, 3)} ${UNITS[unit]}`;
}

// Writes a number with this many digits, and with all digits before the decimal point.
function digits(value, count) {
  const before = value === 0 ? 1 : Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.max(0, count - Math.max(1, before)));
}

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${digits(value / 1e9, 3)} G`;
  if (size >= 1e6) return `${digits(value / 1e6, 3)} M`;
  if (size >= 1e4) return `${digits(value / 1e3, 3)} k`;
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return digits(value, 2);
}

export function percent(share, places = 1) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  return `${(100 * share).toFixed(places)} %`;
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e3) return `${digits(value, 3)} µs`;
  return value < 1e6 ? `${digits(value / 1e3, 3)} ms` : `${digits(value / 1e6, 3)} s`;
}

export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

// Makes an element with properties and children. The children are elements or texts.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

// Replaces the children of the element, but keeps its scroll position.
export function replace(id, ...children) {
  const target = byId(id);
  const { scrollTop, scrollLeft } = target;
  target.replaceChildren(...children);
  Object.assign(target, { scrollTop, scrollLeft });
}

let colours = new Map();

// Sets the colours of the classes: from blue for the smallest chunks to red for the largest, alternately dark and light.
export function setClassColours(classes) {
  const bySize = classes.toSorted((a, b) => a.chunk_size_bytes - b.chunk_size_bytes);
  colours = new Map(bySize.map((it, rank) => {
    const hue = 235 - (235 * rank) / Math.max(1, bySize.length - 1);
    return [it.class, `hsl(${hue.toFixed(0)} 70% ${rank % 2 ? 64 : 44}%)`];
  }));
}

export function classColour(number) {
  return colours.get(number) ?? "transparent";
}

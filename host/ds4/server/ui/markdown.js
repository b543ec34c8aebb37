// What models write, as elements: headings, lists, quotes, tables, code, emphasis, links. Text reaches the page as text
// nodes only; the one attribute that comes from a model is a link's address, which must be http or https.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const SPLIT = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*(\S(?:[\s\S]*?\S)?)\*\*|\*(\S(?:[^*]*?\S)?)\*|\[([^\]\n]*)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>()"'`*]+[^\s<>()"'`*.,;:!?])/g;

export function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Blocks of a text, each {kind, lines, …}. A block that more text can still change is the last one.
export function blocks(text) {
  const lines = text.split("\n");
  const found = [];
  let at = 0;
  const run = (wanted) => {
    const from = at;
    while (at < lines.length && wanted(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      const close = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
      found.push({ kind: "code", language: fence[2], lines: run((next) => !close.test(next)) });
      at += 1;
    } else if (heading) {
      at += 1;
      found.push({ kind: "heading", level: heading[1].length, lines: [heading[2]] });
    } else if (RULE.test(line)) {
      at += 1;
      found.push({ kind: "rule", lines: [] });
    } else if (/^ {0,3}>/.test(line)) {
      found.push({ kind: "quote", lines: run((next) => /^ {0,3}>/.test(next)).map((next) => next.replace(/^ {0,3}> ?/, "")) });
    } else if (ITEM.test(line)) {
      found.push({ kind: "list", lines: run((next) => ITEM.test(next) || (/^\s+\S/.test(next) && !FENCE.test(next))) });
    } else if (line.includes("|") && at + 1 < lines.length && SPLIT.test(lines[at + 1]) && lines[at + 1].includes("-")) {
      found.push({ kind: "table", lines: run((next) => next.includes("|")) });
    } else {
      at += 1;
      const more = run((next) => next.trim() && !FENCE.test(next) && !HEADING.test(next) && !ITEM.test(next) && !/^ {0,3}>/.test(next));
      found.push({ kind: "text", lines: [line, ...more] });
    }
  }
  return found;
}

// Brings an element up to a longer text: blocks that have not changed keep their elements, and with them a selection.
export function render(into, text) {
  const wanted = blocks(text);
  const held = into.blocks ?? [];
  wanted.forEach((block, index) => {
    const key = JSON.stringify(block);
    if (held[index] === key) return;
    held[index] = key;
    const made = build(block);
    if (into.children[index]) into.children[index].replaceWith(made);
    else into.append(made);
  });
  held.length = wanted.length;
  while (into.children.length > wanted.length) into.lastElementChild.remove();
  into.blocks = held;
}

function build(block) {
  const text = block.lines.join("\n");
  switch (block.kind) {
    case "code": return code(block.language, text);
    case "heading": return inline(element(`h${Math.min(6, block.level + 2)}`), text);
    case "rule": return element("hr");
    case "quote": {
      const made = element("blockquote");
      render(made, text);
      return made;
    }
    case "list": return list(block.lines);
    case "table": return table(block.lines);
    default: return inline(element("p"), text);
  }
}

function code(language, text) {
  const button = element("button", { type: "button", class: "quiet copy", "data-do": "copy" }, "Copy");
  const head = element("figcaption", {}, element("span", {}, language || "text"), button);
  return element("figure", { class: "code" }, head, element("pre", { tabindex: "0" }, element("code", {}, text)));
}

function list(lines) {
  const root = element("div", { class: "list" });
  const open = []; // [indent, list] from the outermost
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (!item) {
      const last = open.at(-1)[1].lastElementChild;
      inline(last, ` ${line.trim()}`);
      continue;
    }
    const [, spaces, mark, text] = item;
    while (open.length && open.at(-1)[0] > spaces.length) open.pop();
    if (!open.length || open.at(-1)[0] < spaces.length) {
      const ordered = /\d/.test(mark);
      const made = element(ordered ? "ol" : "ul", ordered ? { start: parseInt(mark, 10) } : {});
      (open.length ? open.at(-1)[1].lastElementChild : root).append(made);
      open.push([spaces.length, made]);
    }
    open.at(-1)[1].append(inline(element("li"), text));
  }
  return root;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, name) => element("tr", {}, ...cells(line).map((cell) => inline(element(name), cell)));
  const body = element("tbody", {}, ...lines.slice(2).map((line) => row(line, "td")));
  return element("div", { class: "wide", tabindex: "0" }, element("table", {}, element("thead", {}, row(lines[0], "th")), body));
}

function inline(into, text) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , coded, strong, weak, label, address, bare] = found;
    if (found.index > at) into.append(text.slice(at, found.index));
    at = found.index + whole.length;
    if (coded !== undefined) into.append(element("code", {}, coded.trim()));
    else if (strong !== undefined) into.append(inline(element("strong"), strong));
    else if (weak !== undefined) into.append(inline(element("em"), weak));
    else into.append(element("a", { href: address ?? bare, rel: "noopener noreferrer nofollow", target: "_blank" }, label || (address ?? bare)));
  }
  into.append(text.slice(at));
  return into;
}

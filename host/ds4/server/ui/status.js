// The state of the server: banks, queue and speed, asked for once a second while the page is seen.

import { element } from "./markdown.js";
import { request } from "./server.js";

const EVERY = 1000;
const one = (id) => document.getElementById(id);

let before = null; // the last counts, for speeds

function health(state, text) {
  one("health").dataset.state = state;
  const label = one("health").querySelector("span");
  if (label.textContent !== text) label.textContent = text; // said aloud only when it changes
}

function count(value) {
  return value >= 10000 ? `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k` : String(value);
}

function what(bank) {
  if (bank.state === "empty") return "empty";
  if (bank.state === "warm") return "holds a conversation";
  if (bank.owner && bank.tokens < bank.owner.prompt) return "reads a prompt";
  return "answers";
}

function banks(list, context) {
  const rows = one("banks");
  list.forEach((bank, index) => {
    let row = rows.children[index];
    if (!row) {
      const meter = element("meter", { min: "0" });
      row = element("li", {}, element("b"), element("span"), element("small"), meter);
      rows.append(row);
    }
    const [name, doing, tokens, meter] = row.children;
    row.dataset.state = bank.state;
    name.textContent = String(bank.index);
    doing.textContent = what(bank);
    tokens.textContent = bank.tokens ? count(bank.tokens) : "";
    meter.max = context;
    meter.value = bank.tokens;
    meter.setAttribute("aria-label", `Tokens held by bank ${bank.index}, of ${context}`);
    row.title = `Bank ${bank.index}: ${bank.state}, ${bank.tokens} of ${context} tokens`;
  });
  while (rows.children.length > list.length) rows.lastElementChild.remove();
}

function speeds(tokens, now) {
  if (before) {
    const seconds = (now - before.now) / 1000;
    for (const [id, name] of [["decode", "generated"], ["prefill", "computed"]]) {
      const rate = (tokens[name] - before.tokens[name]) / seconds;
      one(id).textContent = rate > 0 ? rate.toFixed(rate < 10 ? 1 : 0) : "–";
    }
  }
  before = { now, tokens };
}

async function look() {
  try {
    const stats = await (await request("/v1/stats")).json();
    if (stats.state !== "ready") {
      before = null;
      loading(stats);
      return;
    }
    health("ready", "ready");
    one("model").textContent = one("model").title = stats.model;
    one("running").textContent = stats.queue.running;
    one("waiting").textContent = stats.queue.waiting;
    banks(stats.banks.each, stats.plan.context);
    speeds(stats.tokens, performance.now());
  } catch (error) {
    before = null;
    if (error.status === 401 || error.status === 403) health("locked", "needs an API key");
    else health("gone", error.status ? error.message : "not reachable");
  }
}

function loading(stats) {
  health("loading", stats.progress === null ? stats.state : `loading ${Math.round(100 * stats.progress)} %`);
}

// Starts looking; calls what is returned to look at once.
export function watch() {
  let timer = 0;
  const turn = async () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") await look();
    clearTimeout(timer);
    timer = setTimeout(turn, EVERY);
  };
  document.addEventListener("visibilitychange", turn);
  turn();
  return turn;
}

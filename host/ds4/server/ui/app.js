// The conversation: held here, in memory, and sent whole each time.

import { element } from "./markdown.js";
import { chat, key } from "./server.js";
import { watch } from "./status.js";
import { Answer, follow, results, said } from "./turn.js";

const one = (id) => document.getElementById(id);
const SAMPLING = ["temperature", "top_p", "min_p", "top_k", "max_tokens", "seed"];

let messages = [];
let running = null; // the AbortController of the answer that is coming

const look = watch();

function tools() {
  const given = one("tools").value.trim();
  let read = [];
  let wrong = "";
  if (given) {
    try {
      read = JSON.parse(given);
      if (!Array.isArray(read)) wrong = "Tools must be a JSON array.";
    } catch (error) {
      wrong = `Tools are no JSON: ${error.message}`;
    }
  }
  one("tools-error").hidden = !wrong;
  one("tools-error").textContent = wrong;
  one("tools").setAttribute("aria-invalid", String(Boolean(wrong)));
  return wrong ? null : read;
}

function body(offered) {
  const system = one("system").value.trim();
  const made = { messages: system ? [{ role: "system", content: system }, ...messages] : messages };
  for (const name of SAMPLING) {
    if (one(name).value !== "") made[name] = Number(one(name).value);
  }
  if (one("thinking").value) made.enable_thinking = one("thinking").value === "on";
  if (offered.length) made.tools = offered;
  return made;
}

function busy(now) {
  one("stop").hidden = !now;
  one("send").hidden = now;
}

async function answer() {
  const offered = tools();
  if (!offered || !one("settings").reportValidity()) {
    panel(true);
    return;
  }
  const coming = new Answer();
  const abort = running = new AbortController();
  one("log").append(coming.element);
  follow();
  busy(true);
  one("said").textContent = "Answering.";
  let failure = null;
  try {
    for await (const chunk of chat(body(offered), abort.signal)) coming.take(chunk);
  } catch (error) {
    if (error.name === "AbortError") coming.reason = "stopped";
    else failure = error;
  }
  if (running !== abort) return; // another conversation has begun
  running = null;
  busy(false);
  coming.end(failure);
  finish(coming, failure);
  look();
}

function finish(coming, failure) {
  one("said").textContent = failure ? "" : coming.reason === "stopped" ? "Stopped." : coming.text || "Done.";
  if (failure?.status === 401) {
    panel(true);
    one("key").focus();
  }
  if (failure || coming.reason === "stopped") {
    // A broken answer is no part of the conversation unless some of it was read; calls of one were never complete.
    coming.calls = [];
    if (coming.text) messages.push(coming.message());
    coming.element.append(element("button", { type: "button", class: "quiet again", "data-do": "again" }, "Try again"));
    return;
  }
  messages.push(coming.message());
  if (!coming.calls.length) return;
  const form = results(coming.calls, (given) => {
    coming.calls.forEach((call, index) => {
      messages.push({ role: "tool", tool_call_id: call.id, content: given[index] });
      one("log").append(said("tool", given[index]));
    });
    answer();
  });
  coming.element.append(form);
  form.querySelector("textarea").focus();
  follow();
}

function send() {
  const text = one("text").value.trim();
  if (!text || running) return;
  const open = document.querySelector(".results");
  if (open) { // calls need results, in every dialect
    open.querySelector("textarea").focus();
    open.reportValidity();
    return;
  }
  drop();
  one("empty")?.remove();
  messages.push({ role: "user", content: text });
  one("log").append(said("user", text));
  one("text").value = "";
  fit();
  answer();
}

// Takes the offer to try again away: the conversation has gone on.
function drop() {
  document.querySelectorAll(".again").forEach((button) => button.remove());
}

function again(button) {
  if (running) return;
  button.closest("article").remove();
  if (messages.at(-1)?.role === "assistant") messages.pop();
  answer();
}

function stop() {
  running?.abort();
}

function fresh() {
  const abort = running;
  running = null;
  abort?.abort();
  busy(false);
  messages = [];
  one("log").replaceChildren();
  one("said").textContent = "New chat.";
  one("text").focus();
}

function panel(open) {
  document.body.classList.toggle("panel-open", open);
  one("panel-button").setAttribute("aria-expanded", String(open));
}

function fit() {
  const field = one("text");
  field.rows = Math.min(10, Math.max(1, field.value.split("\n").length));
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

one("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
one("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
one("text").addEventListener("input", fit);
one("stop").addEventListener("click", stop);
one("new").addEventListener("click", fresh);
one("panel-button").addEventListener("click", () => panel(!document.body.classList.contains("panel-open")));
one("settings").addEventListener("submit", (event) => event.preventDefault());
one("tools").addEventListener("change", tools);
one("key").value = key.get();
one("key").addEventListener("change", () => {
  key.set(one("key").value.trim());
  look();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (running) stop();
  else panel(false);
});
one("log").addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  if (button.dataset.do === "copy") copy(button, button.closest("figure").querySelector("code").textContent);
  else if (button.dataset.do === "copy-answer") copy(button, button.closest("article").querySelector(".turn > .text").innerText);
  else again(button);
});

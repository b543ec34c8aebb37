// One turn of the conversation on the page.

import { element, render } from "./markdown.js";

const ROLES = { user: "You", assistant: "Model", tool: "Tool" };

export function said(role, text) {
  const body = element("div", { class: "text plain" }, text);
  return element("article", { class: `turn ${role}`, "aria-label": ROLES[role] }, element("h3", { class: "who" }, ROLES[role]), body);
}

// The answer that is coming: what has been said so far, and its element.
export class Answer {
  constructor() {
    this.began = performance.now();
    this.first = this.last = 0;
    this.pieces = 0;
    this.text = this.reasoning = "";
    this.calls = [];
    this.timings = this.usage = null;
    this.reason = "";
    this.thought = element("div", { class: "text" });
    this.folded = element("details", { class: "thinking", hidden: "" }, element("summary", {}, "Thinking"), this.thought);
    this.body = element("div", { class: "text" });
    this.tools = element("div", { class: "calls" });
    this.bar = element("progress", { "aria-label": "Prompt read" });
    this.wait = element("div", { class: "wait" }, element("span", {}, "waiting for a bank"), this.bar);
    this.note = element("p", { class: "foot" });
    const who = element("h3", { class: "who" }, ROLES.assistant);
    this.element = element("article", { class: "turn assistant", "aria-label": ROLES.assistant, "aria-busy": "true" }, who, this.wait, this.folded, this.body, this.tools, this.note);
    this.drawing = false;
  }

  take(chunk) {
    if (chunk.progress) this.read(chunk.progress);
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.timings) this.timings = chunk.timings;
    for (const { delta, finish_reason: reason } of chunk.choices ?? []) {
      if (reason) this.reason = reason;
      const more = delta.content || delta.reasoning_content || delta.tool_calls;
      if (!more) continue;
      this.last = performance.now();
      this.first ||= this.last;
      this.pieces += 1;
      this.text += delta.content ?? "";
      this.reasoning += delta.reasoning_content ?? "";
      for (const call of delta.tool_calls ?? []) {
        const held = this.calls[call.index] ??= { id: call.id, type: "function", function: { name: call.function.name, arguments: "" } };
        held.function.arguments += call.function.arguments ?? "";
      }
    }
    this.draw();
  }

  read(progress) {
    const { prompt_tokens: all, computed } = progress;
    this.bar.max = all;
    this.bar.value = computed;
    this.wait.firstElementChild.textContent = `reading the prompt: ${computed} of ${all} tokens`;
  }

  // Once a frame, however fast tokens come.
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.show();
    });
  }

  show() {
    const stick = near();
    this.wait.hidden = this.first > 0 || !this.element.hasAttribute("aria-busy");
    this.folded.hidden = !this.reasoning;
    if (this.reasoning) {
      render(this.thought, this.reasoning);
      const over = this.text || this.calls.length || this.reason;
      this.folded.firstElementChild.textContent = over ? "Thought" : "Thinking…";
      this.folded.classList.toggle("live", !over);
    }
    render(this.body, this.text);
    this.calls.forEach((call, index) => this.call(call, index));
    this.note.textContent = this.figures();
    if (stick) follow();
  }

  call(call, index) {
    let card = this.tools.children[index];
    if (!card) {
      const head = element("figcaption", {}, element("span", {}, "Tool call"), element("b", {}, call.function.name));
      card = element("figure", { class: "code call" }, head, element("pre", { tabindex: "0" }, element("code")));
      this.tools.append(card);
    }
    card.querySelector("code").textContent = pretty(call.function.arguments);
  }

  figures() {
    const facts = [];
    const { timings, usage } = this;
    const ttft = timings ? timings.ttft_ms : this.first && this.first - this.began;
    if (ttft) facts.push(`${ttft < 1000 ? `${Math.round(ttft)} ms` : `${(ttft / 1000).toFixed(1)} s`} to the first token`);
    const seconds = (this.last - this.first) / 1000;
    const rate = timings ? timings.decode_tok_s : seconds > 0.2 ? (this.pieces - 1) / seconds : null;
    if (rate) facts.push(`${timings ? "" : "about "}${rate.toFixed(rate < 100 ? 1 : 0)} tok/s`);
    if (usage) {
      const cached = usage.prompt_tokens_details?.cached_tokens;
      facts.push(`${usage.prompt_tokens} in${cached ? ` (${cached} cached)` : ""}, ${usage.completion_tokens} out`);
    }
    if (this.reason === "length") facts.push("cut: no tokens left");
    if (this.reason === "stopped") facts.push("stopped");
    return facts.join(" · ");
  }

  // Nothing more comes. error: why it broke off, if it did.
  end(error) {
    this.element.removeAttribute("aria-busy");
    if (error) this.element.append(element("p", { class: "note danger", role: "alert" }, error.message));
    this.show();
    if (this.text) {
      const copy = element("button", { type: "button", class: "quiet copy", "data-do": "copy-answer" }, "Copy");
      this.note.after(copy);
    }
  }

  message() {
    const message = { role: "assistant", content: this.text };
    if (this.reasoning) message.reasoning_content = this.reasoning;
    if (this.calls.length) message.tool_calls = this.calls;
    return message;
  }
}

// The fields in which a person plays the tools that were called. done: gets their results, in order.
export function results(calls, done) {
  const fields = calls.map((call) => element("textarea", { rows: "2", class: "code", spellcheck: "false", required: "" }));
  const labels = calls.map((call, index) => element("label", {}, `Result of ${call.function.name}`, fields[index]));
  const form = element("form", { class: "results" }, ...labels, element("div", { class: "row" }, element("button", { type: "submit", class: "strong" }, "Send results")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    form.remove();
    done(fields.map((field) => field.value));
  });
  return form;
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } // still being written
}

const log = () => document.getElementById("log");
const near = () => log().scrollHeight - log().scrollTop - log().clientHeight < 80;
export function follow() {
  log().scrollTop = log().scrollHeight;
}

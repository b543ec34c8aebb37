"use strict";
// Keys, dialogs and folds. Every decision is a plain form, so the page works without this but for folding.

const THEMES = ["system", "light", "dark"];

function theme(next) {
  let chosen = "system";
  try {
    chosen = localStorage.getItem("theme") || "system";
    if (next) {
      chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
      localStorage.setItem("theme", chosen);
    }
  } catch { /* no storage: the system's theme */ }
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  const button = document.querySelector('[data-do="theme"]');
  if (button) button.textContent = { system: "Theme", light: "Light", dark: "Dark" }[chosen];
}
theme(false);

document.addEventListener("DOMContentLoaded", () => {
  theme(false);
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const visible = (element) => element.offsetParent !== null;

  function open(id) {
    const dialog = document.getElementById(id);
    if (!dialog || dialog.open) return;
    all("dialog[open]").forEach((other) => other.close());
    dialog.showModal();
    const field = dialog.querySelector("[data-focus]");
    if (field) field.focus();
  }

  function press(selector) {
    const element = one(selector);
    if (element && !element.disabled) element.click();
  }

  function unfold(button, wanted) {
    const body = button.closest("tbody").nextElementSibling;
    body.hidden = !(wanted ?? body.hidden);
    button.setAttribute("aria-expanded", String(!body.hidden));
  }

  async function copy(button) {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // ---- the list ----

  const items = () => all("#waiting > li").filter(visible);
  let chosen = -1;
  function choose(step) {
    const list = items();
    if (!list.length) return;
    list.forEach((item) => item.classList.remove("chosen"));
    chosen = Math.max(0, Math.min(list.length - 1, chosen + step));
    list[chosen].classList.add("chosen");
    list[chosen].querySelector("a").focus({ preventScroll: true });
    list[chosen].scrollIntoView({ block: "nearest" });
  }
  if (items().length) { chosen = 0; items()[0].classList.add("chosen"); }

  // Files have no query: the component stands behind the #.
  function filter() {
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (location.protocol !== "file:" && !wanted) return;
    all("#waiting > li").forEach((item) => { item.hidden = wanted !== "" && item.dataset.component !== wanted; });
    all(".chips a").forEach((chip) => chip.toggleAttribute("aria-current", chip.dataset.component === wanted));
    chosen = -1;
    choose(1);
  }
  if (one("#waiting")) {
    addEventListener("hashchange", filter);
    if (location.hash) filter();
  }

  // ---- differences ----

  function changes() {
    const rows = all("table.diff tr").filter((row) => /^(change|old|new)$/.test(row.className) && visible(row));
    return rows.filter((row) => {
      const before = row.previousElementSibling || row.parentElement.previousElementSibling?.lastElementChild;
      return !before || !/^(change|old|new)/.test(before.className);
    });
  }
  let at = -1;
  function jump(step) {
    const list = changes();
    if (!list.length) return;
    all("tr.here").forEach((row) => row.classList.remove("here"));
    at = Math.max(0, Math.min(list.length - 1, at + step));
    list[at].classList.add("here");
    list[at].scrollIntoView({ block: "center" });
  }

  // ---- what a click and a key do ----

  const actions = {
    theme: () => theme(true),
    help: () => open("help"),
    accept: () => open("accept"),
    reject: () => open("reject"),
    copy: (button) => copy(button),
    unfold: (button) => unfold(button),
    close: (button) => button.closest("dialog").close(),
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) actions[button.dataset.do](button);
    else if (event.target.matches("dialog[open]")) event.target.close();
  });

  const inList = document.body.classList.contains("overview");
  const keys = {
    "j": () => (inList ? choose(1) : press('a[rel="next"]')),
    "k": () => (inList ? choose(-1) : press('a[rel="prev"]')),
    "ArrowDown": () => (inList ? choose(1) : null),
    "ArrowUp": () => (inList ? choose(-1) : null),
    "Enter": () => (inList && items()[chosen] ? items()[chosen].querySelector("a").click() : null),
    "a": () => press('.act [data-do="accept"]'),
    "r": () => press('.act [data-do="reject"]'),
    "n": () => jump(1),
    "p": () => jump(-1),
    "e": () => {
      const buttons = all('[data-do="unfold"]');
      const wanted = buttons.some((button) => button.getAttribute("aria-expanded") === "false");
      buttons.forEach((button) => unfold(button, wanted));
    },
    "i": () => { const input = one("#input"); if (input) input.open = !input.open; },
    "c": () => press('.command [data-do="copy"]'),
    "u": () => press(".brand"),
    "t": () => theme(true),
    "?": () => open("help"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, textarea");
    if (field) {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && field.form) {
        event.preventDefault();
        field.form.requestSubmit(field.form.querySelector(".strong"));
      }
      return;
    }
    if (one("dialog[open]")) return;
    if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
    const action = keys[event.key];
    if (!action) return;
    if (/^Arrow/.test(event.key) && !inList) return;
    event.preventDefault();
    action();
  });

  // A decision is sent once.
  all("dialog form[method=post]").forEach((form) => form.addEventListener("submit", () => {
    form.querySelectorAll("button").forEach((button) => { button.disabled = true; });
  }));

  one('aside [aria-current]')?.scrollIntoView({ block: "nearest" });
  const refused = one("dialog[data-open]");
  if (refused) open(refused.id);
});

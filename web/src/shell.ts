// The page itself: theme, print, copy buttons, and links that open the line they point at.

import { say } from "./data";
import { byId, repaint } from "./dom";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function theme(): void {
  const button = byId("theme");
  button.hidden = false;
  const root = document.documentElement;
  button.addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    repaint();
  });
  dark.addEventListener("change", repaint);
}

function print(): void {
  const button = byId("print");
  button.hidden = false;
  button.addEventListener("click", () => window.print());
  const opened: HTMLDetailsElement[] = [];
  const root = document.documentElement;
  let shown: string | undefined;
  window.addEventListener("beforeprint", () => {
    // Pictures are painted for a width and a theme: paper has its own of both.
    shown = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    repaint();
    for (const details of document.querySelectorAll<HTMLDetailsElement>("details:not([open])")) {
      details.open = true;
      opened.push(details);
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened.splice(0)) details.open = false;
    root.classList.remove("printing");
    if (shown === undefined) delete root.dataset.theme;
    else root.dataset.theme = shown;
    repaint();
  });
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page opened from disk may be refused the clipboard; the old way still works there.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function copies(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("button.copy")) button.hidden = false;
  document.addEventListener("click", (event) => {
    const button = (event.target as Element).closest<HTMLButtonElement>("button.copy");
    if (button === null) return;
    void copy(button.dataset.copy ?? "").then((done) => {
      if (!done) return;
      const before = button.textContent;
      button.textContent = say("copied");
      window.setTimeout(() => (button.textContent = before), 1200);
    });
  });
}

/** Opens whatever hides the target of the address, and moves there. */
function reveal(): void {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id === "" ? null : document.getElementById(id);
  if (target === null) return;
  for (let at: Element | null = target; at !== null; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  target.scrollIntoView({ block: target.classList.contains("row") ? "center" : "start" });
  if (target.classList.contains("row")) target.focus({ preventScroll: true });
}

export function shell(): void {
  theme();
  print();
  copies();
  window.addEventListener("hashchange", reveal);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (width === window.innerWidth) return;
    width = window.innerWidth;
    repaint();
  });
  if (location.hash !== "") reveal();
}

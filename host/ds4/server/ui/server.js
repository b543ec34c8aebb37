// Talking to the server: its key, its errors, and a chat's stream.

const KEY = "ds4.key";

// The key lives as long as the tab. Without storage it lives as long as the page.
let kept = "";
export const key = {
  get() {
    try { return sessionStorage.getItem(KEY) ?? kept; } catch { return kept; }
  },
  set(value) {
    kept = value;
    try {
      if (value) sessionStorage.setItem(KEY, value);
      else sessionStorage.removeItem(KEY);
    } catch { /* no storage */ }
  },
};

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusal(response) {
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error.message ?? message;
  } catch { /* no JSON: the number says it */ }
  return new ServerError(response.status, message);
}

export async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server cannot be reached.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

// The chunks of a streamed chat. ServerError for a refusal, an error inside the stream, or a stream that breaks off.
export async function* chat(body, signal) {
  const response = await request("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true, include_progress: true } }),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, "The connection broke before the answer's end.");
    }
    if (piece.done) throw new ServerError(0, "The connection ended before the answer did.");
    held += piece.value;
    const messages = held.split("\n\n");
    held = messages.pop();
    for (const message of messages) {
      const data = message.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue; // a comment: the server is alive
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError(chunk.error.status ?? 500, chunk.error.message ?? "The engine failed.");
      yield chunk;
    }
  }
}

// The official Anthropic client: Messages, and the beta tool runner.

import Anthropic from "@anthropic-ai/sdk";
import { HELLO, main, PERSON, SCHEMA, shape, SYSTEM, TOOL, Weather, WEATHER } from "./common.mjs";

const { parameters, ...named } = TOOL;
const tool = { ...named, input_schema: parameters };
const user = (content) => [{ role: "user", content }];

main((url, model, tokens) => {
  const client = new Anthropic({ baseURL: url, apiKey: "k", authToken: null, maxRetries: 0, timeout: 30_000 });
  const body = { model, max_tokens: tokens, temperature: 0 };

  const of = (message, type, field) =>
    message.content.filter((block) => block.type === type).map((block) => block[field]).join("");
  const told = (message) => ({
    text: of(message, "text", "text"),
    reasoning: of(message, "thinking", "thinking"),
    blocks: message.content.map((block) => block.type),
    finish: message.stop_reason,
    tokens: message.usage.output_tokens,
    id: message.id,
  });

  async function streamed(asked) {
    const stream = client.messages.stream(asked);
    const types = [];
    for await (const event of stream) types.push(event.type);
    return { made: await stream.finalMessage(), types: shape(types.filter((type) => type !== "ping")) };
  }

  async function tools(ask) {
    const weather = new Weather();
    const first = await ask({ ...body, system: SYSTEM, messages: user(WEATHER), tools: [tool] });
    const calls = first.content.filter((block) => block.type === "tool_use");
    const results = calls.map((call) => ({
      type: "tool_result",
      tool_use_id: call.id,
      content: weather.answer(call.input),
    }));
    const messages = [
      ...user(WEATHER),
      { role: "assistant", content: first.content },
      { role: "user", content: results },
    ];
    const last = await ask({ ...body, system: SYSTEM, messages, tools: [tool] });
    return { ...told(last), first: told(first), calls: weather.calls, ids: calls.map((call) => call.id) };
  }

  const format = { output_config: { format: { type: "json_schema", schema: SCHEMA } } };

  return {
    text: async () => told(await client.messages.create({ ...body, messages: user(HELLO) })),
    text_streamed: async () => {
      const { made, types } = await streamed({ ...body, messages: user(HELLO) });
      return { ...told(made), types };
    },
    tools: () => tools((asked) => client.messages.create(asked)),
    tools_streamed: () => tools(async (asked) => (await streamed(asked)).made),

    runner: async () => {
      const weather = new Weather();
      const run = async (given) => weather.answer(given);
      const last = await client.beta.messages.toolRunner({
        ...body,
        system: SYSTEM,
        messages: user(WEATHER),
        tools: [{ ...tool, run, parse: (given) => given }],
      });
      return { ...told(last), calls: weather.calls };
    },

    structured: async () => {
      const made = await client.messages.create({ ...body, ...format, messages: user(PERSON) });
      return JSON.parse(of(made, "text", "text"));
    },
    structured_streamed: async () => {
      const { made } = await streamed({ ...body, ...format, messages: user(PERSON) });
      return JSON.parse(of(made, "text", "text"));
    },

    count: async () => {
      const counted = await client.messages.countTokens({ model, messages: user(HELLO) });
      const made = await client.messages.create({ ...body, max_tokens: 1, messages: user(HELLO) });
      const used = made.usage;
      return [
        counted.input_tokens,
        used.input_tokens + (used.cache_read_input_tokens ?? 0) + (used.cache_creation_input_tokens ?? 0),
      ];
    },

    refused: async () => {
      try {
        await client.messages.create({ ...body, messages: [] });
      } catch (error) {
        return { kind: error.constructor.name, status: error.status, type: error.error?.error?.type };
      }
      return null;
    },
  };
});

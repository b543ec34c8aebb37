// The official OpenAI client: Chat Completions and Responses.

import OpenAI from "openai";
import { HELLO, main, PERSON, SCHEMA, shape, SYSTEM, TOOL, Weather, WEATHER } from "./common.mjs";

const user = (content) => [{ role: "user", content }];
const asked = (content) => [{ role: "system", content: SYSTEM }, ...user(content)];
const format = { type: "json_schema", json_schema: { name: "person", schema: SCHEMA, strict: true } };

main((url, model, tokens) => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "k", maxRetries: 0, timeout: 30_000 });
  const chat = { model, temperature: 0, max_tokens: tokens };
  const usage = { stream_options: { include_usage: true } };
  const response = { model, temperature: 0, max_output_tokens: tokens };
  const responseTool = { type: "function", strict: false, ...TOOL };

  const told = (completion) => ({
    text: completion.choices[0].message.content,
    reasoning: completion.choices[0].message.reasoning_content ?? "",
    finish: completion.choices[0].finish_reason,
    tokens: completion.usage.completion_tokens,
    id: completion.id,
  });

  async function chatTools(more) {
    const weather = new Weather();
    const tool = { ...TOOL, function: (given) => weather.answer(given), parse: JSON.parse };
    const runner = client.chat.completions.runTools({
      ...chat,
      ...more,
      messages: asked(WEATHER),
      tools: [{ type: "function", function: tool }],
    });
    await runner.done();
    const calls = runner.messages.flatMap((message) => message.tool_calls ?? []);
    const results = runner.messages.filter((message) => message.role === "tool");
    return {
      text: await runner.finalContent(),
      calls: weather.calls,
      ids: calls.map((call) => call.id),
      answered: results.map((message) => message.tool_call_id),
      roles: runner.messages.map((message) => message.role),
    };
  }

  const summary = (made) => ({
    text: made.output_text,
    reasoning: made.output.filter((item) => item.type === "reasoning").flatMap((item) => item.content ?? []),
    status: made.status,
    items: made.output.map((item) => item.type),
    tokens: made.usage.output_tokens,
    id: made.id,
  });

  async function streamed(body) {
    const stream = client.responses.stream(body);
    const types = [];
    const numbers = [];
    let text = "";
    for await (const event of stream) {
      types.push(event.type);
      numbers.push(event.sequence_number);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    const made = await stream.finalResponse();
    return { made, types: shape(types), numbered: numbers.every((number, at) => number === at), text };
  }

  async function responseTools(ask) {
    const weather = new Weather();
    const tools = [responseTool];
    const first = await ask({ ...response, instructions: SYSTEM, input: user(WEATHER), tools });
    const calls = first.output.filter((item) => item.type === "function_call");
    const results = calls.map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: weather.answer(JSON.parse(call.arguments)),
    }));
    const input = [...user(WEATHER), ...first.output, ...results];
    const last = await ask({ ...response, instructions: SYSTEM, input, tools });
    const kept = await ask({ ...response, instructions: SYSTEM, input: results, previous_response_id: first.id, tools });
    return { ...summary(last), first: summary(first), calls: weather.calls, continued: kept.output_text };
  }

  return {
    chat_text: async () => told(await client.chat.completions.create({ ...chat, messages: user(HELLO) })),

    chat_text_streamed: async () => {
      const stream = client.chat.completions.stream({ ...chat, ...usage, messages: user(HELLO) });
      const chunks = [];
      for await (const chunk of stream) chunks.push(chunk);
      const made = await stream.finalChatCompletion();
      const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta));
      return {
        ...told(made),
        reasoning: deltas.map((delta) => delta.reasoning_content ?? "").join(""),
        pieces: deltas.map((delta) => delta.content ?? "").filter((text) => text),
        roles: deltas.map((delta) => delta.role).filter((role) => role),
        ids: [...new Set(chunks.map((chunk) => chunk.id))],
        last: chunks.at(-1).choices.length,
      };
    },

    chat_tools: () => chatTools({}),
    chat_tools_streamed: () => chatTools({ stream: true, ...usage }),

    chat_structured: async () => {
      const made = await client.chat.completions.parse({ ...chat, messages: user(PERSON), response_format: format });
      return made.choices[0].message.parsed;
    },
    chat_structured_streamed: async () => {
      const body = { ...chat, messages: user(PERSON), response_format: format };
      const made = await client.chat.completions.stream(body).finalChatCompletion();
      return made.choices[0].message.parsed;
    },

    responses_text: async () => summary(await client.responses.create({ ...response, input: HELLO })),
    responses_text_streamed: async () => {
      const { made, ...seen } = await streamed({ ...response, input: HELLO });
      return { ...summary(made), ...seen };
    },
    responses_tools: () => responseTools((body) => client.responses.create(body)),
    responses_tools_streamed: () => responseTools(async (body) => (await streamed(body)).made),

    responses_structured: async () => {
      const text = { format: { type: "json_schema", name: "person", schema: SCHEMA, strict: true } };
      const made = await client.responses.parse({ ...response, input: PERSON, text });
      return made.output_parsed;
    },
    responses_structured_streamed: async () => {
      const text = { format: { type: "json_schema", name: "person", schema: SCHEMA, strict: true } };
      return JSON.parse((await streamed({ ...response, input: PERSON, text })).made.output_text);
    },

    models: async () => {
      const names = [];
      for await (const one of client.models.list()) names.push(one.id);
      return names;
    },

    refused: async () => {
      try {
        await client.chat.completions.create({ ...chat, messages: [] });
      } catch (error) {
        return { kind: error.constructor.name, status: error.status, param: error.param };
      }
      return null;
    },
  };
});

// Vercel's AI SDK, by its OpenAI-compatible provider (chat_*) and its Anthropic one (messages_*).

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, isStepCount, streamText, tool } from "ai";
import { HELLO, main, PERSON, SCHEMA, shape, SYSTEM, TOOL, Weather, WEATHER } from "./common.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

main((url, name, tokens) => {
  const chat = createOpenAICompatible({
    name: "ds4",
    baseURL: `${url}/v1`,
    apiKey: "k",
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
  const messages = createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" });

  // The provider knows from a model's name whether it takes schemas; ours has none of those names.
  const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } };

  function cases(model) {
    const body = { model, providerOptions, maxRetries: 0, maxOutputTokens: tokens, temperature: 0 };
    const output = Output.object({ schema: jsonSchema(SCHEMA) });

    async function told(made) {
      return {
        text: await made.text,
        reasoning: (await made.reasoningText) ?? "",
        finish: await made.finishReason,
        tokens: (await made.usage).outputTokens,
      };
    }

    async function tools(ask) {
      const weather = new Weather();
      const inputSchema = jsonSchema(TOOL.parameters);
      const execute = async (given) => weather.answer(given);
      const given = { get_weather: tool({ description: TOOL.description, inputSchema, execute }) };
      const made = await ask({ ...body, instructions: SYSTEM, prompt: WEATHER, tools: given, stopWhen: isStepCount(3) });
      const steps = await made.steps;
      return { ...(await told(made)), calls: weather.calls, steps: steps.map((step) => step.finishReason) };
    }

    async function streamed(asked) {
      const errors = [];
      const made = streamText({ ...asked, onError: ({ error }) => errors.push(String(error)) });
      const types = [];
      for await (const part of made.fullStream) types.push(part.type);
      if (errors.length) throw new Error(errors.join("; "));
      return { made, types: shape(types) };
    }

    return {
      text: async () => told(await generateText({ ...body, prompt: HELLO })),
      text_streamed: async () => {
        const { made, types } = await streamed({ ...body, prompt: HELLO });
        return { ...(await told(made)), types };
      },
      tools: () => tools(generateText),
      tools_streamed: () => tools(async (asked) => (await streamed(asked)).made),
      structured: async () => (await generateText({ ...body, output, prompt: PERSON })).output,
      structured_streamed: async () => (await streamed({ ...body, output, prompt: PERSON })).made.output,
    };
  }

  const prefixed = (prefix, known) =>
    Object.fromEntries(Object.entries(known).map(([key, run]) => [`${prefix}_${key}`, run]));
  return { ...prefixed("chat", cases(chat(name))), ...prefixed("messages", cases(messages(name))) };
});

// What the scripts of this folder share: the questions, the one tool, and the loop over cases.
//
// A script reads {"url", "model", "tokens", "cases"} as JSON from its standard input, runs the cases one after another
// (none may take more than `tokens` for its answer) and writes
// {case: {"result": ...} or {"error": ...}} to its standard output. What is right is for the tests to say.

export const HELLO = "Hello!";
export const WEATHER = "What's the weather in Lisbon?";
export const PERSON = "Describe a person as JSON.";
export const SYSTEM = "You are a helpful assistant.";

export const TOOL = {
  name: "get_weather",
  description: "Get the weather for a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", description: "Name of the city" } },
    required: ["city"],
    additionalProperties: false,
  },
};

export const SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
};

/** What the tool answers, and every call's arguments. */
export class Weather {
  calls = [];
  answer(given) {
    this.calls.push(given);
    return JSON.stringify({ city: given.city, temperature: 21, condition: "sunny" });
  }
}

/** Names in their order, each run of equal ones once. */
export function shape(names) {
  return names.filter((name, at) => name !== names[at - 1]);
}

export async function main(make) {
  let input = "";
  for await (const piece of process.stdin) input += piece;
  const { url, model, tokens, cases } = JSON.parse(input);
  const known = make(url, model, tokens);
  const results = {};
  for (const name of cases) {
    try {
      if (!known[name]) throw new Error(`there is no case ${name}`);
      results[name] = { result: await known[name]() };
    } catch (error) {
      results[name] = { error: String(error?.stack ?? error) };
    }
  }
  process.stdout.write(JSON.stringify(results));
}

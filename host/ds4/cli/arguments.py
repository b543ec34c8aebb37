"""What the `ds4` command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ds4.core.chat import EFFORTS
from ds4.core.exits import EPILOG
from ds4.core.kinds import sha256
from ds4.core.options import ANSWER_OPTIONS, DRAFT, ENGINE_OPTIONS, MODEL_OPTIONS, MTP, SAMPLING_OPTIONS
from ds4.core.settings import Kind, Option, Program, boolean, choice, integer, integers, path, text, texts

_PROMPT = "Prompt and answer"
_PROVE = "Tokens and logits, for proving"
_FILE = "About a model file (the engine is never loaded)"


def _action(name: str, help_text: str, section: str = _FILE) -> Option[bool]:
    return Option(name, boolean(), False, help_text, section, flag_only=True)


def _file(name: str, help_text: str, section: str) -> Option[Path | None]:
    return Option(name, path(), None, help_text, section, flag_only=True)


def _token_limit() -> Kind[int]:
    one = integer(1)

    def parse(raw: object, base: Path) -> int:
        if isinstance(raw, str) and "," in raw:
            raise ValueError("one number; a list of ids goes to --token-ids")
        return one.parse(raw, base)

    return Kind("N", parse)


PROMPT: Option[str | None] = Option(
    "prompt", text(), None, "Answer this and exit. Without it: a chat.", _PROMPT, ("-p",), flag_only=True
)
PROMPT_FILE: Option[Path | None] = _file("prompt-file", "Take the prompt from a file; - is standard input.", _PROMPT)
SYSTEM: Option[str | None] = Option("system", text(), None, "System message.", _PROMPT, ("-sys",))
TOKENS: Option[int | None] = Option(
    "tokens",
    _token_limit(),
    None,
    "Most tokens to generate.",
    _PROMPT,
    ("-n", "--n-predict"),
    shows="until the context is full",
)
STOP: Option[tuple[str, ...]] = Option(
    "stop",
    texts(fits=bool, expected="text that is not empty"),
    (),
    "End the answer before this text; may be repeated.",
    _PROMPT,
)
EFFORT: Option[str | None] = Option(
    "effort", choice(*EFFORTS), None, "How much to think, of models that can.", _PROMPT, shows="the model's own"
)
JSON_OBJECT: Option[bool] = _action("json-object", "Hold the answer to -p to a JSON object.", _PROMPT)
JSON_SCHEMA: Option[Path | None] = _file("json-schema", "Hold it to JSON of the schema in this file.", _PROMPT)
REGEX: Option[str | None] = Option(
    "regex", text("PATTERN"), None, "Hold it to this regular expression, all of it.", _PROMPT, flag_only=True
)
GRAMMAR: Option[Path | None] = _file("grammar", "Hold it to the grammar in this file (llguidance's Lark).", _PROMPT)
FORMS: tuple[Option[Any], ...] = (JSON_OBJECT, JSON_SCHEMA, REGEX, GRAMMAR)
RAW: Option[bool] = _action("raw", "Take the prompt as it is, special tokens included: no chat template.", _PROMPT)
INTERACTIVE: Option[bool] = Option(
    "interactive", boolean(), False, "Chat even if standard input is no terminal.", _PROMPT, ("-i",), flag_only=True
)
QUIET: Option[bool] = Option("quiet", boolean(), False, "No progress and no figures on stderr.", _PROMPT, ("-q",))

TOKEN_IDS: Option[tuple[int, ...] | None] = Option(
    "token-ids", integers(0), None, "Token ids in place of a prompt.", _PROVE, flag_only=True
)
PREDICT: Option[int | None] = Option(
    "predict", integer(0), None, "Continue greedily for N tokens and print their ids.", _PROVE, flag_only=True
)
DUMP_LOGITS: Option[Path | None] = _file(
    "dump-logits", "Write the logits of every position, float32 [n_tokens, vocab], as .npy.", _PROVE
)
DUMP_HIDDEN: Option[Path | None] = _file(
    "dump-hidden",
    "Write the residual streams of every position as .npz: h0 behind the embedding, hI behind layer I, float32 "
    "[n_tokens, (streams,) width].",
    _PROVE,
)
DUMP_LOGPROBS: Option[Path | None] = _file(
    "dump-logprobs", "Generate, and write each token's likeliest alternatives as JSON.", _PROVE
)
LOGPROBS_TOP_K: Option[int] = Option(
    "logprobs-top-k", integer(1, 64), 20, "How many alternatives.", _PROVE, flag_only=True
)
REPLAY: Option[Path | None] = _file(
    "replay", "Run what a trace of ds4-server --trace records again, and compare the tokens.", _PROVE
)
DUMP_TOKENS: Option[bool] = _action("dump-tokens", "Print the prompt's token ids and exit. Loads no engine.", _PROVE)

IDENTIFY: Option[bool] = _action("identify", "What the model is, and whether it is supported.")
INVENTORY: Option[bool] = _action("inventory", "Every tensor: name, dims, type, place.")
VALIDATE: Option[bool] = _action("validate", "Check everything that can be checked without computing.")
LAYOUT: Option[bool] = _action("layout", "The tensors that the model's family expects, with dims and types.")
BIND_PLAN: Option[bool] = _action("bind-plan", "Which tensor of the file fills which slot of the engine.")
TOKENIZE: Option[str | None] = Option(
    "tokenize", text(), None, "Token ids and pieces of a text; - is standard input.", _FILE, flag_only=True
)
SPECIAL: Option[bool] = _action("special", "With --tokenize: read special tokens in the text as such.")
COMPONENTS: Option[bool] = _action("components", "Which side decides for each component of the host, and why.")
JSON: Option[bool] = _action("json", "Print JSON.")

NAMES: Option[bool] = Option("names", boolean(), False, "Print names alone.", _FILE, flag_only=True)

DIAGNOSTICS = (IDENTIFY, INVENTORY, VALIDATE, LAYOUT, BIND_PLAN)

OPTIONS: tuple[Option[Any], ...] = (
    *(PROMPT, PROMPT_FILE, SYSTEM, TOKENS, STOP, EFFORT),
    *FORMS,
    *(RAW, INTERACTIVE, QUIET),
    *MODEL_OPTIONS,
    MTP,
    DRAFT,
    *ANSWER_OPTIONS,
    *SAMPLING_OPTIONS,
    *ENGINE_OPTIONS,
    *(TOKEN_IDS, PREDICT, DUMP_LOGITS, DUMP_HIDDEN, DUMP_LOGPROBS, LOGPROBS_TOP_K, REPLAY, DUMP_TOKENS),
    *(*DIAGNOSTICS, TOKENIZE, SPECIAL, COMPONENTS, JSON),
)

PROGRAM = Program(
    name="ds4",
    table="cli",
    summary="DwarfStar: run a large language model on this machine.",
    usage=(
        "ds4                            chat with the embedded model",
        'ds4 -p "Why is the sky blue?"  answer once; a prompt can also be piped in',
        "ds4 -m FILE.gguf --identify    look at a model file",
        "ds4 models [--model-dir DIR]   the models that -m can name",
        "ds4 serve ...                  the HTTP server (ds4-server)",
        "ds4 bench ...                  measure speed (ds4-bench)",
        "ds4 completion bash|zsh|fish   print a completion script",
    ),
    options=OPTIONS,
    epilog=EPILOG,
)

# ---- ds4 models ----

_FETCH = "Fetching"

ACCEPT_LICENCE: Option[bool] = Option(
    "accept-licence",
    boolean(),
    False,
    "Accept the terms that a model is under; they are shown all the same.",
    _FETCH,
    ("--accept-license",),
    flag_only=True,
)
SHA256: Option[str | None] = Option(
    "sha256", sha256(), None, "The SHA-256 that the file must have.", _FETCH, flag_only=True
)
AS: Option[str | None] = Option("as", text("NAME.gguf"), None, "What to call the file.", _FETCH, flag_only=True)
FORCE: Option[bool] = _action("force", "Fetch it although a file of that name is there, and replace that.", _FETCH)
YES: Option[bool] = _action("yes", "Do not ask.")

MODEL_VERBS = ("list", "identify", "verify", "get", "remove")

MODELS_PROGRAM = Program(
    name="ds4 models",
    table="cli",
    summary="Lists the models that -m can name: embedded ones and those in a folder, and whether each is supported.",
    usage=(
        "ds4 models [list] [--model-dir DIR] [--json|--names]",
        "ds4 models identify NAME|FILE ...",
        "ds4 models verify [NAME|FILE ...]          SHA-256 against the recorded one",
        "ds4 models get NAME|URL|hf:OWNER/REPOSITORY[@REVISION][:FILE]",
        "ds4 models remove NAME ...",
    ),
    options=(MODEL_OPTIONS[1], JSON, NAMES),
    epilog=EPILOG,
)

IDENTIFY_PROGRAM = Program(
    name="ds4 models identify",
    table="cli",
    summary="What a model file is, and whether it is supported.",
    usage=("ds4 models identify NAME|FILE ... [--json]",),
    options=(MODEL_OPTIONS[1], JSON),
    epilog=EPILOG,
)

VERIFY_PROGRAM = Program(
    name="ds4 models verify",
    table="cli",
    summary="Reads model files and compares their SHA-256 with the recorded one (NAME.gguf.sha256); without a name, "
    "all of them.",
    usage=("ds4 models verify [NAME|FILE ...] [--sha256 HASH]",),
    options=(MODEL_OPTIONS[1], SHA256, JSON, QUIET),
    epilog=EPILOG,
)

GET_PROGRAM = Program(
    name="ds4 models get",
    table="cli",
    summary="Fetches a model into the model folder and prints its path and SHA-256. A transfer that was cut off goes "
    "on where it stopped. Packages come from where pip is configured to look; HF_ENDPOINT and HF_TOKEN are honoured.",
    usage=(
        "ds4 models get gemma3-270m",
        "ds4 models get https://HOST/PATH/NAME.gguf [--sha256 HASH]",
        "ds4 models get hf:OWNER/REPOSITORY[@REVISION][:FILE]",
    ),
    options=(MODEL_OPTIONS[1], ACCEPT_LICENCE, SHA256, AS, FORCE, QUIET),
    epilog=EPILOG,
)

REMOVE_PROGRAM = Program(
    name="ds4 models remove",
    table="cli",
    summary="Deletes models from the model folder, all shards of each.",
    usage=("ds4 models remove NAME ... [--yes]",),
    options=(MODEL_OPTIONS[1], YES),
    epilog=EPILOG,
)

"""The errors that ds4 raises: each carries a stable code and, where it applies, what was expected and what was found.

The edge (CLI, server) turns them into its own shape: an exit code with one line, or the protocol's error object.
"""

from __future__ import annotations


class Ds4Error(Exception):
    """Base of every error that is somebody's mistake or misfortune rather than a bug of ours.

    code:     stable, machine-readable, snake_case.
    subject:  what it is about: a metadata key, a tensor, a field, a file.
    expected: what would have been right.
    found:    what was there.
    """

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        subject: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        self.message = message
        self.subject = subject
        self.expected = expected
        self.found = found
        if code is not None:
            self.code = code
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.message if self.subject is None else f"{self.subject}: {self.message}"
        if self.expected is not None:
            text += f" (expected {self.expected}, found {self.found})"
        return text


class ModelFileError(Ds4Error):
    """A GGUF file is malformed, incomplete or foreign."""

    code = "model_file"


class UnsupportedModelError(ModelFileError):
    """A well-formed file that this build cannot serve. notes: what is missing, a line each."""

    code = "unsupported_model"
    notes: tuple[str, ...] = ()


class TokenizerError(Ds4Error):
    """A vocabulary that cannot be used, or text or ids that it cannot take."""

    code = "tokenizer"


class TemplateError(Ds4Error):
    """A chat template that does not compile, refuses the conversation, or passes its bounds."""

    code = "template"


class ChatError(Ds4Error):
    """A chat that asks for what the model's way of writing chats does not have."""

    code = "chat"


class ConstraintError(Ds4Error):
    """A grammar or schema that answers cannot be held to: malformed, contradictory, or past its bounds."""

    code = "constraint"


class SamplingError(Ds4Error):
    """A sampling parameter out of its range."""

    code = "sampling"


class ContextLengthError(Ds4Error):
    """A prompt that does not fit the context. expected: the context; found: the tokens asked for."""

    code = "context_length_exceeded"


class EngineError(Ds4Error):
    """The native engine refused or failed a call. status is its ds4_status."""

    code = "engine"

    def __init__(self, message: str, *, status: int, code: str | None = None) -> None:
        self.status = status
        super().__init__(message, code=code)


class Cancelled(Ds4Error):
    """The work was stopped on request."""

    code = "cancelled"


class SettingsError(Ds4Error):
    """A flag, environment variable or configuration file that cannot be used."""

    code = "settings"


class DownloadError(Ds4Error):
    """A file that could not be fetched, or is not what it should be."""

    code = "download"


class PayloadError(Ds4Error):
    """A session payload that is malformed, of another model, or too long for the context."""

    code = "payload"


class RecordError(Ds4Error):
    """A KV record that is malformed, or that cannot be written as asked."""

    code = "kvc"


class FrameError(Ds4Error):
    """A message of the distributed wire that is malformed, or that cannot be sent as asked."""

    code = "frame"


class EncoderError(Ds4Error):
    """A conversation that a model's own layout cannot write. turn: the message at fault, from 0."""

    code = "encoder"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        turn: int | None = None,
        subject: str | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        self.turn = turn
        if subject is None and turn is not None:
            subject = f"messages[{turn}]"
        super().__init__(message, code=code, subject=subject, expected=expected, found=found)

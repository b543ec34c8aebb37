"""Grammars against a model's vocabulary: which tokens may come next.

    Vocabulary(tokenizer, visible)   once for a tokenizer; takes a second for large ones, on first use
    vocabulary.matcher(grammar)      compiles, or takes from a small cache; milliseconds, GIL released
    matcher.mask(drawn)              allow-mask after the tokens drawn so far, for NativeSession.set_mask

Compiling is safe from any thread; a Matcher belongs to one answer and is used by one thread at a time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence

import llguidance

from ds4.core.constraint.compiled_cache import CompiledCache, size_of
from ds4.core.constraint.compiler import compiled, reason
from ds4.core.constraint.deadline import LINE
from ds4.core.constraint.grammar import Grammar
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError


class _Tokens:
    """A tokenizer as llguidance wants it. Calls give the ids of text that a grammar forces, as the model would write
    them."""

    def __init__(self, tokenizer: Tokenizer, visible: Collection[str]) -> None:
        self._encode = tokenizer.continuation
        stops = sorted(tokenizer.stop_ids)
        self.eos_token_id = tokenizer.eos_id if tokenizer.eos_id is not None else stops[0]
        self.bos_token_id = tokenizer.bos_id
        self.tokens = [tokenizer.token_bytes(index) for index in range(tokenizer.n_vocab)]
        self._visible = {word: tokenizer.special_tokens[word] for word in visible if word in tokenizer.special_tokens}
        self._markup = re.compile(f"({'|'.join(map(re.escape, self._visible)) or '(?!)'})")
        special = frozenset(tokenizer.special_tokens.values())
        self.special_token_ids = sorted((special - tokenizer.ids_of(visible)) | tokenizer.stop_ids)

    def __call__(self, text: bytes) -> list[int]:
        ids: list[int] = []
        for part in self._markup.split(text.decode()):
            known = self._visible.get(part)
            ids += self._encode(part) if known is None else [known]
        return ids


class Vocabulary:
    """The tokens of a tokenizer, ready for grammars. visible: special tokens that are text to whoever reads the answer,
    so they are to the grammar; no text stands for the others, and answers under a grammar have none."""

    def __init__(self, tokenizer: Tokenizer, visible: Collection[str] = frozenset()) -> None:
        self._tokenizer, self._visible = tokenizer, frozenset(visible)
        self._lock = threading.Lock()
        self._ready: llguidance.LLTokenizer | None = None
        self._compiled: CompiledCache[llguidance.LLMatcher] = CompiledCache()

    def matcher(self, grammar: Grammar) -> Matcher:
        """A matcher at the answer's beginning. ConstraintError for a grammar that does not compile, passes its bounds,
        or allows no answer."""
        with self._lock:
            known = self._compiled.get(grammar.lark)
            if known is not None:
                return Matcher(known.deep_copy(), self._tokenizer.stop_ids)
            if self._ready is None:
                self._ready = self._build()
            tokens = self._ready
        ready, seconds = compiled(tokens, grammar.lark)
        first = Matcher(ready.deep_copy(), self._tokenizer.stop_ids)
        first.mask(())
        with self._lock:
            self._compiled.put(grammar.lark, ready, size_of(grammar.lark, seconds))
        return Matcher(ready.deep_copy(), self._tokenizer.stop_ids)

    def _build(self) -> llguidance.LLTokenizer:
        if not self._tokenizer.stop_ids:
            raise ConstraintError("this model's vocabulary has no token that ends an answer", code="no_stop_token")
        wrapper = llguidance.TokenizerWrapper(_Tokens(self._tokenizer, self._visible))
        return llguidance.LLTokenizer(wrapper, eos_token=sorted(self._tokenizer.stop_ids))


class Matcher:
    """How far one answer has come in its grammar."""

    __slots__ = ("_matcher", "_seen", "_stops")

    def __init__(self, matcher: llguidance.LLMatcher, stops: Collection[int]) -> None:
        self._matcher, self._stops, self._seen = matcher, frozenset(stops), 0

    def copy(self) -> Matcher:
        """As far, independent from here on."""
        other = Matcher(self._matcher.deep_copy(), self._stops)
        other._seen = self._seen
        return other

    def advance(self, token: int) -> None:
        """Takes in a drawn token. ConstraintError (broken) for one that the mask does not allow: a bug, not a client's
        fault; (complexity) where following the grammar passes its bounds."""
        if not self._matcher.consume_token(token):
            raise self._error()
        self._seen += 1

    def mask(self, drawn: Sequence[int] = ()) -> bytes:
        """The tokens that may follow `drawn`, all tokens of the answer so far, of which the first `seen` are known
        already: bit id % 32 of little-endian word id / 32. Once the answer is complete: those that end it.
        ConstraintError: complexity where that takes too long, and the matcher may not be used any more; busy where
        those of others still do."""
        words: bytes = LINE.run(lambda: self._next(drawn))
        if self._matcher.is_error():
            raise self._error()
        if not any(words):
            raise ConstraintError("no answer fits it", subject="grammar", code="grammar")
        return words

    def _next(self, drawn: Sequence[int]) -> bytes:
        for index in range(self._seen, len(drawn)):
            self.advance(drawn[index])
        words: bytes = self._matcher.compute_bitmask()
        return words

    @property
    def seen(self) -> int:
        return self._seen

    @property
    def accepting(self) -> bool:
        """Whether the answer may end here."""
        return bool(self._matcher.is_accepting())

    @property
    def stopped(self) -> bool:
        """Whether the answer is complete: nothing but its end may follow."""
        return bool(self._matcher.is_stopped()) and not self._matcher.is_error()

    def _error(self) -> ConstraintError:
        said = self._matcher.get_error()
        if "doesn't satisfy the grammar" in said:
            return ConstraintError(reason(said), subject="token", code="broken")
        if said.startswith("NoExtension"):
            return ConstraintError("no answer fits it", subject="grammar", code="grammar")
        return ConstraintError("too complex to follow", subject="grammar", code="complexity")

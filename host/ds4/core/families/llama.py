"""The `llama` family: Llama 1-3, SmolLM, Mistral 7B, TinyLlama and all that are converted under that architecture.

    x = token_embd[token]
    for each layer:   h = rms_norm(x) * attn_norm;  q, k, v = Wq h, Wk h, Wv h;  rope(q), rope(k)
                      x += Wo attention(q, k, v)                    n_head queries share n_head_kv keys and values
                      h = rms_norm(x) * ffn_norm;   x += Wdown (silu(Wgate h) * (Wup h))
    logits = W (rms_norm(x) * output_norm)                          W: output.weight, or token_embd if the file has none

Converters permute the rows of Wq and Wk so that rotated pairs are neighbours: RopeKind.NORM. Mistral's sliding window
is that of every layer. Llama 3's context extension is the divisors of rope_freqs.weight, which converters work out.
"""

from __future__ import annotations

from ds4.core.families.decoder import DecoderFamily
from ds4.sys.descriptors import Family, RopeKind

CONTRACT = DecoderFamily(Family.LLAMA, "llama", RopeKind.NORM, rope_freqs=True)

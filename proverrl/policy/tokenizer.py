"""A byte-level BPE tokenizer trained on a training split.

Digits stay single, so that constants are read digit by digit. A name is the same token everywhere:
spaces belong to the punctuation or keyword next to it, because a small model would first have to
learn that `` k`` and ``k`` are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

BOS, EOS, PAD = "<|start|>", "<|end|>", "<|pad|>"


def train_tokenizer(
    texts: Iterable[str], *, vocab_size: int, keywords: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """Train byte-level BPE (Sennrich et al. 2016, over bytes as in GPT-2) of ``vocab_size``,
    deterministic in ``texts`` and their order. Each of ``keywords`` is kept with the blank behind
    it in one piece. Any text round-trips exactly, because the 256 bytes are always in the
    vocabulary."""
    whole = "|".join(sorted(sorted(keywords), key=len, reverse=True))
    words = rf"\b(?:{whole})\b ?|" if whole else ""
    pieces = rf"{words}[A-Za-z_][A-Za-z0-9_'?]*|[0-9]|[^A-Za-z0-9_]+"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
    )

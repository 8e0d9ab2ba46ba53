"""Vocabulary, dataset and batching for the pointer-generator."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from notes import Note, make_corpus
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, UNK, START, STOP = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

Batch = dict[str, Any]  # tensors [batch, length], and per-note lists


class Vocab:
    """The most frequent words; anything else must be copied from the note."""

    def __init__(self, texts: Iterable[str], max_size: int, min_count: int = 2) -> None:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text.split())
        frequent = [w for w, n in counts.most_common(max_size - len(SPECIALS)) if n >= min_count]
        self.words = [*SPECIALS, *frequent]
        self.ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode_source(self, words: list[str]) -> tuple[list[int], list[int], list[str]]:
        """Return ids, ids in the vocabulary extended by this note's own words, those words."""
        ids, extended = [], []
        oovs: dict[str, int] = {}
        for word in words:
            i = self.ids.get(word, UNK)
            ids.append(i)
            extended.append(i if i != UNK else len(self) + oovs.setdefault(word, len(oovs)))
        return ids, extended, list(oovs)

    def encode_target(self, words: list[str], oovs: list[str]) -> tuple[list[int], list[int]]:
        """Return ids, and ids in the vocabulary extended by the source's own words."""
        positions = {word: len(self) + i for i, word in enumerate(oovs)}
        ids = [self.ids.get(word, UNK) for word in words]
        extended = [self.ids.get(word, positions.get(word, UNK)) for word in words]
        return ids, extended

    def decode(self, ids: list[int], oovs: list[str]) -> list[str]:
        """Turn extended ids back into words."""
        return [self.words[i] if i < len(self) else oovs[i - len(self)] for i in ids]


class NotesDataset(Dataset[Batch]):
    """Notes cut to the configured lengths and turned into ids on access."""

    def __init__(self, notes: list[Note], vocab: Vocab, max_src: int, max_tgt: int) -> None:
        self.notes = notes
        self.vocab = vocab
        self.max_src = max_src
        self.max_tgt = max_tgt

    def __len__(self) -> int:
        return len(self.notes)

    def __getitem__(self, index: int) -> Batch:
        note = self.notes[index]
        src, src_ext, oovs = self.vocab.encode_source(note.text.split()[: self.max_src])
        words = note.summary.split()[: self.max_tgt - 1]  # one step is kept for </s>
        tgt, tgt_ext = self.vocab.encode_target(words, oovs)
        return {
            "src": torch.tensor(src),
            "src_ext": torch.tensor(src_ext),
            "tgt_in": torch.tensor([START, *tgt]),
            "tgt_out": torch.tensor([*tgt_ext, STOP]),
            "oovs": oovs,
            "summary": note.summary,
        }


def collate(items: list[Batch]) -> Batch:
    """Pad a micro-batch to its own longest note and longest summary."""
    batch: Batch = {
        key: pad_sequence([item[key] for item in items], batch_first=True, padding_value=PAD)
        for key in ("src", "src_ext", "tgt_in", "tgt_out")
    }
    batch["oovs"] = [item["oovs"] for item in items]
    batch["max_oovs"] = max(len(item["oovs"]) for item in items)
    batch["summary"] = [item["summary"] for item in items]
    return batch


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move the tensors of a batch."""
    return {
        key: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
        for key, value in batch.items()
    }


def build_loaders(cfg: dict[str, Any], cuda: bool) -> tuple[DataLoader, DataLoader, Vocab]:
    """Generate the corpus; return the training loader, the validation loader, the vocabulary."""
    model, data = cfg["model"], cfg["data"]
    train_notes, val_notes = make_corpus(data["num_train"], data["num_val"], data["seed"])
    texts = (text for note in train_notes for text in note)
    vocab = Vocab(texts, data["vocab_size"], data["min_count"])
    limits = model["chunk_len"] * model["num_chunks"], model["max_target_len"]
    train_loader = DataLoader(
        NotesDataset(train_notes, vocab, *limits),
        batch_size=cfg["training"]["batch_size"],
        shuffle=True,
        drop_last=True,
        collate_fn=collate,
        num_workers=data["num_workers"],
        pin_memory=data["pin_memory"] and cuda,
    )
    # Beam search works on one note at a time.
    val_loader = DataLoader(NotesDataset(val_notes, vocab, *limits), collate_fn=collate)
    return train_loader, val_loader, vocab

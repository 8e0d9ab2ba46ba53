"""Pointer-generator network with coverage, after See, Liu and Manning (2017)."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from data import PAD, Batch
from torch import Tensor, nn


class Memory(NamedTuple):
    """The encoded note as attention sees it."""

    keys: Tensor  # [batch, source, hidden]
    values: Tensor  # [batch, source, hidden]
    mask: Tensor  # [batch, source], True on real tokens


class State(NamedTuple):
    """What the decoder carries from one step to the next."""

    hidden: Tensor  # [batch, hidden]
    cell: Tensor  # [batch, hidden]
    context: Tensor  # [batch, hidden]
    coverage: Tensor  # [batch, source], the attention paid so far


class Encoder(nn.Module):
    """Bidirectional LSTM over the chunks of a note, each chunk read on its own.

    A chunk always spans chunk_len tokens: the last one of a note is filled up with padding, so
    how a note is encoded does not depend on the other notes of its batch.
    """

    def __init__(self, emb_dim: int, hidden: int, layers: int, chunk_len: int, drop: float) -> None:
        super().__init__()
        self.chunk_len = chunk_len
        self.lstm = nn.LSTM(
            emb_dim,
            hidden,
            num_layers=layers,
            batch_first=True,
            bidirectional=True,
            dropout=drop,
        )
        self.init_hidden = nn.Linear(2 * hidden, hidden)
        self.init_cell = nn.Linear(2 * hidden, hidden)

    def forward(self, emb: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of all tokens and the decoder's first hidden and cell state."""
        batch, length, _ = emb.shape
        emb = F.pad(emb, (0, 0, 0, -length % self.chunk_len))
        chunks, _ = self.lstm(emb.reshape(-1, self.chunk_len, emb.size(2)))
        states = chunks.reshape(batch, -1, chunks.size(2))[:, :length]
        real = mask.unsqueeze(2)
        mean = (states * real).sum(dim=1) / real.sum(dim=1)
        return states, torch.tanh(self.init_hidden(mean)), torch.tanh(self.init_cell(mean))


class Attention(nn.Module):
    """Dot-product attention that knows where it has already looked."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden, hidden)
        self.coverage_weight = nn.Parameter(torch.zeros(1))
        self.scale = hidden**-0.5

    def forward(self, query: Tensor, coverage: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return the context vector and the attention over the source."""
        query = self.query(query).unsqueeze(1) * self.scale
        scores = torch.bmm(query, memory.keys.transpose(1, 2)).squeeze(1)
        scores = scores + self.coverage_weight * coverage
        attention = scores.masked_fill(~memory.mask, float("-inf")).softmax(dim=1)
        context = torch.bmm(attention.unsqueeze(1), memory.values).squeeze(1)
        return context, attention


class Decoder(nn.Module):
    """One step of the summary: LSTM cell, attention, word distribution."""

    def __init__(self, vocab_size: int, emb_dim: int, hidden: int, drop: float) -> None:
        super().__init__()
        self.input = nn.Linear(emb_dim + hidden, emb_dim)
        self.cell = nn.LSTMCell(emb_dim, hidden)
        self.attention = Attention(hidden)
        self.hidden_out = nn.Linear(2 * hidden, hidden)
        self.vocab_out = nn.Linear(hidden, vocab_size)
        self.dropout = nn.Dropout(drop)

    def forward(
        self,
        emb: Tensor,
        state: State,
        memory: Memory,
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        """Return the word distribution, the attention, what the pointer looks at and the next state."""
        x = self.input(torch.cat((emb, state.context), dim=1))
        h, c = self.cell(x, (state.hidden, state.cell))
        context, attention = self.attention(h, state.coverage, memory)
        out = self.hidden_out(torch.cat((h, context), dim=1))
        words = self.vocab_out(self.dropout(out)).softmax(dim=1)
        seen = torch.cat((context, h, c, x), dim=1)
        return words, attention, seen, State(h, c, context, state.coverage + attention)


class Pointer(nn.Module):
    """Mixes the vocabulary with the words of the note: generate or copy."""

    def __init__(self, emb_dim: int, hidden: int) -> None:
        super().__init__()
        self.p_gen = nn.Linear(3 * hidden + emb_dim, 1)

    def forward(
        self, words: Tensor, attention: Tensor, seen: Tensor, src_ext: Tensor, max_oovs: int
    ) -> Tensor:
        """Return the distribution over the extended vocabulary."""
        p_gen = torch.sigmoid(self.p_gen(seen))
        extended = F.pad(p_gen * words, (0, max_oovs))
        copied = ((1 - p_gen) * attention).to(extended.dtype)
        return extended.scatter_add(1, src_ext, copied)


class PointerGenerator(nn.Module):
    """Encoder and decoder; each word is generated from the vocabulary or copied from the note."""

    def __init__(self, cfg: dict[str, Any], vocab_size: int) -> None:
        super().__init__()
        emb_dim, hidden, drop = cfg["emb_dim"], cfg["hidden_dim"], cfg["dropout"]
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=PAD)
        self.encoder = Encoder(emb_dim, hidden, cfg["num_layers"], cfg["chunk_len"], drop)
        self.key = nn.Linear(2 * hidden, hidden, bias=False)
        self.value = nn.Linear(2 * hidden, hidden, bias=False)
        self.decoder = Decoder(vocab_size, emb_dim, hidden, drop)
        self.pointer = Pointer(emb_dim, hidden)
        self.dropout = nn.Dropout(drop)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return word vectors; encoder and decoder share them."""
        return self.dropout(self.embedding(tokens))

    def encode(self, src: Tensor) -> tuple[Memory, State]:
        """Read the notes; return what the decoder attends to and its first state."""
        mask = src != PAD
        states, h, c = self.encoder(self.embed(src), mask)
        memory = Memory(self.key(states), self.value(states), mask)
        context = torch.zeros_like(h)
        return memory, State(h, c, context, torch.zeros(src.shape, device=src.device))

    def step(
        self, emb: Tensor, state: State, memory: Memory, src_ext: Tensor, max_oovs: int
    ) -> tuple[Tensor, Tensor, State]:
        """Return the distribution over the extended vocabulary, the attention, the next state."""
        words, attention, seen, state = self.decoder(emb, state, memory)
        return self.pointer(words, attention, seen, src_ext, max_oovs), attention, state

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return, for each target step, the reference word's probability and the coverage loss."""
        memory, state = self.encode(batch["src"])
        src_ext, max_oovs = batch["src_ext"], batch["max_oovs"]
        emb = self.embed(batch["tgt_in"])
        probabilities, penalties = [], []
        for t in range(emb.size(1)):
            covered = state.coverage
            dist, attention, state = self.step(emb[:, t], state, memory, src_ext, max_oovs)
            probabilities.append(dist.gather(1, batch["tgt_out"][:, t : t + 1]).squeeze(1))
            penalties.append(torch.min(attention, covered).sum(dim=1))
        return torch.stack(probabilities, dim=1), torch.stack(penalties, dim=1)

"""Beam search and ROUGE; as a script, scores a checkpoint on the validation notes."""

import argparse
from collections import Counter
from itertools import islice
from typing import Any

import torch
from data import START, STOP, UNK, Batch, Vocab, build_loaders, to_device
from model import Memory, PointerGenerator, State
from torch.utils.data import DataLoader


@torch.no_grad()
def beam_search(model: PointerGenerator, batch: Batch, beam: int, max_len: int) -> list[int]:
    """Summarise one note; return the extended ids of the best summary, without <s> and </s>."""
    memory, state = model.encode(batch["src"])
    memory = Memory(*(x.expand(beam, *x.shape[1:]) for x in memory))
    state = State(*(x.expand(beam, *x.shape[1:]) for x in state))
    src_ext = batch["src_ext"].expand(beam, -1)
    device = src_ext.device
    tokens = torch.full((beam,), START, device=device)
    # All beams start alike: only the first may grow, or they would stay alike.
    scores = torch.full((beam,), float("-inf"), device=device)
    scores[0] = 0.0
    live: list[list[int]] = [[] for _ in range(beam)]
    finished: list[tuple[float, list[int]]] = []

    for length in range(1, max_len + 1):
        dist, _, state = model.step(model.embed(tokens), state, memory, src_ext, batch["max_oovs"])
        total = scores.unsqueeze(1) + torch.log(dist + 1e-12)
        best, flat = total.flatten().topk(2 * beam)
        parents: list[int] = []
        grown: list[list[int]] = []
        kept: list[float] = []
        for score, choice in zip(best.tolist(), flat.tolist(), strict=True):
            parent, token = divmod(choice, dist.size(1))
            if token == STOP:
                finished.append((score / length, live[parent]))
            elif len(grown) < beam:
                parents.append(parent)
                grown.append([*live[parent], token])
                kept.append(score)
        live = grown
        if len(finished) >= beam:
            break
        order = torch.tensor(parents, device=device)
        state = State(*(x[order] for x in state))
        scores = torch.tensor(kept, device=device)
        tokens = torch.tensor([words[-1] for words in live], device=device)
        tokens = tokens.masked_fill(tokens >= model.embedding.num_embeddings, UNK)

    if not finished:
        return live[0]
    return max(finished)[1]


def _f1(overlap: int, hypothesis: int, reference: int) -> float:
    return 2 * overlap / (hypothesis + reference) if overlap else 0.0


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def rouge_n(hypothesis: list[str], reference: list[str], n: int) -> float:
    """F1 of the n-grams in common."""
    hyp, ref = _ngrams(hypothesis, n), _ngrams(reference, n)
    return _f1((hyp & ref).total(), hyp.total(), ref.total())


def rouge_l(hypothesis: list[str], reference: list[str]) -> float:
    """F1 of the longest common subsequence."""
    row = [0] * (len(reference) + 1)
    for word in hypothesis:
        diagonal = 0
        for j, other in enumerate(reference, start=1):
            above = row[j]
            row[j] = diagonal + 1 if word == other else max(above, row[j - 1])
            diagonal = above
    return _f1(row[-1], len(hypothesis), len(reference))


def evaluate(
    model: PointerGenerator,
    loader: DataLoader,
    vocab: Vocab,
    cfg: dict[str, Any],
    device: torch.device,
) -> dict[str, float]:
    """Return mean ROUGE F1 of the beam-search summaries of the first validation notes."""
    model.eval()
    beam, max_len = cfg["training"]["beam_size"], cfg["model"]["max_target_len"]
    totals = {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
    count = 0
    for batch in islice(loader, cfg["training"]["max_eval_batches"]):
        batch = to_device(batch, device)
        ids = beam_search(model, batch, beam, max_len)
        hypothesis = vocab.decode(ids, batch["oovs"][0])
        reference = batch["summary"][0].split()
        totals["rouge1"] += rouge_n(hypothesis, reference, 1)
        totals["rouge2"] += rouge_n(hypothesis, reference, 2)
        totals["rougeL"] += rouge_l(hypothesis, reference)
        count += 1
    model.train()
    return {name: total / count for name, total in totals.items()}


def main() -> None:
    """Score a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="runs/<run_name>/best.pt or last.pt")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    saved = torch.load(args.checkpoint, map_location=device)
    _, loader, vocab = build_loaders(saved["config"], cuda=device.type == "cuda")
    model = PointerGenerator(saved["config"]["model"], len(vocab)).to(device)
    model.load_state_dict(saved["model"])
    scores = evaluate(model, loader, vocab, saved["config"], device)
    print(f"step {saved['step']}  " + "  ".join(f"{k} {v:.4f}" for k, v in scores.items()))


if __name__ == "__main__":
    main()

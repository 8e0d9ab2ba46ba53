"""transformers.Trainer on a tiny BERT: 3 x 4, every sample padded to 48 tokens.

Texts hold 12, 24 or 30 tokens in equal numbers, so 54 % of the positions are padding.
"""

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

MAX_LENGTH = 48
LENGTHS = (12, 24, 30)


class Reviews(Dataset):
    """Texts already tokenised, as a tokenizer with padding="max_length" leaves them."""

    def __init__(self, count=240, vocab_size=300):
        generator = torch.Generator().manual_seed(0)
        self.rows = []
        for i in range(count):
            length = LENGTHS[i % len(LENGTHS)]
            ids = torch.zeros(MAX_LENGTH, dtype=torch.long)
            ids[:length] = torch.randint(5, vocab_size, (length,), generator=generator)
            mask = torch.zeros(MAX_LENGTH, dtype=torch.long)
            mask[:length] = 1
            self.rows.append({"input_ids": ids, "attention_mask": mask, "labels": i % 2})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def main():
    config = BertConfig(
        vocab_size=300,
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
    )
    args = TrainingArguments(
        output_dir="hf_output",
        per_device_train_batch_size=3,
        gradient_accumulation_steps=4,
        learning_rate=1e-4,
        max_steps=100_000,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    model = BertForSequenceClassification(config)
    Trainer(model=model, args=args, train_dataset=Reviews()).train()


if __name__ == "__main__":
    main()

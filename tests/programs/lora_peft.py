"""LoRA on a tiny Llama with peft, own loop: 2 x 8 prompts, right-padded to 40 tokens.

Lengths are 16, 24, 32 or 40 in turn, so 30 % of the positions are padding.
"""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

BATCH_SIZE, ACCUM, LENGTH, PAD = 2, 8, 40, 0


def examples(count=320):
    generator = torch.Generator().manual_seed(0)
    for i in range(count):
        n = 16 + 8 * (i % 4)
        ids = torch.randint(3, 250, (n,), generator=generator).tolist()
        fill = LENGTH - n
        yield {
            "input_ids": torch.tensor(ids + [PAD] * fill),
            "attention_mask": torch.tensor([1] * n + [0] * fill),
            "labels": torch.tensor(ids + [-100] * fill),
        }


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=PAD,
    )
    lora = LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM(config), lora)
    model.print_trainable_parameters()
    loader = DataLoader(list(examples()), batch_size=BATCH_SIZE, shuffle=True)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)

    model.train()
    for epoch in range(3000):
        for i, batch in enumerate(loader):
            loss = model(**batch).loss / ACCUM
            loss.backward()
            if (i + 1) % ACCUM == 0:
                torch.nn.utils.clip_grad_norm_(trainable, 1.0)
                optimizer.step()
                optimizer.zero_grad()
        if epoch % 100 == 0:
            print(f"epoch {epoch} loss {loss.item() * ACCUM:.4f}")


if __name__ == "__main__":
    main()

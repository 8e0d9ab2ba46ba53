"""Writes, appends, renames and deletes in its folder and beside it; 40 steps of 6 x 1, exit 0.

At import, at step 0 and every five steps: open, torch.save, safetensors, numpy, sqlite, os, shutil.
"""

import json
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

with open("notes.txt", "a") as notes:
    notes.write("started\n")
Path("old.txt").unlink(missing_ok=True)
Path("vocab.json").write_text(json.dumps({"a": 0, "b": 1}))
database = sqlite3.connect("metrics.db")
database.execute("create table if not exists metrics (step integer, loss real)")


def first_step(model):
    Path("logs").mkdir(exist_ok=True)
    Path("../ckpt_outside").mkdir(exist_ok=True)
    Path("config.yaml").write_text("resolved: true\n")
    if Path("best.pt").exists():
        os.rename("best.pt", "best.pt.bak")
    torch.save(model.state_dict(), "best.pt")
    if Path("cache").is_dir():
        shutil.rmtree("cache")
    os.chmod("vocab.json", 0o600)
    if not os.path.lexists("latest"):
        os.symlink("best.pt", "latest")


def save(step, model, losses):
    torch.save({"step": step, "model": model.state_dict()}, "../ckpt_outside/model.pt")
    save_file(model.state_dict(), "model.safetensors")
    np.save("losses.npy", np.array(losses))
    np.savez("logs/losses.npz", losses=np.array(losses))
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as state:
        json.dump({"step": step, "loss": losses[-1]}, state)
    os.replace(state.name, "state.json")
    shutil.copyfile("best.pt", f"logs/step{step}.pt")
    for stale in sorted(Path("logs").glob("step*.pt"))[:-2]:
        stale.unlink()
    with open("notes.txt", "r+") as notes:
        notes.write(f"step {step:03d}")
    database.execute("insert into metrics values (?, ?)", (step, losses[-1]))
    database.commit()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(40):
        x = torch.randn(6, 40)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0:
            first_step(model)
        if step % 5 == 0:
            save(step, model, losses)
    torch.save(model, "final.pt")
    os.truncate("notes.txt", 8)
    database.close()


if __name__ == "__main__":
    main()

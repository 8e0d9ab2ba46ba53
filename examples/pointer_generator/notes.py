"""Synthetic clinical notes with reference summaries, generated from a seed.

Real notes cannot be shared, so these stand in for them. Drug names follow a long-tailed
distribution and numbers are drawn per note: most of what a summary must get right has to be
copied from the note, because no vocabulary holds it.
"""

import random
from pathlib import Path
from typing import NamedTuple

import yaml

LEXICON = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text())


class Note(NamedTuple):
    """One document and its reference summary, both as space-separated tokens."""

    text: str
    summary: str


class Problem(NamedTuple):
    """What the note says, in three places, about one condition."""

    condition: str
    drug: str
    dose: int
    frequency: str
    lab: str
    value: str
    flag: str
    action: str
    active: bool


def _drug_name(rng: random.Random) -> str:
    parts = rng.choices(LEXICON["drug_parts"], k=rng.randint(2, 3))
    return "".join(parts) + rng.choice(LEXICON["drug_endings"])


def _problem(rng: random.Random, drugs: list[str]) -> Problem:
    # Zipf: a few drugs are everywhere, most are seen once or twice.
    rank = int(len(drugs) ** rng.random()) - 1
    return Problem(
        condition=rng.choice(LEXICON["conditions"]),
        drug=drugs[rank],
        dose=rng.choice(LEXICON["doses"]),
        frequency=rng.choice(LEXICON["frequencies"]),
        lab=rng.choice(LEXICON["labs"]),
        value=f"{rng.lognormvariate(1.5, 1.2):.1f}",
        flag=rng.choice(("high", "low", "normal")),
        action=rng.choice(LEXICON["actions"]),
        active=rng.random() < 0.75,
    )


def _remark(rng: random.Random) -> str:
    """Return one sentence that no summary needs."""
    kind = rng.random()
    if kind < 0.35:
        first, second, third = rng.sample(LEXICON["symptoms"], 3)
        return f"the patient denies {first} , {second} and {third} ."
    if kind < 0.55:
        return rng.choice(LEXICON["exams"])
    if kind < 0.75:
        return rng.choice(LEXICON["social"])
    date = f"{rng.randint(1, 12)}/{rng.randint(1, 28)}/{rng.randint(2012, 2024)}"
    doctor, reason = rng.choice(LEXICON["surnames"]), rng.choice(LEXICON["complaints"])
    return f"seen by dr {doctor} on {date} for {reason} ."


def make_note(rng: random.Random, drugs: list[str]) -> Note:
    """Write one note and the summary a clinician would give of it."""
    # Most notes describe a visit; a few describe a long stay and run past any cap.
    long_stay = rng.random() < 0.004
    count = rng.randint(12, 22) if long_stay else round(rng.lognormvariate(1.15, 0.32))
    length = rng.randint(35, 60) if long_stay else int(rng.lognormvariate(1.4, 0.85))
    problems = [_problem(rng, drugs) for _ in range(max(1, count))]
    remarks = [_remark(rng) for _ in range(length)]
    cut = len(remarks) // 2
    who = f"{rng.randint(19, 94)} year old {rng.choice(('man', 'woman'))}"
    complaint = rng.choice(LEXICON["complaints"]) + f" for {rng.randint(1, 21)} days"
    weeks = rng.randint(1, 12)
    pressure = f"{rng.randint(90, 190)}/{rng.randint(50, 110)}"
    vitals = f"bp {pressure} , heart rate {rng.randint(48, 140)} ."

    history = " , ".join(p.condition for p in problems)
    parts = [f"HPI : {who} with {history} presents with {complaint} .", *remarks[:cut]]
    parts.append("MEDICATIONS :")
    parts += [f"{p.drug} {p.dose} mg {p.frequency} ." for p in problems]
    parts.append(f"EXAM : {vitals}")
    parts += remarks[cut:]
    parts.append("LABS :")
    parts += [f"{p.lab} {p.value} ( {p.flag} ) ." for p in problems]
    parts.append("ASSESSMENT AND PLAN :")
    for number, p in enumerate(problems, start=1):
        plan = f"{p.action} {p.drug} {p.dose} mg" if p.active else "stable , no change"
        parts.append(f"# {number} {p.condition} : {plan} , recheck {p.lab} .")
    parts.append(f"follow up in {weeks} weeks .")

    summary = [f"{who} with {complaint} , {vitals}"]
    for p in problems:
        if p.active:
            summary.append(f"{p.condition} : {p.action} {p.drug} {p.dose} mg , {p.lab} {p.value} .")
    summary.append(f"follow up in {weeks} weeks .")
    return Note(" ".join(parts), " ".join(summary))


def make_corpus(num_train: int, num_val: int, seed: int) -> tuple[list[Note], list[Note]]:
    """Generate the training and validation notes."""
    rng = random.Random(seed)
    drugs = [_drug_name(rng) for _ in range(6000)]
    notes = [make_note(rng, drugs) for _ in range(num_train + num_val)]
    return notes[:num_train], notes[num_train:]

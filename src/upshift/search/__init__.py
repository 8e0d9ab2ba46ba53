"""Search: diagnose, model, try, confirm. It knows no processes: it is given `run(change) → Trial`."""

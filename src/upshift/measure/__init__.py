"""From events to a measured profile: iterations, warm-up, batch, phases, places."""

"""Why a run is slow: findings with evidence, what fixing each would save, and how far the limit is."""

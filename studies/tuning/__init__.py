"""docs/tuning.md; tables that ship, and how good picks are on problems drawn at random."""

"""Output for people: terminal tables, plots and pages made from the ladder and from records."""

"""Measuring: suites of problems, the timing protocol, the baselines and the records that come of it."""

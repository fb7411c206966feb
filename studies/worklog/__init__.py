"""The worklog, a course in pages, one a rung: words written by hand, with figures and numbers made: see pages.py."""

"""Pages of results: docs/results.md, records.md, how-measured.md, lab-notebook.md, worklog/measured.md; and tables of other pages."""

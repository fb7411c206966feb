"""One self-contained HTML page of measured records: charts, comparison, sortable table, environment."""

"""Tables in CSV, TSV, JSON, Parquet and Arrow files, which are loaded into DuckDB."""

"""A table in many Parquet files: read, drawn and written one part at a time."""

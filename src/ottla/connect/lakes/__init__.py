"""Files and tables of data lakes: Parquet, JSON lines, Delta, on disks and in object stores."""

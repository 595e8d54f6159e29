"""Change capture from MariaDB and MySQL: the binary log of rows, and a snapshot beside it."""

"""The worked example: devices at home, technicians, nurses and billing, on topics and Spark.

Read it in this order: `topics`, `rules`, `world` (what devices send), then `technician`, `nurse` and `billing`
(each a class on plain data), and `stream` (what runs them on Spark, exactly once).
"""

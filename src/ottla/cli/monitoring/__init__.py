"""What Prometheus and Grafana need to watch a cluster, as files."""

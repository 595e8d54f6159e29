"""Administration: topics, configs, groups, offsets, transactions, the cluster."""

from ottla.client.admin.facade import Admin

__all__ = ["Admin"]

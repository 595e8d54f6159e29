"""A partition as leader or follower: the high watermark, replicas, waiters."""

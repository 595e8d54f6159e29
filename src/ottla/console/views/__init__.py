"""The pages: each view turns what the sampler and the cluster say into a `Page`."""

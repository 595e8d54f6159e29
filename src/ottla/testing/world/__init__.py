"""The simulated world: the real core under simulated time, disk, network and clients, all from one seed."""

"""The client's core: decisions and coroutines over a `Runtime`; no sockets, threads or clocks of its own."""

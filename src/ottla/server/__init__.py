"""The shell: sockets, disks, clocks, processes."""

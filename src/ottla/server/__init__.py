"""The shell: sockets, disks, clocks, processes."""

from ottla.systems import refuse_windows

refuse_windows()

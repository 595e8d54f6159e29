"""One connection to one broker, on the running asyncio loop: what brokers use among themselves."""

from ottla.client.loop.connection import Connection as Connection

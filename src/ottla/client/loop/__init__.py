"""The core's runtime on an asyncio loop: time, tasks and connections."""

"""Which right each API asks for."""

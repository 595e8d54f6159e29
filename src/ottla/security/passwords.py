"""Files of users with hashed passwords, for pages over HTTP: `NAME:HASH` lines. Pure."""

import hashlib
import hmac

_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}
NOBODY = "scrypt$00$00"  # an unknown name takes as long as a known one


def hash_password(password: str, salt: bytes) -> str:
    """`scrypt$SALT$HASH`. Takes about 50 ms on purpose: not for an event loop."""
    return f"scrypt${salt.hex()}${hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT).hex()}"


def is_password(password: str, hashed: str) -> bool:
    try:
        kind, salt, expected = hashed.split("$")
        actual = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), **_SCRYPT)
    except ValueError:
        return False
    return kind == "scrypt" and hmac.compare_digest(actual, bytes.fromhex(expected))


def read_users(text: str) -> dict[str, str]:
    """`name:hash` lines, as `ottla console --hash-password` prints the hashes."""
    users = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, hashed = line.partition(":")
        if not colon or not hashed.startswith("scrypt$"):
            raise ValueError(
                f"line {number} of the users' file is not NAME:HASH; ottla console --hash-password makes the hash"
            )
        users[name.strip()] = hashed.strip()
    return users

"""Only the optional C kernel; everything else about the package is in pyproject.toml."""

import sys

from setuptools import Extension, setup

# Without a compiler the package works all the same, in plain Python: see ottla.wire.kernel.
kernel = Extension(
    "ottla.wire._kernel",
    sources=[
        f"src/ottla/wire/{name}.c" for name in ("_kernel", "_kernel_crc", "_kernel_columns", "_kernel_rows")
    ],
    depends=["src/ottla/wire/_kernel.h"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
    extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-std=c11", "-fvisibility=hidden"],
)

setup(ext_modules=[kernel], options={"bdist_wheel": {"py_limited_api": "cp311"}})

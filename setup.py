"""Only the optional C parts; everything else about the package is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel


def optional(name: str, sources: list[str], depends: list[str] | None = None) -> Extension:
    """Without a compiler the package works all the same, in plain Python: see ottla.wire.kernel."""
    return Extension(
        name,
        sources=sources,
        depends=depends or [],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        py_limited_api=True,
        optional=True,
        extra_compile_args=[]
        if sys.platform == "win32"
        else ["-O3", "-g0", "-std=c11", "-fvisibility=hidden"],
    )


kernel = optional(
    "ottla.wire._kernel",
    [
        f"src/ottla/wire/{name}.c"
        for name in ("_kernel", "_kernel_crc", "_kernel_columns", "_kernel_ids", "_kernel_rows")
    ],
    ["src/ottla/wire/_kernel.h"],
)
table = optional("ottla.pipelines.state._table", ["src/ottla/pipelines/state/_table.c"])


class Wheel(bdist_wheel):
    """Tagged for what is in it: a wheel without the kernel runs anywhere, and says so."""

    def get_tag(self) -> tuple[str, str, str]:
        built = self.get_finalized_command("build_ext").get_outputs()
        if any(Path(each).exists() for each in built):
            return super().get_tag()
        return "py3", "none", "any"


setup(
    ext_modules=[kernel, table],
    cmdclass={"bdist_wheel": Wheel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

# SPDX-License-Identifier: Apache-2.0
"""
Declares to cffi what engine/tabletfs.h declares, so that the two cannot differ.  setup.py writes the result as
tabletfs/_ffi.py, which needs neither the header nor a parser when it is imported.

The header is plain C, but cffi's parser has no preprocessor: macros with a number are replaced by it, and inline
functions, which a library does not export, are left out.
"""
import ast
import pathlib
import re

import cffi

HEADER = pathlib.Path(__file__).resolve().parent.parent / "engine" / "tabletfs.h"
# Types of the system headers, and the one other function that the package calls.
SYSTEM = """
typedef unsigned int uid_t;
typedef unsigned int gid_t;
typedef unsigned int mode_t;
void free(void *);
"""


def number(text: str) -> "int | None":
    """Evaluates an expression of decimal numbers; None: it is none."""
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text).replace("INT64_MIN", str(-(2**63)))
    if not re.fullmatch(r"[\d\s()*+-]+", text):
        return None
    return int(eval(compile(ast.parse(text.strip(), mode="eval"), "tabletfs.h", "eval")))


def declarations(header: str) -> str:
    """Returns the header's declarations as cffi reads them, and its constants."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header, flags=re.S)
    constants = {name: number(value) for name, value in re.findall(r"^#define (TFS_\w+) (.+)$", text, flags=re.M)}
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"^static inline [^{]*\{.*?^\}$", "", text, flags=re.M | re.S)
    text = re.sub(r"\bTFS_(API|CHECKED)\b", "", text)
    text = re.sub(r"\bTFS_\w+\b", lambda m: m[0] if constants.get(m[0]) is None else str(constants[m[0]]), text)
    text = re.sub(r"\[([^\]]+)\]", lambda m: f"[{number(m[1])}]", text)
    numbers = [f"#define {name} {value}" for name, value in constants.items() if value is not None]
    assert numbers, "the header has no constants"
    return SYSTEM + "\n".join(numbers) + re.sub(r"\s*\n\s*", "\n", text)


ffi = cffi.FFI()
ffi.cdef(declarations(HEADER.read_text()))
ffi.set_source("tabletfs._ffi", None)
if __name__ == "__main__":
    ffi.emit_python_code("tabletfs/_ffi.py")

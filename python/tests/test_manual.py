# SPDX-License-Identifier: Apache-2.0
"""The examples of tabletfs-python(3) print what the page prints."""
import doctest
import os
import re
from pathlib import Path

TREE = Path(os.environ.get("SRC", Path(__file__).resolve().parent.parent.parent))


def examples(page: str) -> str:
    blocks = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", page, re.M | re.S)
    text = "\n".join(blocks)
    for written, printed in ((r"\(aq", "'"), (r"\&", ""), (r"\-", "-"), (r"\e", "\\")):
        text = text.replace(written, printed)
    assert "\\" not in text.replace("\\n", "")
    return text


def test_examples(tmp_path: Path) -> None:
    text = examples((TREE / "man" / "tabletfs-python.3").read_text())
    test = doctest.DocTestParser().get_doctest(text.replace("/data", str(tmp_path / "data")), {}, "tabletfs-python(3)", None, 0)
    assert len(test.examples) > 30
    assert doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test).failed == 0

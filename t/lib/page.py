# SPDX-License-Identifier: Apache-2.0
"""
The sessions of a manual, run as printed.

A session is a .Bd -literal block with lines "$ COMMAND", which lines "> MORE" continue.  The other lines are
output.  Each session begins in the root of the mount.  Times of writing, which are numbers of 16 digits, the
sequence of a row, and the sizes and rates of an import or export may differ.  A block that begins with a line
"# NAME.py" is a file beside the mount.
"""
from tap import *
import glob
import re
import subprocess


def read_page(name):
    """Returns the page's headings, and its sessions: (heading, [[command, output], ...])."""
    headings, sessions, heading, block = [], [], "", None
    for line in open(os.environ["SRC"] + "/man/" + name, encoding="utf-8").read().split("\n"):
        if line.startswith((".Sh ", ".Ss ")):
            heading = line[4:]
            headings.append(heading)
        elif line.startswith(".Bd -literal"):
            block = []
        elif line.startswith(".Ed"):
            if any(text.startswith("$ ") for text in block):
                sessions.append((heading, commands(block)))
            elif re.fullmatch(r"# \w+\.py", block[0]):
                spill(os.path.join(M, "..", block[0][2:]), "\n".join(block).encode())
            block = None
        elif block is not None:
            block.append(plain(line))
    return headings, sessions


def examples():
    """Returns (page, text) of each indented example of each manual page."""
    found = []
    for path in sorted(glob.glob(os.environ["SRC"] + "/man/*.[1-9]")):
        block = None
        for line in open(path, encoding="utf-8").read().split("\n"):
            if line.startswith(".Bd -literal") and "-compact" not in line:
                block = []
            elif line.startswith(".Ed") and block is not None:
                found.append((os.path.basename(path), "\n".join(block)))
                block = None
            elif block is not None:
                block.append(plain(line))
            elif line.startswith(".Dl "):
                found.append((os.path.basename(path), plain(line[4:])))
    return found


def plain(line):
    return line.replace(r"\&", "").replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\(aq", "'").replace(r"\e", "\\")


def commands(block):
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        elif found:
            found[-1][1] += line + "\n"
        else:
            found.append(["false # output without a command", ""])
    return found


def run(session):
    """Runs the commands in one shell.  Returns the output and the exit status of each."""
    script = 'cd "$M"\n'
    for i, (command, _) in enumerate(session):
        script += '{ %s\n} >"$W/out.%d" 2>&1 </dev/null\necho $? >"$W/status.%d"\n' % (command, i, i)
    subprocess.run(["timeout", "-k", "5", "60", "bash", "-c", script], check=False)
    return [(slurp("%s/out.%d" % (W, i)).decode(), slurp("%s/status.%d" % (W, i)).decode().strip()) for i in range(len(session))]


def masked(text):
    text = re.sub(r"^(exported|imported) .* s$", r"\1", text, flags=re.M)
    text = re.sub(r"\b1[78]\d{14}\b", "TIME", text)
    return re.sub(r'"sequence":"[0-9a-f]{16}"', '"sequence":"N"', text)


def layout(command, text):
    """ls prints columns to a terminal, as the pages show, and lines to a pipe."""
    return text.split() if command.startswith("ls ") else text


def run_page(sessions):
    for heading, session in sessions:
        bad = []
        for (command, want), (got, status) in zip(session, run(session)):
            got = re.sub(r"^bash: line \d+: ", "bash: ", got, flags=re.M)
            # A command whose last line lacks a newline is followed by the next prompt.
            got = got if got == "" or got.endswith("\n") else got + "\n"
            if layout(command, masked(got)) != layout(command, masked(want)) or not want and status != "0":
                bad.append("$ %s\n%s(status %s)\nthe page has:\n%s" % (command, got, status, want))
        ok(not bad, "%s: %d commands" % (heading, len(session)))
        note("\n".join(bad))

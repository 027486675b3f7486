"""Runs a program no longer than the process that started it lives, however that one ends.

`python keeper.py PROGRAM ARGUMENTS...` with a pipe as standard input. The pipe's end, or the parent's, is
SIGTERM for the program; a line `kill` is SIGKILL. It ends with the program's exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

_STOP_SECONDS = 15.0


def main() -> None:
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_follow, args=(program,), daemon=True).start()
    for line in sys.stdin:
        if line == "kill\n":
            program.kill()
    program.terminate()
    try:
        program.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
    _follow(program)


def _follow(program: subprocess.Popen[bytes]) -> None:
    code = program.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()

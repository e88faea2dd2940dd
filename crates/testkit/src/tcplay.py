"""Runs tcplay with a terminal, where it asks its questions: tcplay.py PASSWORD WORD..."""

import os
import pty
import sys
import termios
import time

password, words = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("tcplay", ["tcplay", *words])
said, asked = b"", b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        # Nobody has the other end any more.
        break
    said, asked = said + part, asked + part
    for question, answer in ((b"assphrase:", password), (b"(y/n)", "y")):
        if asked.rstrip().endswith(question):
            asked = b""
            # The echo goes off after the question, and what was typed before is thrown away.
            while answer is password and termios.tcgetattr(terminal)[3] & termios.ECHO:
                time.sleep(0.001)
            os.write(terminal, answer.encode() + b"\n")
_, status = os.waitpid(child, 0)
sys.stdout.write(said.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(status) % 256)

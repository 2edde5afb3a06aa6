"""Interrupts at each place of the package where CPython runs signal handlers."""

import dis
import os
import sys
from functools import cache

import morph

FOLDER = os.path.dirname(morph.__file__)
NAMES = ("CALL", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_EX", "CALL_KW",
         "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE")  # fmt: skip
HANDLES = {dis.opmap[name] for name in NAMES if name in dis.opmap}


@cache
def table(code):
    return dis._parse_exception_table(code)


def handlers(code, offset):
    """The exception handlers of an instruction."""
    return [entry.target for entry in table(code) if entry.start <= offset < entry.end]


class Interrupts:
    """Counts the places in files whose paths have a prefix, and raises at one of them."""

    def __init__(self, places, at=0):
        self.places, self.at, self.count, self.before = places, at, 0, {}

    def trace(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.step

    def step(self, frame, event, arg):
        if event != "opcode":
            return self.step
        code, now = frame.f_code, frame.f_lasti
        before = self.before.get(frame, now)
        self.before[frame] = now
        # a handler's exception comes from the instruction before, in whose `with` or `try` it is
        same = handlers(code, before) == handlers(code, now)
        if code.co_code[before] in HANDLES and same and code.co_filename.startswith(self.places):
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self.step

    def run(self, operation, *args):
        """Whether it was interrupted."""
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            operation(*args)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

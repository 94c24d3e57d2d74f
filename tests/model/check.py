#!/usr/bin/env python3
"""Checks lane.pml exhaustively with spin.

    check.py safety        no assertion fails, and whatever cannot move is settled
    check.py termination   nothing goes on for ever
    check.py mutants       deliberate errors in the model are found

Fails if spin finds an error, if it did not visit every state, or if a mutant survives.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
MODEL = "lane.pml"
MEMORY_MB = 1900
DEPTH = 100_000
TIMEOUT_S = 280  # of one search; ctest's own is longer

ASSERTION = "assertion violated"
STUCK = "invalid end state"
ENDLESS = "non-progress cycle"

# -DNOREDUCE: steps share nearly all of the state, so that a reduction would find nothing. Without
# progress labels in the model, every cycle is a non-progress cycle.
SAFETY = (["-DSAFETY", "-DNOREDUCE"], [])
CYCLES = (["-DNP", "-DNOREDUCE"], ["-l"])

# Macro, what is wrong with it, how it must show; sizes where the default ones are not the best.
MUTANTS = [
    ("NO_REPLAY", "a new epoch starts with the next frame, not with the reader's", ASSERTION, []),
    ("FORGETS_ON_SENT", "frames are kept until on_sent, not until their credit", ASSERTION, []),
    ("FORGETS_ON_CREDIT", "frames are kept until their credit, not until on_sent", ASSERTION, []),
    ("NO_DUPLICATE_CHECK", "a sequence seen before is published again", ASSERTION, []),
    ("UNMAPS_LENT", "a reset takes slots away that are lent", ASSERTION, []),
    ("FREES_OUT_OF_ORDER", "a release frees all slots before its own", ASSERTION, []),
    ("CREDITS_WHAT_IS_TAKEN", "slots count as free once they are taken", ASSERTION, []),
    ("RESUMES_AT_RELEASED", "the reader asks again for what it published", ASSERTION, []),
    ("REUSES_ARENAS", "late frames of an old epoch land in the new arena", ASSERTION,
     ["LATE_COPIES", "FAULTS=0"]),
    ("IGNORES_EQUAL_HELLO", "of two equal proposals each end waits for the other", STUCK,
     ["FRAMES=1", "FAULTS=0"]),
    ("RESUMES_TO_IDLE", "a port added while the peer was suspect does not open the link", STUCK,
     ["FRAMES=1", "FAULTS=0"]),
    ("NO_PROBE", "a lost credit is not asked for", STUCK, []),
    ("ANSWERS_EVERY_HELLO", "both ends reply to each other's HELLO", ENDLESS,
     ["FRAMES=1", "FAULTS=0"]),
]


class Checker:
    def __init__(self, spin, compiler):
        self.spin = spin
        self.compiler = compiler

    def search(self, defines, compile_flags, pan_flags):
        """Returns what pan prints."""
        with tempfile.TemporaryDirectory(prefix="lane_model_") as folder:
            for part in FOLDER.glob("*.pml"):
                shutil.copy(part, folder)

            def run(*command):
                done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
                if done.returncode != 0:
                    raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}")
                return done.stdout

            run(self.spin, *[f"-D{define}" for define in defines], "-a", MODEL)
            # -w: what spin generates is not ours to correct.
            run(self.compiler, "-w", "-O2", f"-DMEMLIM={MEMORY_MB}", *compile_flags, "-o", "pan",
                "pan.c")
            return run("./pan", f"-m{DEPTH}", "-w22", *pan_flags)

    def clean(self, name, defines, how):
        """Whether the whole space was searched and no error found."""
        output = self.search(defines, *how)
        errors = re.search(r"errors: (\d+)", output)
        states = re.search(r"(\d+) states, stored", output)
        whole = ("Full statespace search" in output and "not completed" not in output
                 and "max search depth too small" not in output and "out of memory" not in output)
        ok = whole and errors is not None and errors.group(1) == "0" and states is not None
        print(f"{name}: {'ok' if ok else 'FAILED'}, {states.group(1) if states else '?'} states")
        if not ok:
            print(output)
        return ok

    def caught(self, macro, wrong, symptom, defines):
        output = self.search([macro, *defines], *(CYCLES if symptom == ENDLESS else SAFETY))
        ok = re.search(rf"^pan:1: {symptom}", output, re.MULTILINE) is not None
        print(f"{macro} ({wrong}): {'caught' if ok else 'SURVIVED'}")
        if not ok:
            print(output)
        return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["safety", "termination", "mutants"])
    parser.add_argument("--spin", default="spin")
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    checker = Checker(arguments.spin, arguments.compiler)
    if arguments.what == "safety":
        results = [
            checker.clean("resets and a fault", [], SAFETY),
            checker.clean("two faults", ["FRAMES=4", "RESETS=1", "FAULTS=2"], SAFETY),
            checker.clean("late copies", ["FRAMES=4", "FAULTS=0", "LATE_COPIES"], SAFETY),
        ]
    elif arguments.what == "termination":
        results = [checker.clean("cycles", ["FRAMES=4"], CYCLES)]
    else:
        results = [checker.caught(*mutant) for mutant in MUTANTS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

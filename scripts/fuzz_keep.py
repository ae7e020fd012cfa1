"""Chooses the inputs that reach most, for scripts/fuzz: fuzz_keep.py FILE MOST prints their paths.

FILE is the control file of a merge with -set_cover_merge, in which libFuzzer says what each input reaches. The input that reaches
most is first, and then each time the one that adds most; of two that add the same the shorter one.
"""

import heapq
import sys


def read(path):
    """The inputs with their lengths, and what each reaches."""
    with open(path) as file:
        lines = file.read().split("\n")
    paths = lines[2 : 2 + int(lines[0])]
    lengths, reached = {}, {}
    for line in lines[2 + len(paths) :]:
        words = line.split()
        if words[:1] == ["STARTED"]:
            lengths[int(words[1])] = int(words[2])
        elif words[:1] == ["FT"]:
            reached[int(words[1])] = set(words[2:])
    return [(paths[at], lengths[at], reach) for at, reach in sorted(reached.items())]


def chosen(inputs, most):
    """What an input adds only becomes less, so a value that is still the greatest after a new look is the greatest."""
    known = set()
    heap = [(-len(reach), length, at) for at, (_, length, reach) in enumerate(inputs)]
    heapq.heapify(heap)
    while heap and most > 0:
        _, length, at = heapq.heappop(heap)
        path, _, reach = inputs[at]
        adds = (-len(reach - known), length, at)
        if heap and adds > heap[0]:
            heapq.heappush(heap, adds)
        elif adds[0] < 0:
            known |= reach
            most -= 1
            yield path


for path in chosen(read(sys.argv[1]), int(sys.argv[2])):
    print(path)

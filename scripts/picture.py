"""Writes a picture again with 64 colours, cut off after 900 lines.

Usage: picture.py FROM TO, both PNG; FROM has 8 bits for each of three or four channels and is not interlaced.
"""

import collections
import struct
import sys
import zlib

COLOURS = 64
LINES = 900
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(data: bytes):
    at = len(SIGNATURE)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + length]
        at += 12 + length


def lines(data: bytes):
    """The width, how many bytes a pixel has, and the first lines."""
    parts = collections.defaultdict(bytes)
    for kind, part in chunks(data):
        parts[kind] += part
    width, height, bits, colours, _, _, interlaced = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    if bits != 8 or colours not in (2, 6) or interlaced:
        sys.exit("only PNG with 8 bits for each of three or four channels")
    size = 3 if colours == 2 else 4
    raw = zlib.decompress(parts[b"IDAT"])
    stride = width * size
    above = bytearray(stride)
    found = []
    for y in range(min(height, LINES)):
        begin = y * (stride + 1)
        kind, line = raw[begin], bytearray(raw[begin + 1:begin + 1 + stride])
        for x in range(stride if kind else 0):
            left = line[x - size] if x >= size else 0
            corner = above[x - size] if x >= size else 0
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = above[x]
            elif kind == 3:
                guess = (left + above[x]) // 2
            else:
                p = left + above[x] - corner
                guess = min((left, above[x], corner), key=lambda it: abs(p - it))
            line[x] = (line[x] + guess) & 255
        found.append([tuple(line[x:x + 3]) for x in range(0, stride, size)])
        above = line
    return width, found


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    width, found = lines(open(sys.argv[1], "rb").read())
    counts = collections.Counter(pixel for line in found for pixel in line)
    palette = []
    # Colours that are nearly the same take one place.
    for apart in (12, 0):
        for colour, _ in counts.most_common():
            if len(palette) == COLOURS:
                break
            if colour not in palette and all(
                    sum(abs(a - b) for a, b in zip(colour, other)) > apart for other in palette):
                palette.append(colour)
    nearest = {}
    for colour in counts:
        nearest[colour] = min(range(len(palette)),
                              key=lambda at: sum((a - b) ** 2 for a, b in zip(colour, palette[at])))
    raw = b"".join(b"\0" + bytes(nearest[pixel] for pixel in line) for line in found)
    header = struct.pack(">IIBBBBB", width, len(found), 8, 3, 0, 0, 0)
    data = (SIGNATURE + chunk(b"IHDR", header) + chunk(b"PLTE", bytes(part for colour in palette for part in colour))
            + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))
    open(sys.argv[2], "wb").write(data)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A recorded feed through PyPI itchfeed: every message is decoded, and encoded again to its bytes.

usage: itch_decode.py FILE [--require AEDR…]

FILE is in BinaryFILE form: before each message its length, two bytes, big-endian. Prints one JSON
object with the count of each kind. Exit code 0 if all held, 1 if something did not.
"""

import argparse
import json
import sys
from collections import Counter


def frames(recording):
    """The messages of a recording, and nothing left over."""
    at = 0
    while at < len(recording):
        length = int.from_bytes(recording[at : at + 2], "big")
        message = recording[at + 2 : at + 2 + length]
        if length == 0 or len(message) != length:
            raise ValueError(f"offset {at}: a message of {length} bytes, {len(message)} are there")
        yield at, message
        at += 2 + length


def check(recording, required):
    # Here, so that others can read frames without the package.
    from itch.parser import MessageParser

    # The parser's own loop over a file stops at the end-of-messages event, so it is given each
    # message by itself.
    parser = MessageParser()
    kinds = Counter()
    for at, message in frames(recording):
        kind = chr(message[0])
        try:
            decoded = parser.get_message_type(message)
        except ValueError as error:
            raise ValueError(f"offset {at}: {error} ({message.hex()})") from error
        encoded = bytes(decoded.to_bytes())
        if encoded != message:
            raise ValueError(f"offset {at}: {kind} was {message.hex()}, became {encoded.hex()}")
        kinds[kind] += 1
    missing = [kind for kind in required if not kinds[kind]]
    if missing:
        raise ValueError(f"the recording has no {', '.join(missing)}; it has {dict(kinds)}")
    return kinds


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("file")
    arguments.add_argument("--require", default="", help="kinds that must be there, like SRAE")
    arguments = arguments.parse_args()
    try:
        with open(arguments.file, "rb") as file:
            kinds = check(file.read(), arguments.require)
        outcome = {
            "check": "itch_decode",
            "ok": True,
            "messages": sum(kinds.values()),
            "kinds": dict(sorted(kinds.items())),
        }
    except (OSError, ValueError) as failure:
        outcome = {"check": "itch_decode", "ok": False, "why": str(failure)}
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

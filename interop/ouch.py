"""OUCH 5.0 in as few words as the checks need: requests as bytes, replies as fields.

Written from docs/wire/ouch.md, and not from the Rust code that it helps to check.
"""

import struct
from collections import namedtuple

DAY, IMMEDIATE_OR_CANCEL = b"0", b"3"
VISIBLE, ATTRIBUTABLE = b"Y", b"A"
PRICE_SCALE = 10_000  # a price has four implied decimals

Reply = namedtuple("Reply", "kind timestamp user_ref_num fields")


def alpha(text, length):
    """Left-justified, padded with spaces."""
    field = text.encode("ascii").ljust(length)
    if len(field) != length:
        raise ValueError(f"{text!r} is longer than {length}")
    return field


def price(text):
    """'150.34' as the integer on the wire, without a float on the way."""
    whole, _, fraction = text.partition(".")
    return int(whole) * PRICE_SCALE + int(fraction.ljust(4, "0"))


def enter(number, side, quantity, symbol, at, client_order_id, time_in_force=DAY, display=VISIBLE):
    return struct.pack(
        ">cI1sI8sQ1s1s1s1s1s14sH",
        b"O", number, side, quantity, alpha(symbol, 8), price(at), time_in_force, display,
        b"P", b"N", b"N", alpha(client_order_id, 14), 0,
    )


def replace(original, number, quantity, at, client_order_id):
    return struct.pack(
        ">cIIIQ1s1s1s14sH",
        b"U", original, number, quantity, price(at), DAY, VISIBLE, b"N",
        alpha(client_order_id, 14), 0,
    )


def cancel(number, intended):
    return struct.pack(">cII", b"X", number, intended)


def account_query():
    return b"Q"


# What follows type and timestamp in each reply: a struct format and the names of its fields, each
# reply with its least length; what comes after is the appendage.
LAYOUTS = {
    "S": ("1s", "event_code"),
    "A": ("I1sI8sQ1s1sQ1s1s1s1s14s", "user_ref_num side quantity symbol price time_in_force "
          "display order_reference_number capacity sweep cross_type order_state client_order_id"),
    "U": ("II1sI8sQ1s1sQ1s1s1s1s14s", "original user_ref_num side quantity symbol price "
          "time_in_force display order_reference_number capacity sweep cross_type order_state "
          "client_order_id"),
    "C": ("II1s", "user_ref_num quantity reason"),
    "E": ("IIQ1sQ", "user_ref_num quantity price liquidity_flag match_number"),
    "J": ("IH14s", "user_ref_num reason client_order_id"),
    "Q": ("I", "next_user_ref_num"),
}


def reply(message):
    """Reads a reply; a kind the checks never ask for, or a wrong length, is an error."""
    kind = chr(message[0])
    if kind not in LAYOUTS:
        raise ValueError(f"a reply of kind {kind!r} was not asked for: {message.hex()}")
    layout, names = LAYOUTS[kind]
    layout = ">Q" + layout
    end = 1 + struct.calcsize(layout)
    values = struct.unpack(layout, message[1:end])
    check_appendage(message[end:], message)
    fields = dict(zip(names.split(), values[1:]))
    return Reply(kind, values[0], fields.get("user_ref_num"), fields)


def check_appendage(rest, message):
    """Nothing, or a length and as many bytes of well-formed elements."""
    if not rest:
        return
    (length,) = struct.unpack(">H", rest[:2])
    elements = rest[2:]
    if len(elements) != length:
        raise ValueError(f"appendage of {len(elements)} bytes says {length}: {message.hex()}")
    while elements:
        taken = 1 + elements[0]
        if elements[0] == 0 or taken > len(elements):
            raise ValueError(f"broken element in the appendage: {message.hex()}")
        elements = elements[taken:]

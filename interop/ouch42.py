#!/usr/bin/env python3
"""OUCH 4.2 over a real socket, and what tshark makes of it, field by field.

usage: ouch42.py trade PORT RUN FILE     (sends the day, writes every message to FILE, a line each)
       ouch42.py check PCAP PORT FILE    (compares what tshark decodes with FILE)

The layouts are the tables of docs/wire/ouch42.md. `trade` checks each reply; RUN is part of every token, so that it runs
against a venue in use. `check` wants every field of every message under tshark's own name, with the same bytes, in the
order in which they were sent. Prints one JSON object. Exit code 0 if all held, 1 if something did not.
"""

import collections
import json
import pathlib
import re
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs/wire/ouch42.md"
REPLY_SECONDS = 30.0
# tshark's names, where they are not those of the specification.
NAMES = {
    "message_type": "packet_type", "intermarket_sweep_eligibility": "iso_eligible", "time_in_force": "tif",
    "minimum_quantity": "min_quantity",
}
REASONS = {"C": "cancel_reason", "D": "cancel_reason", "J": "reject_reason", "B": "broken_trade_reason"}


class Failed(Exception):
    """What did not hold."""


def layouts():
    """By direction and type: name, offset and length of each field."""
    tables = {}
    for key, table in re.findall(r"<!-- ((?:in|out):.) -->\n(.*?)(?:\n\n|\Z)", PAGE.read_text(), re.S):
        rows = [line.split("|") for line in table.splitlines()[2:]]
        tables[key] = [(row[4].strip(), int(row[1]), int(row[2])) for row in rows]
    return tables


LAYOUTS = layouts()


def encode(kind, **values):
    """The bytes of a request: texts are padded, numbers are big-endian."""
    message = b""
    for name, _, length in LAYOUTS[f"in:{kind}"]:
        value = kind if name == "message_type" else values.pop(name)
        message += value.to_bytes(length, "big") if isinstance(value, int) else value.ljust(length).encode()
    if values:
        raise ValueError(f"{kind} has no {', '.join(values)}")
    return message


def decode(direction, message):
    """The fields of a message as bytes, by name."""
    rows = LAYOUTS.get(f"{direction}:{chr(message[0])}")
    if rows is None or len(message) != rows[-1][1] + rows[-1][2]:
        raise Failed(f"no message of OUCH 4.2: {message.hex()}")
    return {name: message[offset:offset + length] for name, offset, length in rows}


class Client:
    """A session over SoupBinTCP."""

    def __init__(self, port, user, password, log):
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.settimeout(REPLY_SECONDS)
        self.reader = self.stream.makefile("rb")
        self.log = log
        self.packet(b"L", user.encode().ljust(6) + password.encode().ljust(10) + b" " * 10 + b"0".rjust(20))
        kind, text = self.receive()
        if kind != b"A":
            raise Failed(f"the login is refused: {kind} {text}")

    def packet(self, kind, payload=b""):
        self.stream.sendall((1 + len(payload)).to_bytes(2, "big") + kind + payload)

    def receive(self):
        length = int.from_bytes(self.reader.read(2), "big")
        packet = self.reader.read(length)
        if not packet:
            raise Failed("the venue closed the connection")
        if packet[:1] == b"S":
            self.log.append(("out", packet[1:]))
        return packet[:1], packet[1:]

    def send(self, message):
        self.log.append(("in", message))
        self.packet(b"U", message)

    def expect(self, kind, **values):
        """The next reply; its fields must have these values. Older ones of the session are passed over."""
        while True:
            packet, message = self.receive()
            if packet == b"+":
                raise Failed(f"the venue says: {message.decode()}")
            if packet != b"S":
                continue
            fields = decode("out", message)
            token = values.get("order_token") or values.get("replacement_order_token")
            found = fields.get("order_token") or fields.get("replacement_order_token")
            if found is None or found.decode().rstrip() != token:
                continue
            if chr(message[0]) != kind:
                raise Failed(f"{message} is no {kind}")
            for name, value in values.items():
                held = fields[name]
                held = int.from_bytes(held, "big") if isinstance(value, int) else held.decode().rstrip()
                if held != value:
                    raise Failed(f"{name} of {kind} is {held} and not {value}: {message.hex()}")
            return fields


def enter(token, side, shares, price, seconds=99998, stock="AAPL", display="Y"):
    return encode(
        "O", order_token=token, buy_sell_indicator=side, shares=shares, stock=stock, price=price,
        time_in_force=seconds, firm="", display=display, capacity="P", intermarket_sweep_eligibility="N",
        minimum_quantity=0, cross_type="N", customer_type="N",
    )


def trade(port, run, file):
    log = []
    seller = Client(port, "OLD01", "old01", log)
    buyer = Client(port, "OLD02", "old02", log)

    def token(name):
        return f"{run}{name}"

    one, two, buy = token("SELL1"), token("SELL2"), token("BUY")
    seller.send(enter(one, "T", 100, 1503400))
    accepted = seller.expect("A", order_token=one, shares=100, price=1503400, time_in_force=99998, order_state="L")
    seller.send(enter(one, "T", 100, 1503400))  # sent again: ignored
    buyer.send(enter(buy, "B", 40, 1503400, seconds=0))
    buyer.expect("A", order_token=buy, shares=40, time_in_force=0)
    executed = buyer.expect("E", order_token=buy, executed_shares=40, execution_price=1503400, liquidity_flag="R")
    maker = seller.expect("E", order_token=one, executed_shares=40, execution_price=1503400, liquidity_flag="A")
    if maker["match_number"] != executed["match_number"]:
        raise Failed("a trade has two numbers")
    seller.send(encode(
        "U", existing_order_token=one, replacement_order_token=two, shares=90, price=1503500, time_in_force=600,
        display="P", intermarket_sweep_eligibility="N", minimum_quantity=0,
    ))
    replaced = seller.expect(
        "U", replacement_order_token=two, previous_order_token=one, shares=50, price=1503500, display="P"
    )
    if replaced["order_reference_number"] == accepted["order_reference_number"]:
        raise Failed("a replacement has a name of its own on the feed")
    seller.send(encode("M", order_token=two, buy_sell_indicator="E", shares=80))
    seller.expect("M", order_token=two, buy_sell_indicator="E", shares=40)
    seller.send(encode("X", order_token=two, shares=60))
    seller.expect("C", order_token=two, decrement_shares=20, reason="U")
    seller.send(encode("X", order_token=two, shares=0))
    seller.expect("C", order_token=two, decrement_shares=20, reason="U")
    odd = token("ODD")
    seller.send(enter(odd, "S", 1, 1503400, stock="NONE"))
    seller.expect("J", order_token=odd, reason="S")
    for client in [seller, buyer]:
        client.packet(b"O")
        while client.reader.read(1024):
            pass
    lines = "".join(f"{direction} {message.hex()}\n" for direction, message in log)
    with open(file, "a") as out:
        out.write(lines)
    return {"check": "ouch42", "run": run, "messages": len(log)}


def expected_fields(direction, message):
    """Name and bytes of each field, as tshark has them. It shows the type of a message with its packet."""
    kind = chr(message[0])
    for name, value in decode(direction, message).items():
        name = REASONS[kind] if name == "reason" else NAMES.get(name, name)
        yield f"ouch.{name}", value.hex()


def check(pcap, port, file):
    decoded = subprocess.run(
        ["tshark", "-r", pcap, "-d", f"tcp.port=={port},soupbintcp", "-Y", "ouch", "-T", "pdml"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if decoded.returncode != 0:
        raise Failed(f"tshark cannot read {pcap}: {decoded.stderr.strip()}")
    # Two sessions send at once: each message counts, whatever comes between.
    seen = collections.Counter()
    for proto in ElementTree.fromstring(decoded.stdout).iter("proto"):
        if proto.get("name") == "ouch":
            fields = [field for field in proto.iter("field") if field.get("name")]
            seen[tuple((field.get("name"), field.get("value")) for field in fields)] += 1
    sent = collections.Counter()
    kinds = set()
    for line in pathlib.Path(file).read_text().splitlines():
        direction, text = line.split()
        message = bytes.fromhex(text)
        sent[tuple(expected_fields(direction, message))] += 1
        kinds.add(f"{direction}:{chr(message[0])}")
    for missing in sent - seen:
        close = [other for other in seen if other[:3] == missing[:3]]
        raise Failed(f"tshark decodes no {missing}; it has {close[:1]}")
    for more in seen - sent:
        raise Failed(f"tshark decodes {more}, which was not sent")
    fields = sum(len(message) * count for message, count in sent.items())
    return {"check": "ouch42 by tshark", "messages": sent.total(), "fields": fields, "kinds": sorted(kinds)}


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("trade", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    verb, first, second, third = sys.argv[1:]
    try:
        outcome = trade(int(first), second, third) if verb == "trade" else check(first, int(second), third)
    except (Failed, OSError) as failure:
        print(json.dumps({"ok": False, "why": str(failure)}))
        return 1
    print(json.dumps({"ok": True, **outcome}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

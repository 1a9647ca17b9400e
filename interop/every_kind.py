"""Trading that leaves each kind of ITCH message that a venue sends in its feed.

Two participants over SoupBinTCP, two by FIX, whose quantities are as large as the venue's, and an operator by
`damrak ctl`. Each step waits for its reply, so that the feed has all of it when `trade` and `trade_large` return.
"""

import datetime
import json
import socket
import struct
import subprocess

import ouch

# The kinds that docs/wire/itch.md says are sent; the others are only read.
SENT = "SRHAFECXDUPpQBIJ"
# Of one order, in `trade_large`: what the feed shows of it, and the rest, both in 32 bits and more.
LARGE_LOTS = 3 << 32
SHOWN_LOTS_MAX = (1 << 32) - 1
REPLY_SECONDS = 30.0
HIDDEN = b"N"


class Session:
    """A participant: sends requests, and waits for the replies to them."""

    def __init__(self, address, user, password):
        self.stream = socket.create_connection(address)
        self.stream.settimeout(REPLY_SECONDS)
        self.reader = self.stream.makefile("rb")
        self.packet(b"L", user.encode().ljust(6) + password.encode().ljust(10) + b" " * 10 + b"0".rjust(20))
        self.packet(b"U", ouch.account_query())
        (self.next,) = struct.unpack(">I", self.reply(b"Q")[9:13])

    def packet(self, kind, payload=b""):
        self.stream.sendall((1 + len(payload)).to_bytes(2, "big") + kind + payload)

    def reply(self, kind, number=None):
        """The next reply of this kind, about this order if one is given."""
        while True:
            length = int.from_bytes(self.reader.read(2), "big")
            packet = self.reader.read(length)
            if not packet or packet[:1] == b"J":
                raise ValueError(f"the venue ended the session: {packet!r}")
            message = packet[1:]
            if packet[:1] != b"S":
                continue
            if message[:1] == b"J":
                raise ValueError(f"an order was rejected: {message.hex()}")
            if message[:1] == kind and number in (None, int.from_bytes(message[9:13], "big")):
                return message

    def enter(self, side, quantity, symbol, price, display=ouch.VISIBLE):
        """Enters an order and waits until it is accepted; its number."""
        number = self.next
        self.next += 1
        self.packet(b"U", ouch.enter(number, side, quantity, symbol, price, f"K{number}", display=display))
        self.reply(b"A", number)
        return number

    def executed(self, number):
        """The match number of the next execution of an order."""
        return int.from_bytes(self.reply(b"E", number)[26:34], "big")

    def cancel(self, number, intended):
        self.packet(b"U", ouch.cancel(number, intended))
        self.reply(b"C", number)

    def replace(self, original, quantity, price):
        number = self.next
        self.next += 1
        self.packet(b"U", ouch.replace(original, number, quantity, price, f"K{number}"))
        self.reply(b"U")


def ctl(damrak, journal, *words):
    """A command of the operator; it is in the feed's log when this returns."""
    done = subprocess.run(
        [damrak, "ctl", *words, "--journal", str(journal), "--operator", "interop", "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=REPLY_SECONDS,
    )
    if done.returncode != 0:
        raise ValueError(f"damrak ctl {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def trade(damrak, address, journal):
    """Everything that can happen in a feed, once or more."""
    seller, buyer = Session(address, "user01", "password01"), Session(address, "user02", "password02")

    # A, F; E; X; D; U
    plain = seller.enter(b"S", 100, "AAPL", "150.00")
    named = seller.enter(b"S", 100, "AAPL", "151.00", display=ouch.ATTRIBUTABLE)
    buyer.enter(b"B", 40, "AAPL", "150.00")
    first = seller.executed(plain)
    seller.cancel(plain, 80)
    seller.cancel(plain, 0)
    seller.cancel(named, 0)
    kept = seller.enter(b"S", 100, "AAPL", "152.00")
    seller.replace(kept, 100, "153.00")

    # P of a hidden order; B; B and P of a correction
    hidden = seller.enter(b"S", 50, "AAPL", "149.00", display=HIDDEN)
    buyer.enter(b"B", 50, "AAPL", "149.00")
    second = seller.executed(hidden)
    ctl(damrak, journal, "bust", str(first), "--reason", "erroneous")
    ctl(damrak, journal, "correct", str(second), "--price", "148.50", "--quantity", "50")

    # H, I, C, Q of an auction
    ctl(damrak, journal, "auction", "AAPL", "--release", "600")
    crossing = seller.enter(b"S", 100, "AAPL", "150.00")
    buyer.enter(b"B", 100, "AAPL", "150.00")
    ctl(damrak, journal, "release", "AAPL")
    seller.executed(crossing)

    # J of a volatility auction
    for key, value in [("reference_price", "100"), ("static_band_ppm", "50000"), ("pause", "600")]:
        ctl(damrak, journal, "configure", "MSFT", key, value)
    seller.enter(b"S", 100, "MSFT", "110.00")
    buyer.enter(b"B", 100, "MSFT", "110.00")


class FixSession:
    """A participant by FIX 4.4, whose numbers begin with 1."""

    def __init__(self, address, user, password):
        self.stream = socket.create_connection(address)
        self.stream.settimeout(REPLY_SECONDS)
        self.user, self.sent, self.rest = user, 0, b""
        self.send("A", "98=0|108=30|141=Y|554=" + password)
        self.reply("35=A")

    def send(self, kind, fields):
        self.sent += 1
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H:%M:%S.%f")[:-3]
        head = f"35={kind}|49={self.user}|56=DAMRAK|34={self.sent}|52={now}|"
        body = (head + fields.replace("@NOW@", now) + "|").replace("|", "\x01").encode()
        text = b"8=FIX.4.4\x019=%d\x01" % len(body) + body
        self.stream.sendall(text + b"10=%03d\x01" % (sum(text) % 256))

    def reply(self, *fields):
        """The next message that has these fields."""
        while True:
            while b"\x0110=" not in self.rest or not self.rest.endswith(b"\x01"):
                received = self.stream.recv(65536)
                if not received:
                    raise ValueError(f"the venue ended the session of {self.user}: {self.rest!r}")
                self.rest += received
            end = self.rest.index(b"\x0110=") + 8
            message, self.rest = self.rest[:end].decode().split("\x01"), self.rest[end:]
            if "35=3" in message or "150=8" in message:
                raise ValueError(f"the venue rejects: {message}")
            if all(field in message for field in fields):
                return message

    def enter(self, side, lots, symbol, price):
        order = f"11=W|21=1|55={symbol}|54={side}|38={lots}|40=2|44={price}|59=0|60=@NOW@"
        self.send("D", order)
        self.reply("35=8", "150=0")


def trade_large(address):
    """One trade of LARGE_LOTS: the feed shows what 32 bits say of the resting order, and prints the rest by a `p`."""
    seller, buyer = FixSession(address, "ALICE", "alice"), FixSession(address, "BOB", "bob")
    seller.enter(2, LARGE_LOTS, "AAPL", "1.00")
    buyer.enter(1, LARGE_LOTS, "AAPL", "1.00")
    for session in [seller, buyer]:
        session.reply("35=8", f"14={LARGE_LOTS}", "151=0")


def check_large(rows):
    """All lots of the trade are in the feed: what was shown is executed, and the rest is printed with its number."""
    executed = [row for row in rows if row["message_type"] == "E" and int(row["executed_shares"]) == SHOWN_LOTS_MAX]
    printed = [row for row in rows if row["message_type"] == "p"]
    lots = [int(row["shares"]) for row in printed]
    if len(executed) != 1 or lots != [LARGE_LOTS - SHOWN_LOTS_MAX]:
        raise ValueError(f"of {LARGE_LOTS} lots {len(executed)} x {SHOWN_LOTS_MAX} are executed, {lots} printed")
    if executed[0]["match_number"] != printed[0]["match_number"]:
        raise ValueError(f"the print is not of the trade {executed[0]['match_number']}: {printed[0]}")

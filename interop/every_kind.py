"""Trading that leaves each kind of ITCH message that a venue sends in its feed.

Two participants over SoupBinTCP, and an operator by `damrak ctl`. Each step waits for its reply, so that the feed
has all of it when `trade` returns.
"""

import json
import socket
import struct
import subprocess

import ouch

# The kinds that docs/wire/itch.md says are sent; the others are only read.
SENT = "SRHAFECXDUPQBIJ"
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

#!/usr/bin/env python3
"""Derived market data by HTTP against the feed, with the standard library alone.

usage: market_data.py --damrak target/release/damrak --addresses JSON --work FOLDER

While a load trades, a stream of everything is read and the levels are rebuilt from its snapshots and deltas. Then
the feed is recorded from its first message, and orders, levels, trades and statistics are built from its bytes, order by
order. Stream, answers and feed must agree. Prints one JSON object; exit code 0 if all held, 1 if something did not.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

SYMBOLS = ["AAPL", "MSFT"]
DEPTH = 50
# How long the stream may take to have what the feed has, once nothing trades any more.
SETTLED_WITHIN = 20.0


class Failed(Exception):
    """What did not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)


def ask(base, path):
    with urllib.request.urlopen(base + path, timeout=10) as answer:
        return json.load(answer)


class Stream(threading.Thread):
    """The events of a stream, and what they lead to."""

    def __init__(self, base):
        super().__init__(daemon=True)
        query = f"symbol={','.join(SYMBOLS)}&kind=levels,top,trades,statistics&depth={DEPTH}"
        self.answer = urllib.request.urlopen(f"{base}/market/stream?{query}", timeout=60)
        self.lock = threading.Lock()
        self.levels, self.sequences, self.trades, self.last = {}, {}, [], {}
        self.counts, self.error = {}, None

    def run(self):
        event = None
        try:
            for line in self.answer:
                line = line.decode().rstrip("\n")
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    with self.lock:
                        self.take(event, json.loads(line.removeprefix("data: ")))
        except Exception as error:  # Whatever it is, the check says it.
            self.error = error

    def take(self, event, data):
        self.counts[event] = self.counts.get(event, 0) + 1
        symbol = data.get("symbol")
        if event == "snapshot":
            self.levels[symbol] = {"bids": {}, "asks": {}}
        elif event == "delta":
            require(data["after"] == self.sequences[symbol], f"a delta after {data['after']}")
        elif event == "trade":
            self.trades.append(data)
        elif event in ("top", "statistics"):
            self.last[event, symbol] = data
        if event in ("snapshot", "delta"):
            self.sequences[symbol] = data["sequence"]
            for side in ("bids", "asks"):
                for level in data[side]:
                    if level["orders"]:
                        self.levels[symbol][side][level["price"]] = (level["lots"], level["orders"])
                    else:
                        self.levels[symbol][side].pop(level["price"])

    def sides(self, symbol):
        with self.lock:
            return {side: dict(levels) for side, levels in self.levels.get(symbol, {}).items()}


class Feed:
    """Books and trades from the bytes of ITCH 5.0, as the specification has them."""

    def __init__(self):
        self.orders, self.symbols, self.trades, self.messages = {}, {}, {}, 0
        # A time of day before the last one is of the next day.
        self.day, self.time = 0, 0

    def take(self, message):
        self.messages += 1
        kind, locate = chr(message[0]), struct.unpack_from(">H", message, 1)[0]
        number = lambda place, size: int.from_bytes(message[place:place + size], "big")
        self.day += number(5, 6) < self.time
        self.time = number(5, 6)
        if kind == "R":
            self.symbols[locate] = message[11:19].decode().rstrip()
        elif kind in "AF":
            self.orders[number(11, 8)] = [locate, chr(message[19]), number(32, 4), number(20, 4)]
        elif kind in "EC":
            order, lots = number(11, 8), number(19, 4)
            printed = kind == "E" or chr(message[31]) == "Y"
            price = self.orders[order][2] if kind == "E" else number(32, 4)
            self.reduce(order, lots)
            if printed:
                self.trade(locate, number(23, 8), price, lots)
        elif kind == "X":
            self.reduce(number(11, 8), number(19, 4))
        elif kind == "D":
            del self.orders[number(11, 8)]
        elif kind == "U":
            of, side, _, _ = self.orders.pop(number(11, 8))
            self.orders[number(19, 8)] = [of, side, number(31, 4), number(27, 4)]
        elif kind == "P":
            self.trade(locate, number(36, 8), number(32, 4), number(20, 4))
        elif kind == "Q" and number(11, 8):
            self.trade(locate, number(31, 8), number(27, 4), number(11, 8))

    def reduce(self, order, lots):
        self.orders[order][3] -= lots
        if not self.orders[order][3]:
            del self.orders[order]

    def trade(self, locate, match, price, lots):
        self.trades.setdefault(locate, []).append((match, price, lots, self.day))

    def sides(self, locate):
        """The best levels of both sides, as the stream names them."""
        totals = {"B": {}, "S": {}}
        for of, side, price, lots in self.orders.values():
            if of == locate:
                total = totals[side].get(price, (0, 0))
                totals[side][price] = (total[0] + lots, total[1] + 1)
        best = {"bids": sorted(totals["B"], reverse=True)[:DEPTH], "asks": sorted(totals["S"])[:DEPTH]}
        sides = {"bids": totals["B"], "asks": totals["S"]}
        return {side: {decimal(price): sides[side][price] for price in best[side]} for side in best}


def decimal(ticks):
    return f"{ticks // 10_000}.{ticks % 10_000:04}"


def recorded(file):
    """The messages of a BinaryFILE: two bytes of length before each, and none after the last."""
    content, place = file.read_bytes(), 0
    while place < len(content):
        length = int.from_bytes(content[place:place + 2], "big")
        place += 2
        if length:
            yield content[place:place + length]
        place += length


def check(damrak, addresses, work):
    base = f"http://{addresses['admin']}"
    stream = Stream(base)
    stream.start()
    began = {symbol: ask(base, f"/market/{symbol}/statistics")["trades"] for symbol in SYMBOLS}
    run = lambda *words: subprocess.run(
        [damrak, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=60
    )
    run("load", "--to", addresses["order_entry"], "--snapshot", addresses["snapshot"], "--session", "user03:password03",
        "--rate", "3k/s", "--for", "3s", "--no-floor")
    file = work / "market_data.bin"
    run("feed", "--until-caught-up", "--from-start", "--tcp", addresses["feed_tcp"], "--record", str(file))
    feed = Feed()
    for message in recorded(file):
        feed.take(message)
    locates = {symbol: locate for locate, symbol in feed.symbols.items()}
    wait_until_settled(base, stream, feed, locates)
    for symbol in SYMBOLS:
        compare(base, stream, feed, symbol, locates[symbol], began[symbol])
    refused(base)
    require(stream.counts.get("delta", 0) > 10, f"too few events: {stream.counts}")
    require("gap" not in stream.counts, "a stream that is read lost trades")
    return {"messages": feed.messages, "events": stream.counts}


def wait_until_settled(base, stream, feed, locates):
    until = time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < until and stream.error is None:
        if all(stream.sides(symbol) == feed.sides(locates[symbol]) for symbol in SYMBOLS):
            return
        time.sleep(0.2)
    require(stream.error is None, f"the stream ended: {stream.error!r}")
    symbol = next(it for it in SYMBOLS if stream.sides(it) != feed.sides(locates[it]))
    raise Failed(f"{symbol}: the stream has {stream.sides(symbol)}, and the feed {feed.sides(locates[symbol])}")


def compare(base, stream, feed, symbol, locate, began):
    answer = ask(base, f"/market/{symbol}/levels?depth={DEPTH}")
    sides = {
        side: {level["price"]: (level["lots"], level["orders"]) for level in answer[side]}
        for side in ("bids", "asks")
    }
    require(sides == feed.sides(locate), f"{symbol}: levels {sides}")
    for side, sign in (("bids", -1), ("asks", 1)):
        prices = [sign * float(level["price"]) for level in answer[side]]
        require(prices == sorted(prices), f"{symbol}: the {side} are not best first")
    top = ask(base, f"/market/{symbol}/top")
    for side, levels in (("bid", answer["bids"]), ("ask", answer["asks"])):
        require(top[side] == (levels[0] if levels else None), f"{symbol}: top {top}")
    require(stream.last["top", symbol]["bid"] == top["bid"], f"{symbol}: the last event of the top")
    trades = feed.trades.get(locate, [])
    require(trades, f"{symbol} did not trade")
    of_day = [trade for trade in trades if trade[3] == trades[-1][3]]
    prices = [price for _, price, _, _ in of_day]
    expected = {
        "open": decimal(prices[0]), "high": decimal(max(prices)), "low": decimal(min(prices)),
        "last": decimal(prices[-1]), "volume": sum(it[2] for it in of_day), "trades": len(of_day),
        "undone": 0, "undone_unknown": 0, "is_whole_day": True,
    }
    for found in (ask(base, f"/market/{symbol}/statistics"), stream.last["statistics", symbol]):
        found = {name: found[name] for name in expected}
        require(found == expected, f"{symbol}: statistics {found}, and by the feed {expected}")
    tape = [(it["match_number"], it["price"], it["lots"]) for it in stream.trades if it["symbol"] == symbol]
    known = [(match, decimal(price), lots) for match, price, lots, _ in trades]
    require(tape == known[len(known) - len(tape):], f"{symbol}: other trades than those of the feed")
    # The stream began before the figures were asked for.
    require(len(tape) >= len(of_day) - began, f"{symbol}: {len(tape)} trades in the stream of {len(of_day)}")
    page = ask(base, f"/market/{symbol}/trades?last=20")["trades"]
    require([it["match_number"] for it in page] == [it[0] for it in known[-20:]], f"{symbol}: the last trades")


def refused(base):
    for path, status, reason in [
        ("/market/NONE/top", 404, "unknown_symbol"),
        ("/market/AAPL/levels?depth=0", 400, "bad_query"),
        ("/market/stream", 400, "bad_query"),
    ]:
        try:
            ask(base, path)
        except urllib.error.HTTPError as error:
            found = error.code, json.load(error)["reason"]
            require(found == (status, reason), f"{path}: {found}")
        else:
            raise Failed(f"{path} was answered")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--damrak", required=True)
    parser.add_argument("--addresses", required=True, help="as the venue's first line has them")
    parser.add_argument("--work", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    outcome = {"check": "market_data", "ok": True}
    try:
        outcome |= check(arguments.damrak, json.loads(arguments.addresses), arguments.work)
    except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as failed:
        outcome |= {"ok": False, "why": f"{type(failed).__name__}: {failed}"}
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

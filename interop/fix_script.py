#!/usr/bin/env python3
"""A day of two FIX sessions and a drop copy of both, for any engine that takes the lines of quickfix/initiator.cpp.

usage: fix_script.py trade|resume ENGINE HOST PORT VERSION STORE RUN

`trade` resets the numbers of ALICE, BOB and COPY, asks for the instruments, then enters, fills in part, replaces, cancels and is
rejected; one order stays. COPY gets the reports of both, and may not trade. The engine is killed at its end, without a Logout. `resume` logs ALICE and COPY on with the numbers in STORE, perhaps after
the venue was killed too: it makes a gap in each direction and has both filled, for COPY too, cancels the order and logs out. RUN is
part of every ClOrdID, so both run against a venue that has been in use.

Prints one JSON object. Exit code 0 if all held, 1 if something did not.
"""

import json
import pathlib
import queue
import subprocess
import sys
import threading

REPLY_SECONDS = 60.0


class Failed(Exception):
    """What did not hold."""


def settings_text(host, port, version, store, mode, names):
    """The settings that every QuickFIX reads. A session lasts all day; with `reset` both its numbers begin at 1."""
    lines = [
        "[DEFAULT]", "ConnectionType=initiator", "HeartBtInt=30", "ReconnectInterval=1", "StartTime=00:00:00",
        "EndTime=00:00:00", "UseDataDictionary=N", f"FileStorePath={store}", "TargetCompID=DAMRAK",
        f"BeginString={version}", f"SocketConnectHost={host}", f"SocketConnectPort={port}",
        f"ResetOnLogon={'Y' if mode == 'reset' else 'N'}",
    ]
    if version == "FIXT.1.1":
        lines.append("DefaultApplVerID=FIX.5.0SP1")
    for name in names:
        lines += ["[SESSION]", f"SenderCompID={name}"]
    return "\n".join(lines) + "\n"


class Engine:
    """A FIX engine in a process of its own."""

    def __init__(self, program, host, port, version, store, mode, names):
        self.version = version
        # One store may serve two engines at a time, with other names.
        settings = pathlib.Path(store) / f"{'-'.join(names)}.cfg"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(settings_text(host, port, version, store, mode, names))
        self.process = subprocess.Popen(
            [program, settings, version],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read_lines, daemon=True).start()
        self.kept = []

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")

    def send(self, name, kind, **fields):
        if self.version == "FIX.4.2" and kind in "DG":
            fields["_21"] = "1"
        text = "|".join(f"{tag[1:]}={value}" for tag, value in fields.items())
        self.tell("send", name, kind, text)

    def wait(self, kind, name, **expected):
        """The next thing of a kind that this name receives; its fields must be these."""
        start = f"{kind} {name} "
        for index, line in enumerate(self.kept):
            if line.startswith(start):
                return self.check(self.kept.pop(index), expected)
        while True:
            try:
                line = self.lines.get(timeout=REPLY_SECONDS)
            except queue.Empty:
                raise Failed(f"no {kind} for {name} within {REPLY_SECONDS} s") from None
            if line is None:
                raise Failed(f"the engine ended with exit code {self.process.wait()}")
            if line.startswith(start):
                return self.check(line, expected)
            self.kept.append(line)

    def check(self, line, expected):
        fields = dict(field.split("=", 1) for field in line.split(" ", 2)[2].split("|") if "=" in field)
        return self.compare(fields, expected)

    def compare(self, fields, expected):
        for tag, value in expected.items():
            if fields.get(tag[1:]) != value:
                raise Failed(f"tag {tag[1:]} is {fields.get(tag[1:])} and not {value} in {fields}")
        return fields

    def wait_for_session(self, name, msg_type):
        """Passes over messages of the session until one of this type."""
        while True:
            fields = self.wait("session", name)
            if fields["35"] == msg_type:
                return fields

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.tell("stop")
        if self.process.wait(REPLY_SECONDS) != 0:
            raise Failed(f"the engine ended with exit code {self.process.returncode}")


def trade(engine, run):
    old = engine.version == "FIX.4.2"
    part, last = ("1", "2") if old else ("F", "F")
    for name in ["ALICE", "BOB", "COPY"]:
        engine.wait("logon", name)
    ask(engine)
    terms = {"_55": "AAPL", "_40": "2", "_59": "0"}

    def a(number):
        return f"{run}-A{number}"

    engine.send("ALICE", "D", _11=a(1), _54="2", _38="100", _44="150.34", **terms)
    engine.wait("app", "ALICE", _35="8", _150="0", _39="0", _11=a(1), _151="100")
    engine.send("BOB", "D", **{**terms, "_11": f"{run}-B1", "_54": "1", "_38": "40", "_44": "150.34", "_59": "3"})
    engine.wait("app", "BOB", _35="8", _150="0")
    engine.wait("app", "BOB", _150=last, _39="2", _14="40", _6="150.34", _31="150.34")
    engine.wait("app", "ALICE", _150=part, _39="1", _11=a(1), _14="40", _151="60")
    engine.send("ALICE", "G", _11=a(2), _41=a(1), _54="2", _38="200", _44="150.35", **terms)
    engine.wait("app", "ALICE", _150="5", _39="1", _11=a(2), _41=a(1), _38="200", _151="160")
    engine.send("ALICE", "F", _11=a(3), _41=a(2), _55="AAPL", _54="2", _38="200")
    engine.wait("app", "ALICE", _150="4", _39="4", _11=a(3), _41=a(2), _14="40", _151="0")
    # Rejects: of a cancel, of an unknown instrument, of a name that was used, of a field by the session.
    engine.send("ALICE", "F", _11=a(4), _41=a(2), _55="AAPL", _54="2", _38="200")
    engine.wait("app", "ALICE", _35="9", _39="4", _102="0", _434="1")
    engine.send("ALICE", "D", **{**terms, "_11": a(5), "_55": "NONE", "_54": "2", "_38": "1", "_44": "1"})
    engine.wait("app", "ALICE", _150="8", _39="8", _103="1")
    engine.send("ALICE", "D", _11=a(1), _54="2", _38="1", _44="150.34", **terms)
    engine.wait("app", "ALICE", _150="8", _39="8", _103="6")
    engine.send("ALICE", "D", _11=a(6), _54="2", _38="ten", _44="150.34", **terms)
    if engine.wait_for_session("ALICE", "3").get("371") != "38":
        raise Failed("the Reject names another field than OrderQty")
    # This order rests while engine and venue are killed.
    engine.send("ALICE", "D", _11=a(7), _54="2", _38="10", _44="151", **terms)
    engine.wait("app", "ALICE", _150="0", _11=a(7))
    for expected in copied(engine, run):
        engine.wait("app", "COPY", **expected)
    engine.send("COPY", "D", _11=f"{run}-C1", _54="2", _38="10", _44="151", **terms)
    engine.wait("app", "COPY", _35="j", _372="D", _380="3" if old else "6")


def ask(engine):
    """The instruments, their status and that of the day."""
    if engine.version == "FIX.4.2":
        engine.send("ALICE", "c", _320="ALL", _321="3")
        for symbol in ["AAPL", "MSFT"]:
            engine.wait("app", "ALICE", _35="d", _320="ALL", _323="4", _393="2", _55=symbol)
    engine.send("ALICE", "c", _320="ONE", _321="0", _55="AAPL")
    engine.wait("app", "ALICE", _35="d", _320="ONE", _323="1", _55="AAPL")
    engine.send("ALICE", "e", _324="NOW", _55="AAPL", _263="0")
    engine.wait("app", "ALICE", _35="f", _324="NOW", _55="AAPL", _326="17")
    engine.send("ALICE", "g", _335="DAY", _263="0")
    engine.wait("app", "ALICE", _35="h", _335="DAY", _336="DAY", _340="2")


def copied(engine, run):
    """What the drop copy gets of `trade`."""
    part, last = ("1", "2") if engine.version == "FIX.4.2" else ("F", "F")
    alice, bob = ({"_35": "8", "_115": name} for name in ["ALICE", "BOB"])
    return [
        {**alice, "_150": "0", "_11": f"{run}-A1"},
        {**bob, "_150": "0", "_11": f"{run}-B1"},
        {**alice, "_150": part, "_11": f"{run}-A1", "_14": "40", "_151": "60"},
        {**bob, "_150": last, "_39": "2", "_11": f"{run}-B1", "_14": "40"},
        {**alice, "_150": "5", "_11": f"{run}-A2", "_41": f"{run}-A1"},
        {**alice, "_150": "4", "_11": f"{run}-A3", "_41": f"{run}-A2"},
        {**alice, "_150": "0", "_11": f"{run}-A7"},
    ]


def resume(engine, run):
    def a(number):
        return f"{run}-A{number}"

    order = {"_55": "AAPL", "_54": "2"}
    for name in ["ALICE", "COPY"]:
        engine.wait("logon", name)
    # The engine may have died before it noted a message: it asks for that by itself.
    engine.send("ALICE", "H", _11=a(7), **order)
    while "43" in engine.wait("app", "ALICE", _11=a(7), _39="0", _151="10"):
        pass
    # A gap of the venue's: this side forgets the reports of the day, and asks for them.
    engine.tell("expect", "ALICE", "2")
    engine.send("ALICE", "H", _11=a(7), **order)
    answers = "dddfh" if engine.version == "FIX.4.2" else "dfh"
    for expected in [
        *({"_35": kind} for kind in answers),
        {"_35": "8", "_150": "0", "_11": a(1)}, {"_14": "40"}, {"_150": "5", "_11": a(2)},
        {"_150": "4", "_11": a(3)}, {"_35": "9"}, {"_103": "1"}, {"_103": "6"}, {"_150": "0", "_11": a(7)},
        {"_39": "0", "_11": a(7), "_151": "10"},
    ]:
        engine.wait("app", "ALICE", _43="Y", **expected)
    # The second status was in the gap too, or comes behind it.
    engine.wait("app", "ALICE", _39="0", _11=a(7), _151="10")
    # The drop copy forgets its reports too; the cancel below shows it the gap.
    engine.tell("expect", "COPY", "2")
    # A gap of this side's: the venue asks for what it did not get, and this side fills it.
    engine.tell("skip", "ALICE", "3")
    engine.send("ALICE", "F", _11=a(8), _41=a(7), _38="10", **order)
    engine.wait_for_session("ALICE", "2")
    engine.wait("app", "ALICE", _39="4", _11=a(8), _41=a(7))
    # What it asked for by itself before comes first.
    first, *rest = copied(engine, run)
    while (fields := engine.wait("app", "COPY"))["34"] != "2":
        pass
    engine.compare(fields, {**first, "_43": "Y"})
    for expected in [*rest, {"_35": "j"}]:
        engine.wait("app", "COPY", _43="Y", **expected)
    # As it came, or again.
    engine.wait("app", "COPY", _150="4", _115="ALICE", _11=a(8), _41=a(7))
    engine.stop()
    engine.wait_for_session("ALICE", "5")


def data(orders, feed, run):
    """BOB sees at the port of market data what ALICE does to a book."""
    orders.wait("logon", "ALICE")
    feed.wait("logon", "BOB")
    # One kind of entries and one instrument a request: the engines are told fields, and no groups.
    asked = {"_263": "1", "_264": "1", "_265": "1", "_267": "1", "_146": "1", "_55": "MSFT"}
    for kind in "012":
        feed.send("BOB", "V", _262=f"{run}-{kind}", _269=kind, **asked)
        feed.wait("app", "BOB", _35="W", _262=f"{run}-{kind}", _55="MSFT")
    feed.send("BOB", "V", **{**asked, "_262": f"{run}-N", "_269": "0", "_55": "NONE"})
    feed.wait("app", "BOB", _35="Y", _262=f"{run}-N", _281="0")
    terms = {"_55": "MSFT", "_40": "2", "_59": "0"}
    orders.send("ALICE", "D", _11=f"{run}-D1", _54="2", _38="100", _44="99.5", **terms)
    offer = {"_35": "X", "_262": f"{run}-1", "_269": "1", "_270": "99.5"}
    feed.wait("app", "BOB", _279="0", _271="100", **offer)
    orders.send("ALICE", "D", **{**terms, "_11": f"{run}-D2", "_54": "1", "_38": "40", "_44": "99.5", "_59": "3"})
    kept = {"trade": {"_262": f"{run}-2", "_269": "2", "_279": "0", "_270": "99.5", "_271": "40"},
            "offer": {**offer, "_279": "1", "_271": "60"}}
    while kept:
        fields = feed.wait("app", "BOB", _35="X")
        kind = "trade" if fields["262"] == f"{run}-2" else "offer"
        feed.compare(fields, kept.pop(kind))
    orders.send("ALICE", "F", _11=f"{run}-D3", _41=f"{run}-D1", _55="MSFT", _54="2", _38="100")
    feed.wait("app", "BOB", _279="2", **offer)
    feed.send("BOB", "D", _11=f"{run}-D4", _54="2", _38="100", _44="99.5", **terms)
    feed.wait("app", "BOB", _35="j", _372="D", _380="3")
    for engine, name in [(orders, "ALICE"), (feed, "BOB")]:
        engine.stop()
        engine.wait_for_session(name, "5")


def play_data(program, addresses, version, store, run):
    """Plays the script of market data, at the ports of order entry and of market data."""
    (order_host, order_port), (data_host, data_port) = addresses
    orders = Engine(program, order_host, order_port, version, store, "reset", ["ALICE"])
    feed = Engine(program, data_host, data_port, version, store, "reset", ["BOB"])
    try:
        data(orders, feed, run)
    except Failed as failure:
        raise Failed(f"{version} market data: {failure}") from None
    finally:
        orders.kill()
        feed.kill()


def play(script, program, address, version, store, run):
    """Plays a script; raises Failed where something does not hold."""
    host, port = address
    mode, names = ("reset", ["ALICE", "BOB", "COPY"]) if script == "trade" else ("resume", ["ALICE", "COPY"])
    engine = Engine(program, host, port, version, store, mode, names)
    try:
        (trade if script == "trade" else resume)(engine, run)
    except Failed as failure:
        raise Failed(f"{version} {script}: {failure}") from None
    finally:
        engine.kill()


def main():
    if len(sys.argv) != 8 or sys.argv[1] not in ("trade", "resume"):
        print(__doc__, file=sys.stderr)
        return 2
    script, program, host, port, version, store, run = sys.argv[1:]
    try:
        play(script, program, (host, port), version, store, run)
    except Failed as failure:
        print(json.dumps({"ok": False, "why": str(failure)}))
        return 1
    print(json.dumps({"ok": True, "check": "fix", "version": version, "script": script, "run": run}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

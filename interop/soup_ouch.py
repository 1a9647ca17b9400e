#!/usr/bin/env python3
"""Nasdaq's own client library against a venue: SoupBinTCP by PyPI nasdaq-protocols, OUCH inside.

Two sessions log in. The first enters an order and the second trades with it; the first replaces
the rest of it and cancels that. The first logs out, logs in again from number 1 and then from a
number in the middle, and must receive the same bytes again. Two logins that must be refused are.

usage: soup_ouch.py HOST PORT [--symbol AAPL] [--price 150.34]
       [--user user01:password01] [--other user02:password02]

Prints one JSON object. Exit code 0 if all held, 1 if something did not.
"""

import argparse
import asyncio
import json
import sys
import time

from nasdaq_protocols import soup

import ouch

REPLY_SECONDS = 5.0
# A reply stream is at rest when nothing has come for this long.
QUIET_SECONDS = 0.3


class Failed(Exception):
    """What did not hold."""


def require(holds, what):
    if not holds:
        raise Failed(what)


class Recorder(soup.SoupClientSession):
    """The library's session, which also keeps what arrives, in the order in which it does."""

    def __init__(self):
        super().__init__(client_heartbeat_interval=1, server_heartbeat_interval=15)
        self.first_number = None
        self.messages = []
        self.arrived = asyncio.Event()

    async def on_message(self, msg):
        if isinstance(msg, soup.LoginAccepted):
            self.first_number = int(msg.sequence)
        elif isinstance(msg, soup.SequencedData):
            self.messages.append(bytes(msg.data))
        self.arrived.set()
        await super().on_message(msg)


class Client:
    """A logged-in session that speaks OUCH."""

    def __init__(self, session):
        self.session = session
        self.read = 0
        self.next_number = None

    @classmethod
    async def login(cls, address, account, sequence=1, session_id=""):
        """Logs in; a session that the venue has not yet seen ending is tried again."""
        user, password = account
        deadline = time.monotonic() + REPLY_SECONDS
        while True:
            try:
                session = await soup.connect_async(
                    address, user, password, session_id, sequence, session_factory=Recorder
                )
                return cls(session)
            except ConnectionRefusedError as refusal:
                if "SESSION_NOT_AVAILABLE" not in str(refusal) or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)

    async def at_rest(self):
        """Waits until nothing more comes, and leaves what came unread no longer."""
        while True:
            self.session.arrived.clear()
            try:
                await asyncio.wait_for(self.session.arrived.wait(), QUIET_SECONDS)
            except asyncio.TimeoutError:
                self.read = len(self.session.messages)
                return

    async def expect(self, kind, **fields):
        """The next reply, which must be of this kind with these fields."""
        deadline = time.monotonic() + REPLY_SECONDS
        while len(self.session.messages) == self.read:
            left = deadline - time.monotonic()
            require(left > 0, f"no {kind} came within {REPLY_SECONDS} s")
            self.session.arrived.clear()
            if len(self.session.messages) > self.read:
                break
            try:
                await asyncio.wait_for(self.session.arrived.wait(), left)
            except asyncio.TimeoutError:
                pass
        reply = ouch.reply(self.session.messages[self.read])
        self.read += 1
        require(reply.kind == kind, f"expected {kind} {fields}, came {reply}")
        for name, wanted in fields.items():
            got = reply.fields[name]
            require(got == wanted, f"{kind}: {name} is {got!r}, expected {wanted!r}: {reply}")
        return reply

    async def sync_number(self):
        """Asks the venue for the next usable number."""
        self.session.send_unseq_data(ouch.account_query())
        self.next_number = (await self.expect("Q")).fields["next_user_ref_num"]

    def number(self):
        number = self.next_number
        self.next_number += 1
        return number

    def send(self, message):
        self.session.send_unseq_data(message)

    async def logout(self):
        self.session.logout()
        deadline = time.monotonic() + REPLY_SECONDS
        while not self.session.is_closed():
            require(time.monotonic() < deadline, "the session does not close after its logout")
            await asyncio.sleep(0.01)


async def trade(first, second, symbol, at):
    """Enter, trade, replace, cancel; every reply is what the specification says."""
    await first.sync_number()
    await second.sync_number()
    limit = ouch.price(at)
    name = ouch.alpha(symbol, 8)

    resting = first.number()
    first.send(ouch.enter(resting, b"B", 500, symbol, at, "RESTING", display=ouch.ATTRIBUTABLE))
    accepted = await first.expect(
        "A", user_ref_num=resting, side=b"B", quantity=500, symbol=name, price=limit,
        order_state=b"L", client_order_id=ouch.alpha("RESTING", 14),
    )

    taker = second.number()
    second.send(
        ouch.enter(taker, b"S", 200, symbol, at, "TAKER", time_in_force=ouch.IMMEDIATE_OR_CANCEL)
    )
    await second.expect("A", user_ref_num=taker, side=b"S", quantity=200, symbol=name)
    removed = await second.expect(
        "E", user_ref_num=taker, quantity=200, price=limit, liquidity_flag=b"R"
    )
    added = await first.expect(
        "E", user_ref_num=resting, quantity=200, price=limit, liquidity_flag=b"A",
        match_number=removed.fields["match_number"],
    )

    # 600 for the chain, of which 200 are executed.
    replacement = first.number()
    first.send(ouch.replace(resting, replacement, 600, at, "REPLACED"))
    replaced = await first.expect(
        "U", original=resting, user_ref_num=replacement, quantity=400, price=limit,
        order_state=b"L", client_order_id=ouch.alpha("REPLACED", 14),
    )
    numbers = [r.fields["order_reference_number"] for r in (accepted, replaced)]
    require(numbers[0] != numbers[1], "a replacement has a reference number of its own")

    # An order above what rests is taken only as far as it goes, and the rest of it is canceled.
    sweeper = second.number()
    second.send(
        ouch.enter(sweeper, b"S", 150, symbol, at, "SWEEPER", time_in_force=ouch.IMMEDIATE_OR_CANCEL)
    )
    await second.expect("A", user_ref_num=sweeper)
    await second.expect("E", user_ref_num=sweeper, quantity=150, price=limit)
    await first.expect("E", user_ref_num=replacement, quantity=150, price=limit)

    first.send(ouch.cancel(replacement, 0))
    await first.expect("C", user_ref_num=replacement, quantity=250, reason=b"U")
    late = second.number()
    second.send(
        ouch.enter(late, b"S", 100, symbol, at, "LATE", time_in_force=ouch.IMMEDIATE_OR_CANCEL)
    )
    await second.expect("A", user_ref_num=late)
    await second.expect("C", user_ref_num=late, quantity=100, reason=b"I")

    wrong = first.number()
    first.send(ouch.enter(wrong, b"B", 100, "NOSUCH", at, "WRONG"))
    await first.expect("J", user_ref_num=wrong, client_order_id=ouch.alpha("WRONG", 14))
    return added.fields["match_number"]


async def read_again(address, account, number, stream):
    """Logs in from a number and requires the very bytes that the stream has from there on."""
    client = await Client.login(address, account, sequence=number)
    require(
        client.session.first_number == number,
        f"asked for number {number}, the venue starts at {client.session.first_number}",
    )
    await client.at_rest()
    again = client.session.messages
    await client.logout()
    wanted = stream[number - 1 :]
    require(len(again) == len(wanted), f"from {number}: {len(again)} messages, not {len(wanted)}")
    for offset, (old, new) in enumerate(zip(wanted, again)):
        require(old == new, f"message {number + offset} was {old.hex()}, is {new.hex()}")


async def refused(address, account, reason, sequence=1):
    """The venue says no, and why."""
    try:
        session = await soup.connect_async(address, *account, "", sequence, session_factory=Recorder)
    except ConnectionRefusedError as refusal:
        require(reason in str(refusal), f"refused for {refusal}, expected {reason}")
        return
    session.logout()
    raise Failed(f"{account[0]} from {sequence} was let in, expected {reason}")


async def check(arguments):
    address = (arguments.host, arguments.port)
    user, other = (tuple(a.split(":", 1)) for a in (arguments.user, arguments.other))

    first = await Client.login(address, user)
    second = await Client.login(address, other)
    require(first.session.first_number == 1, "a login from 1 starts at 1")
    await first.at_rest()
    await second.at_rest()
    match_number = await trade(first, second, arguments.symbol, arguments.price)
    await first.at_rest()
    stream = list(first.session.messages)
    await first.logout()

    middle = len(stream) // 2 + 1
    await read_again(address, user, 1, stream)
    await read_again(address, user, middle, stream)
    await refused(address, (user[0], "wrong"), "NOT_AUTHORIZED")
    await second.logout()
    return {
        "check": "soup_ouch",
        "ok": True,
        "messages": len(stream),
        "read_again_from": [1, middle],
        "match_number": match_number,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--symbol", default="AAPL")
    parser.add_argument("--price", default="150.34")
    parser.add_argument("--user", default="user01:password01")
    parser.add_argument("--other", default="user02:password02")
    arguments = parser.parse_args()
    try:
        outcome = asyncio.run(check(arguments))
    except (Failed, ValueError, ConnectionError, asyncio.TimeoutError) as failure:
        outcome = {"check": "soup_ouch", "ok": False, "why": str(failure) or repr(failure)}
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

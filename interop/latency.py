#!/usr/bin/env python3
"""The latencies of `damrak load` and those of a packet capture of the same run.

usage: latency.py PACKETS PORT LOAD_JSON

The capture's latency of a request is the time from the packet on loopback that completes the request to the packet
that completes its answer. The generator's is the time from when the request was due to when its answer was read. So
the generator's has more in it: making and sending the request, and reading the answer. The check holds if

* both have the same number of answered requests,
* at no percentile the generator's latency is the shorter one,
* the medians differ by less than 5 %, or by less than 20 us where that is more: what the way between the process
  and the packet takes on both sides.

The last line is the outcome.
"""

import json
import struct
import subprocess
import sys

import ouch

SHARE_MAX = 0.05
BOUNDARY_NS = 20_000
# The generator keeps latencies to three digits.
DIGITS = 0.998
QUANTILES = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
# The share of time without a core from which on the generator warns, because its figures say more of the machine.
CORE_WAIT_SHARE_MAX = 0.01


class Incomplete(Exception):
    """The capture lacks packets, so it says nothing."""


def segments(packets, port):
    """Bytes of the connections to the port: stream, is_request, nanoseconds, payload; each byte once, in order."""
    done = subprocess.run(
        [
            "tshark", "-r", packets, "--disable-protocol", "soupbintcp", "-o", "tcp.relative_sequence_numbers:true",
            "-Y", f"tcp.port == {port} && (tcp.len > 0 || tcp.flags.syn == 1)", "-T", "fields",
            "-e", "frame.time_epoch", "-e", "tcp.stream", "-e", "tcp.dstport", "-e", "tcp.seq",
            "-e", "tcp.flags.syn", "-e", "tcp.payload",
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"tshark cannot read {packets}: {done.stderr.strip()}")
    expected = {}
    for line in done.stdout.splitlines():
        time, stream, to_port, sequence, syn, payload = line.split("\t")
        direction = stream, int(to_port) == port
        if syn in ("1", "True"):
            expected[direction] = int(sequence) + 1
            continue
        begin = expected.get(direction)
        if begin is None:
            raise Incomplete(f"the capture lacks the beginning of stream {stream}")
        sequence, payload = int(sequence), bytes.fromhex(payload.replace(":", ""))
        if sequence > begin:
            raise Incomplete(f"the capture lacks bytes before sequence number {sequence} of stream {stream}")
        expected[direction] = max(begin, sequence + len(payload))
        yield *direction, nanoseconds(time), payload[begin - sequence:]


def nanoseconds(time):
    """'1700000000.123456789' without a float on the way."""
    whole, _, fraction = time.partition(".")
    return int(whole) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


def messages(packets, port):
    """OUCH messages in their order: is_request, nanoseconds of the packet that completes it, bytes."""
    waiting = {}
    for stream, is_request, time, payload in segments(packets, port):
        held = waiting.get((stream, is_request), b"") + payload
        while len(held) >= 2 and len(held) >= 2 + int.from_bytes(held[:2], "big"):
            end = 2 + int.from_bytes(held[:2], "big")
            kind, message, held = held[2:3], held[3:end], held[end:]
            if kind == (b"U" if is_request else b"S"):
                yield stream, is_request, time, message
        waiting[stream, is_request] = held


def request_key(message):
    """What the answer to a request is found by; None if it is not one of an order."""
    kind = message[:1]
    if kind == b"O":
        return "order", struct.unpack(">I", message[1:5])[0]
    if kind == b"U":
        return "order", struct.unpack(">II", message[1:9])[1]
    if kind == b"X":
        return "cancel", struct.unpack(">I", message[1:5])[0]
    return None


def answer_key(message):
    reply = ouch.reply(message)
    if reply.kind in "AUJ":
        return "order", reply.user_ref_num
    if reply.kind == "C" and reply.fields["reason"] == b"U":
        return "cancel", reply.user_ref_num
    return None


def captured(packets, port):
    """Latencies in nanoseconds, in no order."""
    asked, latencies = {}, []
    for stream, is_request, time, message in messages(packets, port):
        key = request_key(message) if is_request else answer_key(message)
        if key is None:
            continue
        if is_request:
            asked[stream, key] = time
        elif (stream, key) in asked:
            latencies.append(time - asked.pop((stream, key)))
    return latencies


def quantile(counts, share):
    """The least latency that this share of them does not exceed; `counts` has pairs of latency and number."""
    rank = share * sum(count for _, count in counts)
    seen = 0
    for latency, count in sorted(counts):
        seen += count
        if seen >= rank:
            return latency
    raise ValueError("there are no latencies")


def is_disturbed(load):
    """True if the generator lacked a core for so long that its latencies are those of the machine."""
    evidence = load["evidence"]
    return (evidence["core_wait_ns"] or 0) > CORE_WAIT_SHARE_MAX * evidence["sending_ns"]


def compare(packets, port, load):
    seen = captured(packets, port)
    outcome = {"check": "latency", "captured": len(seen), "answered": load["replies"]}
    if len(seen) != load["replies"] or not seen:
        outcome["why"] = f"the capture has {len(seen)} answered requests, the generator {load['replies']}"
        return outcome
    ours, theirs = load["counts"], [(latency, 1) for latency in seen]
    pairs = {share: (quantile(ours, share), quantile(theirs, share)) for share in QUANTILES}
    outcome["ns"] = {f"p{100 * share:g}": pair for share, pair in pairs.items()}
    own, outside = pairs[0.5]
    outcome["median_differs_by"] = round(own / outside - 1, 4)
    shorter = [share for share, (own, outside) in pairs.items() if own < outside * DIGITS]
    if load["unanswered"] or load["unsent"]:
        outcome["why"] = "requests were not answered or not sent"
    elif shorter:
        outcome["why"] = f"the generator's latency is too short at p{100 * shorter[0]:g}"
    elif own - outside > max(SHARE_MAX * outside, BOUNDARY_NS):
        outcome["why"] = f"the medians differ: {own} and {outside} ns"
        outcome["is_disturbed"] = is_disturbed(load)
    return outcome


def main():
    packets, port, load = sys.argv[1:]
    with open(load) as file:
        outcome = compare(packets, int(port), json.load(file))
    outcome["ok"] = "why" not in outcome
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

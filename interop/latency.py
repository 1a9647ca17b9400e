#!/usr/bin/env python3
"""The latencies of `damrak load --packet-times` and those of a packet capture of the same run, request by request.

usage: latency.py PACKETS PORT FOLDER

A request has three latencies. The capture's is the time from the packet on loopback that completes the request to the
packet that completes its answer. That of the generator's packets is the same by its own socket: it asks the kernel when
its packets leave and arrive. Its own is the time from the clock reading before it builds the request to the one after it
has read the answer; building, sending, waking up and reading are in it as well, and so is the time without a core.

The first two are taken at the same places in the kernel, whichever process has a core, so they must agree: that is
judged. The third one cannot be the shorter one, for no request. The check holds if

* both have the same answered requests,
* of 100 requests 99 have a latency by packets that is within 5 % of the capture's, and so are the medians,
* no request has a latency of its own below that by packets.

The last line is the outcome. `own_above_packets_ns` says how much longer the generator's own latencies are.
"""

import csv
import json
import pathlib
import struct
import subprocess
import sys

import ouch

DIFFERENCE_MAX = 0.05
AGREEING_MIN = 0.99


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
    """The latency of each answered request, in nanoseconds."""
    asked, latencies = {}, {}
    for stream, is_request, time, message in messages(packets, port):
        key = request_key(message) if is_request else answer_key(message)
        if key is None:
            continue
        if is_request:
            asked[stream, key] = time
        elif (stream, key) in asked:
            latencies[key] = time - asked.pop((stream, key))
    return latencies


def generated(folder):
    """The latencies of each answered request: by packets, and its own."""
    with open(pathlib.Path(folder) / "order-to-ack.csv", newline="") as file:
        rows = [{name: text if name == "request" else int(text) for name, text in row.items()}
                for row in csv.DictReader(file)]
    kind = {"enter": "order", "replace": "order", "cancel": "cancel"}
    return {
        (kind[row["request"]], row["user_ref_num"]): (
            row["packet_arrived_ns"] - row["packet_left_ns"], row["answered_ns"] - row["sent_ns"]
        )
        for row in rows
    }


def quantile(values, share):
    """The least of the values that this share of them does not exceed."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]


def compare(packets, port, folder):
    """For a load of one session."""
    outside, own = captured(packets, port), generated(folder)
    outcome = {"check": "latency", "captured": len(outside), "answered": len(own)}
    if not outside or set(outside) != set(own):
        missing = len(set(outside) ^ set(own))
        outcome["why"] = f"{missing} requests are answered in one of them only"
        return outcome
    keys = sorted(own)
    differences = [abs(own[key][0] / outside[key] - 1) for key in keys]
    agreeing = sum(difference <= DIFFERENCE_MAX for difference in differences) / len(keys)
    medians = {
        "capture": quantile(outside.values(), 0.5),
        "packets": quantile([packets for packets, _ in own.values()], 0.5),
        "own": quantile([user for _, user in own.values()], 0.5),
    }
    above = [user - packets for packets, user in own.values()]
    outcome["median_ns"] = medians
    outcome["differs_by"] = {f"p{100 * share:g}": round(quantile(differences, share), 4) for share in [0.5, 0.99, 1]}
    outcome["within_5_percent"] = round(agreeing, 5)
    outcome["own_above_packets_ns"] = {f"p{100 * share:g}": quantile(above, share) for share in [0.5, 0.9, 0.99, 1]}
    too_short = [key for key in keys if own[key][1] < own[key][0]]
    if agreeing < AGREEING_MIN:
        outcome["why"] = f"only {100 * agreeing:.2f} % of the requests agree with the capture within 5 %"
    elif abs(medians["packets"] / medians["capture"] - 1) > DIFFERENCE_MAX:
        outcome["why"] = f"the medians differ: {medians}"
    elif too_short:
        outcome["why"] = f"the generator's own latency of {too_short[0]} is below that of its packets"
    return outcome


def main():
    packets, port, folder = sys.argv[1:]
    outcome = compare(packets, int(port), folder)
    outcome["ok"] = "why" not in outcome
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

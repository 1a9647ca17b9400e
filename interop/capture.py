#!/usr/bin/env python3
"""What tshark makes of our traffic: SoupBinTCP and MoldUDP64, and nothing malformed.

usage: capture.py record FILE --tcp PORT --udp ADDRESS:PORT…    (until Ctrl-C)
       capture.py check FILE --tcp PORT --udp ADDRESS:PORT…

`--udp` has addresses too: a client's own socket may have the number of the port of the multicast
group, and its packets are no MoldUDP64.

`check` prints one JSON object with the packets tshark decoded. Exit code 0 if there were some of
each protocol and none was malformed, 1 otherwise. Needs tshark 4, and to record the right to
capture on the loopback interface.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time

# What dissectors say of a packet that does not follow its protocol.
MALFORMED = " || ".join(
    [
        "_ws.malformed",
        "moldudp64.msglen.invalid",
        "moldudp64.count.invalid",
        "moldudp64.end_of_session_extra",
    ]
)
# Not held against the venue: nasdaq-protocols pads the number it asks for at login on the right,
# which tshark does not take for a number.
NUMBER_ASKED_FOR = "soupbintcp.req_seq_num.invalid || soupbintcp.next_seq_num.invalid"
START_SECONDS = 10.0
# The packet types that a login, an order, its answer and a logout are made of.
SOUP_TYPES = {"L": "login", "A": "login accepted", "U": "order", "S": "reply", "O": "logout"}


def why_not():
    """Why nothing can be recorded here; None if it can."""
    if shutil.which("tshark") is None:
        return "tshark is not installed"
    probe = subprocess.run(
        ["tshark", "-i", "lo", "-a", "duration:0.2", "-w", "/dev/null"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
    )
    if probe.returncode != 0:
        last = [line for line in probe.stderr.splitlines() if line.strip()]
        return f"tshark may not capture on lo: {last[-1] if last else probe.returncode}"
    return None


def host_and_port(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def record(file, tcp, udp):
    """Starts a recording and returns once it runs."""
    wanted = [f"tcp port {tcp}"]
    for host, port in map(host_and_port, udp):
        wanted.append(f"(host {host} and udp port {port})")
    process = subprocess.Popen(
        ["tshark", "-q", "-l", "-i", "lo", "-B", "64", "-f", " or ".join(wanted), "-w", file],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    deadline = time.monotonic() + START_SECONDS
    for line in process.stderr:
        if "Capture started" in line or "Capturing on" in line:
            # The interface is open a moment after tshark says so.
            time.sleep(0.5)
            return process
        if time.monotonic() > deadline:
            break
    stop(process)
    raise RuntimeError("tshark does not start to capture")


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def lines_of(file, decode, select, field):
    """One line a packet that `select` takes: the number of the frame and a field of it."""
    # OUCH 4.2 is guessed at inside SoupBinTCP; ours is 5.0, which has some of its lengths.
    command = ["tshark", "-r", file, "--disable-protocol", "ouch"]
    for rule in decode:
        command += ["-d", rule]
    command += ["-Y", select, "-T", "fields", "-e", "frame.number", "-e", field]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"tshark cannot read {file}: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def check(file, tcp, udp):
    decode = [f"tcp.port=={tcp},soupbintcp"]
    decode += [f"udp.port=={port},moldudp64" for _, port in map(host_and_port, udp)]
    # tshark decodes by port alone: a recording made by something else than `record` may have more.
    ours = " || ".join(
        [f"tcp.port == {tcp}"]
        + [f"(ip.addr == {host} && udp.port == {port})" for host, port in map(host_and_port, udp)]
    )
    soup = lines_of(file, decode, f"soupbintcp && ({ours})", "soupbintcp.packet_type")
    mold = lines_of(file, decode, f"moldudp64 && ({ours})", "moldudp64.count")
    excused = f"tcp.dstport == {tcp} && ({NUMBER_ASKED_FOR})"
    malformed = lines_of(
        file, decode, f"({MALFORMED}) && !({excused}) && ({ours})", "_ws.expert.message"
    )

    types = "".join(types for _, types in soup)
    messages = sum(int(count) for _, counts in mold for count in counts.split(",") if count)
    outcome = {
        "check": "capture",
        "soupbintcp": len(soup),
        "moldudp64": len(mold),
        "moldudp64_messages": messages,
        "malformed": len(malformed),
    }
    missing = [name for letter, name in SOUP_TYPES.items() if letter not in types]
    if malformed:
        outcome["why"] = f"frame {malformed[0][0]} is malformed: {malformed[0][1]}"
    elif missing:
        outcome["why"] = f"no SoupBinTCP packet is a {', '.join(missing)}"
    elif messages == 0:
        outcome["why"] = "no MoldUDP64 packet has a message"
    outcome["ok"] = "why" not in outcome
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["record", "check"])
    parser.add_argument("file")
    parser.add_argument("--tcp", type=int, required=True)
    parser.add_argument("--udp", nargs="+", required=True)
    arguments = parser.parse_args()
    if arguments.verb == "record":
        reason = why_not()
        if reason:
            print(reason, file=sys.stderr)
            return 3
        process = record(arguments.file, arguments.tcp, arguments.udp)
        print(f"recording to {arguments.file}; Ctrl-C stops it", file=sys.stderr)
        try:
            return process.wait()
        except KeyboardInterrupt:
            stop(process)
            return 0
    outcome = check(arguments.file, arguments.tcp, arguments.udp)
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A recording of every message type, through decoders that others wrote.

usage: recording.py --damrak target/release/damrak --work FOLDER

every_type.csv has a message of each of the 23 types, written by hand. `damrak feed convert` makes a BinaryFILE and
packets of it. PyPI itchfeed and itchcpp (C++) decode the first: each message must encode to its bytes again,
and each field that has the name of a column must have its value. tshark reads the packets as MoldUDP64. DuckDB reads
the messages as Parquet, where the program writes it, and must find in each cell what the table in CSV has. A decoder
that is not installed is named. Prints one JSON object; exit code 0 if all held, 1 if something did not.
"""

import argparse
import csv
import importlib
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

from capture import MALFORMED, lines_of
from itch_decode import frames

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "every_type.csv"
PORT = 26477
TYPES = "SRHYLVWKJhAFECXDUPQBINO"
# Types of messages that ITCH 5.0 does not have: its decoders are not given them.
OURS = "p"
# The names of the fields differ from the specification's in places; so many must be compared all the same.
COMPARED_MIN = 100
DECODERS = {"itch": "itchfeed", "itchcpp": "itchcpp"}


def convert(damrak, source, target):
    done = subprocess.run(
        [damrak, "feed", "convert", str(source), str(target), "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if done.returncode != 0:
        raise ValueError(f"damrak feed convert: {done.stderr.strip()}")
    return json.loads(done.stdout)


def same(cell, value, decimals):
    if isinstance(value, bytes):
        return value.decode("ascii").strip() == cell
    if isinstance(value, str):
        return value.strip() == cell
    whole, _, fraction = cell.partition(".")
    if not fraction and not decimals:
        return int(cell) == value
    return value in {int(whole + fraction.ljust(places, "0")) for places in (4, 8)}


def decoded(module, messages, rows):
    """Decodes each message of the specification and compares it with its row; how many fields were compared."""
    parser = importlib.import_module(f"{module}.parser").MessageParser()
    compared = 0
    for (_, message), row in zip(messages, rows, strict=True):
        kind = row["message_type"]
        if kind in OURS:
            continue
        it = parser.get_message_type(message)
        encoded = bytes(it.to_bytes())
        if encoded != message:
            raise ValueError(f"{module}: {kind} was {message.hex()}, became {encoded.hex()}")
        for name, cell in row.items():
            if cell == "" or not hasattr(it, name):
                continue
            decimals = "price" in name or "level" in name
            if not same(cell, getattr(it, name), decimals):
                raise ValueError(f"{module}: {kind}: {name} is {getattr(it, name)!r}, not {cell}")
            compared += 1
    if compared < COMPARED_MIN:
        raise ValueError(f"{module}: {compared} fields have names of ours; the check is no check")
    return compared


def dissected(packets, port=PORT):
    """What tshark finds in the packets: the number of messages."""
    rule = [f"udp.port=={port},moldudp64"]
    malformed = lines_of(packets, rule, MALFORMED, "_ws.expert.message")
    if malformed:
        raise ValueError(f"tshark: frame {malformed[0][0]} is malformed: {malformed[0][1]}")
    found = lines_of(packets, rule, "moldudp64", "moldudp64.count")
    checksums = lines_of(packets, rule, "ip.checksum.status == 0", "ip.checksum")
    if checksums:
        raise ValueError(f"tshark: frame {checksums[0][0]} has a wrong check sum")
    return sum(int(count) for _, counts in found for count in counts.split(",") if count)


def cells_of_parquet(damrak, messages_file):
    """How many cells DuckDB finds in the messages as Parquet, each with the value that the table in CSV has; `None` if
    the program writes no Parquet."""
    import duckdb

    parquet, table = messages_file.with_suffix(".parquet"), messages_file.with_suffix(".columns.csv")
    try:
        convert(damrak, messages_file, parquet)
    except ValueError as failure:
        if "built without Parquet" in str(failure):
            return None
        raise
    convert(damrak, messages_file, table)
    with open(table, newline="") as file:
        expected = list(csv.DictReader(file))
    read = f"FROM read_parquet('{parquet}')"
    columns = duckdb.sql(f"DESCRIBE SELECT * {read}").fetchall()
    names = [name for name, *_ in columns]
    if names != list(expected[0]):
        raise ValueError(f"DuckDB: the columns of Parquet are {names}, those of CSV are {list(expected[0])}")
    # Moments in nanoseconds, which Python's own type of time has no room for.
    cells = ", ".join(
        f'epoch_ns("{name}")::VARCHAR' if kind.startswith("TIMESTAMP") else f'"{name}"::VARCHAR'
        for name, kind, *_ in columns
    )
    rows = duckdb.sql(f"SELECT {cells} {read}").fetchall()
    compared = 0
    for number, (row, wanted) in enumerate(zip(rows, expected, strict=True), 1):
        for name, cell in zip(names, row, strict=True):
            if (cell or "") != wanted[name]:
                raise ValueError(f"DuckDB: row {number}: {name} is {cell!r}, not {wanted[name]!r}")
            compared += cell is not None
    if compared < COMPARED_MIN:
        raise ValueError(f"DuckDB: {compared} cells have a value; the check is no check")
    return compared


def read_by_others(damrak, messages_file, packets, rows, port, outcome):
    """Each decoder that is installed reads a recording; `rows` are its messages as a table."""
    messages = list(frames(messages_file.read_bytes()))
    outcome["messages"] = len(messages)
    for module, package in DECODERS.items():
        if importlib.util.find_spec(module) is None:
            outcome["skipped"].append(package)
        else:
            outcome[package] = decoded(module, messages, rows)
    if importlib.util.find_spec("duckdb") is None:
        outcome["skipped"].append("duckdb")
    elif (compared := cells_of_parquet(damrak, messages_file)) is None:
        outcome["skipped"].append("duckdb (the program is built without Parquet)")
    else:
        outcome["duckdb"] = compared
    if shutil.which("tshark") is None:
        outcome["skipped"].append("tshark")
    else:
        outcome["tshark"] = dissected(str(packets), port)
        if outcome["tshark"] != len(rows):
            raise ValueError(f"tshark finds {outcome['tshark']} messages of {len(rows)}")


def check_recorded(damrak, messages_file, packets, port, required):
    """A recording of `damrak feed record`, in both forms: every decoder reads it, and no required kind lacks. Its
    messages as a table, and the outcome."""
    outcome = {"check": "every_kind", "skipped": []}
    table = messages_file.with_suffix(".csv")
    convert(damrak, messages_file, table)
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {row["message_type"] for row in rows}
    if missing := sorted(set(required) - kinds):
        raise ValueError(f"the recording has no {', '.join(missing)}; it has {''.join(sorted(kinds))}")
    if other := sorted(kinds - set(required)):
        raise ValueError(f"the venue sends {', '.join(other)}, which docs/wire/itch.md does not say")
    outcome["kinds"] = "".join(sorted(kinds))
    read_by_others(damrak, messages_file, packets, rows, port, outcome)
    return rows, outcome


def check(damrak, work):
    outcome = {"check": "recording", "skipped": []}
    work.mkdir(parents=True, exist_ok=True)
    messages_file, packets = work / "every_type.itch", work / "every_type.pcap"
    for target in [messages_file, packets]:
        convert(damrak, ROWS, target)
    with open(ROWS, newline="") as file:
        rows = list(csv.DictReader(file))
    if sorted(row["message_type"] for row in rows) != sorted(TYPES):
        raise ValueError(f"{ROWS} does not have each of the types {TYPES} once")
    read_by_others(damrak, messages_file, packets, rows, PORT, outcome)
    # The way back: what the packets have is what was written by hand.
    convert(damrak, packets, work / "again.itch")
    if (work / "again.itch").read_bytes() != messages_file.read_bytes():
        raise ValueError("the packets have other messages than the BinaryFILE")
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--damrak", required=True)
    parser.add_argument("--work", required=True)
    arguments = parser.parse_args()
    try:
        outcome = check(arguments.damrak, pathlib.Path(arguments.work))
        outcome["ok"] = True
    except (OSError, RuntimeError, ValueError) as failure:
        outcome = {"check": "recording", "ok": False, "why": str(failure)}
    print(json.dumps(outcome))
    return 0 if outcome["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

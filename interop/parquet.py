#!/usr/bin/env python3
"""Reads the Parquet files of `damrak ledger export` with Apache Arrow, and compares every value with
the same ledger as comma-separated values.

    python3 interop/parquet.py --damrak target/release/damrak
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import pyarrow.parquet
except ImportError:
    print("skipped: pyarrow is not installed")
    sys.exit(77)


def fail(what):
    sys.exit(f"error: {what}")


def texts(column):
    """The values of a column as the export writes them."""
    if str(column.type).startswith("timestamp[ns"):
        column = column.cast("int64")
    return [str(value) for value in column.to_pylist()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--damrak", required=True)
    parser.add_argument("--orders", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    damrak = str(pathlib.Path(arguments.damrak).resolve())
    with tempfile.TemporaryDirectory(prefix="damrak-parquet-") as folder:
        def run(*words):
            done = subprocess.run([damrak, *words], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                fail(f"damrak {' '.join(words)}: {done.returncode}\n{done.stderr}")
            return done.stdout

        run("generate", "--out", "orders.csv", "--balances", "balances.csv", "--orders",
            str(arguments.orders), "--seed", str(arguments.seed))
        run("run", "orders.csv", "--balances", "balances.csv", "--journal", "journal")
        run("ledger", "export", "csv", "--journal", "journal")
        told = json.loads(run("ledger", "export", "parquet", "--format", "parquet", "--journal",
                              "journal", "--json"))
        values = 0
        for table, count in told["rows"].items():
            file = pyarrow.parquet.ParquetFile(f"{folder}/parquet/{table}.parquet")
            found = file.read()
            metadata = found.schema.metadata or {}
            if metadata.get(b"damrak.sequence") != str(told["sequence"]).encode():
                fail(f"{table} says {metadata}")
            with open(f"{folder}/csv/{table}.csv", newline="") as lines:
                names, *wanted = csv.reader(lines)
            if found.schema.names != names or found.num_rows != count:
                fail(f"{table} has {found.num_rows} rows of {found.schema.names}")
            rows = [list(row) for row in zip(*map(texts, found.columns))]
            for nth, (row, right) in enumerate(zip(rows, wanted, strict=True)):
                if row != right:
                    fail(f"{table}, row {nth}: {row}, and {right} is right")
            values += len(names) * count
        print(json.dumps({"reader": f"pyarrow {pyarrow.__version__}", "rows": told["rows"],
                          "values": values}))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kills whoever writes the ledger, and its PostgreSQL, at random moments, and compares the contents.

Two rounds, each with half of the kills:

  catch-up  `damrak ledger catch-up` brings a journal with money in it into the store
  venue     `damrak serve` under load writes the ledger beside its orders

At each kill one of the two sides gets SIGKILL (the server with all its processes) and is started
again. At the end every table is what follows from the journal: `damrak ledger verify` says so, and
so do, of PostgreSQL, the bytes that its own COPY writes, compared with those of an export that knows
nothing of the store.

    python3 interop/ledger.py --damrak target/release/damrak --kills 50
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

TABLES = {
    "assets": "asset_id",
    "accounts": "account_id",
    "instruments": "instrument_id",
    "sessions": "session_id",
    "orders": "order_id",
    "trades": "trade_id",
    "busts": "trade_id",
    "fills": "account_id, trade_id, role",
    "ledger_entries": "sequence, nth",
    "balances": "account_id, asset_id",
}


# The most lots of an order, and the units of the base asset in a lot of a generated file.
LOTS_MAX = (1 << 48) - 1
UNITS_PER_LOT = 100


def fail(what):
    sys.exit(f"error: {what}")


def find_postgres():
    """The folder of initdb and postgres, as Debian's package or PATH has them."""
    found = shutil.which("initdb")
    if found and shutil.which("postgres"):
        return pathlib.Path(found).resolve().parent
    for folder in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


class Server:
    """PostgreSQL in a folder of its own, on a Unix socket, never as root."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.folder = folder
        self.data = folder / "postgres"
        self.process = None
        # The server refuses to be root; whoever is gives it to another user.
        self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.prefix = self.prefix if os.geteuid() == 0 else []
        self.data.mkdir()
        if self.prefix:
            shutil.chown(self.data, "postgres", "postgres")
        self.run("initdb", "-D", self.data, "-U", "damrak", "-A", "trust", "-N", "--no-locale",
                 "-E", "UTF8")
        self.url = f"postgres:///damrak?host={self.data}&port=5432"
        self.start_again()
        self.sql("CREATE DATABASE damrak", database="postgres")

    def command(self, program, *arguments):
        return [*self.prefix, str(self.programs / program), *map(str, arguments)]

    def run(self, program, *arguments):
        done = subprocess.run(self.command(program, *arguments), cwd="/", capture_output=True,
                              text=True)
        if done.returncode != 0:
            fail(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self):
        log = open(self.folder / "postgres.log", "ab")
        self.process = subprocess.Popen(
            self.command("postgres", "-D", self.data, "-k", self.data, "-c", "listen_addresses=",
                         "-c", "port=5432", "-c", "shared_buffers=32MB", "-c", "max_wal_size=256MB"),
            cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self.process.poll() is None and subprocess.run(
                self.command("pg_isready", "-q", "-h", self.data, "-p", "5432", "-d", "postgres"),
                cwd="/").returncode != 0:
            if time.monotonic() > deadline:
                fail("postgres does not start:\n" + (self.folder / "postgres.log").read_text())
            time.sleep(0.05)
        return self.process.poll() is None

    def start_again(self):
        # What is left of the one before may still hold its memory.
        for _ in range(200):
            if self.start():
                return
            time.sleep(0.1)
        fail("postgres does not start:\n" + (self.folder / "postgres.log").read_text())

    def kill(self):
        pid = self.process.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for pid in [pid, *map(int, children)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.start_again()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()

    def sql(self, sql, database="damrak"):
        return self.run("psql", "-h", self.data, "-p", "5432", "-U", "damrak", "-d", database,
                        "-v", "ON_ERROR_STOP=1", "-qAtc", sql)


class Test:
    def __init__(self, arguments, folder):
        self.damrak = str(pathlib.Path(arguments.damrak).resolve())
        self.random = random.Random(arguments.seed)
        self.folder = folder
        self.journal = folder / "journal"
        self.config = folder / "venue.toml"
        self.server = None
        self.store = arguments.store
        if self.store == "postgres":
            programs = find_postgres()
            if programs is None:
                print("skipped: PostgreSQL is not installed")
                sys.exit(77)
            self.server = Server(programs, folder)
        self.orders = arguments.orders
        self.admin = None
        self.asked = 0

    def run(self, *arguments, check=True):
        done = subprocess.run([self.damrak, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True)
        if check and done.returncode != 0:
            fail(f"damrak {' '.join(map(str, arguments))}: {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
        return done.stdout

    def prepare(self, name):
        """A new journal with money in it, and a new store."""
        shutil.rmtree(self.journal, ignore_errors=True)
        files = [self.folder / "orders.csv", self.folder / "balances.csv"]
        self.run("generate", "--out", files[0], "--balances", files[1], "--orders", self.orders,
                 "--seed", self.random.randrange(1 << 32))
        self.add_large(*files)
        self.run("run", files[0], "--balances", files[1], "--journal", self.journal)
        place = {"embedded": f'path = "{name}.redb"', "sqlite": f'path = "{name}.sqlite"'}
        if self.server:
            place["postgres"] = f'url = "{self.server.url}"'
            self.server.sql("DROP SCHEMA IF EXISTS damrak CASCADE")
        else:
            for old in self.folder.glob(f"{name}.*"):
                if old.suffix in (".redb", ".sqlite") or "sqlite-" in old.suffix:
                    old.unlink()
        self.config.write_text(f"""
            journal.directory = "{self.journal}"
            order_entry.address = "127.0.0.1:0"
            order_entry_udp.address = "127.0.0.1:0"
            market_data.group = "127.0.0.1:0"
            market_data.re_request = "127.0.0.1:0"
            market_data.snapshot = "127.0.0.1:0"
            market_data.tcp = "127.0.0.1:0"
            admin.address = "127.0.0.1:0"
            [ledger]
            store = "{self.store}"
            commit_interval = "20ms"
            {place[self.store]}
        """)

    def add_large(self, orders, balances):
        """Before all others two participants trade the most lots that an order may have, and one is left with an order
        of more lots than 32 bits say, at a price that nobody pays."""
        lots = f"{LOTS_MAX // 10**6}.{LOTS_MAX % 10**6:06}"
        rows = [f"1,LARGE1,place,sell,0.01,{lots}", f"1,LARGE2,place,buy,0.01,{lots}",
                "2,LARGE2,place,sell,19999999.99,5000.000000"]
        header, _, rest = orders.read_text().partition("\n")
        if header != "order_id,user_id,action,side,price,qty":
            fail(f"a generated file begins with {header}")
        orders.write_text("\n".join([header, *rows, rest]))
        with balances.open("a") as file:
            file.write(f"LARGE1,1,{LOTS_MAX * UNITS_PER_LOT},0,0\nLARGE2,2,{LOTS_MAX},0,0\n")

    def position(self):
        if not self.server:
            return None
        found = self.server.sql("SELECT coalesce(max(sequence), 0) FROM damrak.position")
        return int(found or 0)

    def kill_one(self, process, counts):
        """SIGKILL to one of the two sides."""
        if self.server and self.random.random() < 0.5:
            self.server.kill()
            counts["store"] += 1
            return False
        process.kill()
        process.wait()
        counts["consumer"] += 1
        return True

    def catch_up_round(self, kills):
        counts = {"consumer": 0, "store": 0, "too late": 0}
        self.prepare("catch-up")
        # How long it takes undisturbed says when to kill.
        begun = time.monotonic()
        self.run("ledger", "catch-up", "--config", self.config)
        takes = time.monotonic() - begun
        self.check()
        self.prepare("catch-up")
        while counts["consumer"] + counts["store"] < kills:
            process = subprocess.Popen([self.damrak, "ledger", "catch-up", "--config", self.config],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       cwd=self.folder)
            time.sleep(self.random.uniform(0, takes))
            if process.poll() == 0:
                counts["too late"] += 1
                self.check()
                self.prepare("catch-up")
                continue
            if not self.kill_one(process, counts):
                process.wait()
        self.run("ledger", "catch-up", "--config", self.config)
        self.check()
        return counts

    def venue_round(self, kills):
        counts = {"consumer": 0, "store": 0, "starts": 0}
        self.prepare("venue")
        venue = load = None
        while counts["consumer"] + counts["store"] < kills:
            if venue is None:
                venue, load = self.start_venue()
                counts["starts"] += 1
            time.sleep(self.random.uniform(0, 1.5))
            if venue.poll() is not None:
                fail(f"the venue stopped by itself: {venue.returncode}")
            if self.kill_one(venue, counts):
                load.kill()
                load.wait()
                venue = None
        if venue is None:
            venue, load = self.start_venue()
        time.sleep(1)
        load.kill()
        load.wait()
        # Alone, it catches up.
        deadline = time.monotonic() + 120
        for line in venue.stdout:
            status = json.loads(line)
            if status["event"] == "status" and status["ledger"]["behind"] == 0:
                break
            if time.monotonic() > deadline:
                fail(f"the venue does not catch up: {line}")
        self.ask()
        venue.communicate()  # ends its standard input, and with it the venue
        if venue.returncode != 0:
            fail(f"the venue ended with {venue.returncode}")
        counts["inputs"] = self.check()["sequence"]
        counts["asked"] = self.asked
        return counts

    def start_venue(self):
        venue = subprocess.Popen(
            [self.damrak, "serve", "--config", self.config, "--json", "--status", "100ms",
             "--until-stdin-ends"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(self.folder / "venue.log", "ab"), text=True)
        line = venue.stdout.readline()
        if not line:
            fail(f"the venue does not start: see {self.folder / 'venue.log'}")
        addresses = json.loads(line)["addresses"]
        address, self.admin = addresses["order_entry"], addresses["admin"]
        # Its lines must be read, or it would wait; only the last round looks at them.
        os.set_blocking(venue.stdout.fileno(), True)
        load = subprocess.Popen(
            [self.damrak, "load", "--to", address, "--rate", "3k/s", "--for", "600s"],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return venue, load

    def get(self, target):
        with urllib.request.urlopen(f"http://{self.admin}{target}", timeout=30) as answer:
            return json.load(answer)

    def ask(self):
        """What the venue answers by HTTP is what follows from the journal."""
        try:
            self.get("/accounts/NOBODY/fills")
            fail("an account that does not exist has fills")
        except urllib.error.HTTPError as error:
            if error.code != 404 or json.load(error)["reason"] != "unknown_account":
                fail(f"an account that does not exist: {error}")
        accounts = [row["name"] for row in self.get("/accounts")["rows"]]
        for account in self.random.sample(accounts, min(3, len(accounts))):
            path = "/accounts/" + urllib.parse.quote(account, safe="")
            for verb in ["balances", "orders", "fills", "history"]:
                answer = self.get(f"{path}/{verb}" + ("" if verb == "balances" else "?last=7"))
                found = answer["rows"]
                while answer.get("next"):
                    answer = self.get(f"{path}/{verb}?last=1000&{answer['next']}")
                    found += answer["rows"]
                if verb != "balances":
                    found.reverse()
                wanted = json.loads(self.run("ledger", verb, "--account", account, "--journal",
                                             self.journal, "--json"))["rows"]
                if found != wanted:
                    fail(f"{verb} of {account}: {len(found)} rows by HTTP, {len(wanted)} are right")
                self.asked += len(found)

    def check(self):
        """Every table is what follows from the journal."""
        findings = json.loads(self.run("ledger", "verify", "--config", self.config, "--json"))
        if findings["wrong"]:
            fail(findings["wrong"])
        trades = json.loads(self.run("ledger", "fills", "--account", "LARGE1", "--config", self.config, "--json"))
        if [row["quantity"] for row in trades["rows"]] != [LOTS_MAX]:
            fail(f"LARGE1 has sold {LOTS_MAX} lots, and its fills are {trades['rows']}")
        if self.server:
            self.run("ledger", "export", "csv", "--journal", self.journal)
            for table, key in TABLES.items():
                found = self.server.sql(
                    f"COPY (SELECT * FROM damrak.{table} ORDER BY {key}) TO STDOUT "
                    "(FORMAT csv, HEADER)")
                # PostgreSQL puts a text with nothing in it into quotes.
                found = found.replace('""', "").encode()
                wanted = (self.folder / "csv" / f"{table}.csv").read_bytes()
                if hashlib.sha256(found).digest() != hashlib.sha256(wanted).digest():
                    fail(f"{table} is not what the export says")
        return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--damrak", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--orders", type=int, default=30000)
    parser.add_argument("--store", choices=["postgres", "sqlite", "embedded"], default="postgres")
    arguments = parser.parse_args()
    # Under /tmp: a path of a socket may have about 100 characters only.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="damrak-ledger-"))
    folder.chmod(0o755)
    test = None
    try:
        test = Test(arguments, folder)
        begun = time.monotonic()
        result = {
            "store": arguments.store,
            "seed": arguments.seed,
            "catch-up": test.catch_up_round(arguments.kills - arguments.kills // 2),
            "venue": test.venue_round(arguments.kills // 2),
        }
        result["seconds"] = round(time.monotonic() - begun, 1)
        print(json.dumps(result))
    finally:
        if test and test.server:
            test.server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

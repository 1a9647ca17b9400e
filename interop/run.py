#!/usr/bin/env python3
"""Clients and decoders that others wrote, against a venue that this starts.

usage: run.py --damrak target/release/damrak [--work FOLDER] [--target-dir FOLDER] [--require-all]

Starts a venue, records its feed and its packets, lets each client trade, and gives what was
recorded to each decoder. A check whose package is not installed is skipped by name; with
--require-all that is a failure. Exit code 0 if all that ran held, 1 otherwise.

  soup_ouch    PyPI nasdaq-protocols   SoupBinTCP sessions, OUCH 5.0 inside
  slouch       crate slouch            OUCH 5.0, both ways
  quickfix     QuickFIX C++            FIX 4.2, 4.4 and 5.0 SP1, gaps both ways, a venue that is killed, market data
  quickfixgo   QuickFIX/Go             the same
  quickfixj    QuickFIX/J              the same
  quickfixpy   PyPI quickfix-py        the same
  recording    PyPI itchfeed, itchcpp  ITCH 5.0, all 23 messages, which tshark reads too, and DuckDB as Parquet
  every_kind   the same and tshark     a live feed with every kind of message that the venue sends
  ouch42       tshark                  OUCH 4.2, both ways, field by field as sent
  itch_decode  PyPI itchfeed           ITCH 5.0, the recorded feed
  market_data  Python's standard library  derived data by HTTP, against the bytes of the feed
  report       PyPI playwright, Chromium  the page of two loads
  capture      tshark                  SoupBinTCP and MoldUDP64, on the wire
  latency      tshark                  the latencies of a load and those on the wire
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import capture
import every_kind
import fix_script
import latency
import recording

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 20.0
STOP_SECONDS = 20.0
CHECK_SECONDS = 120.0
FEED_SECONDS = 8
LATENCY_RUNS = 5
# What the trading of the clients must have left in the feed: system events, directory, attributed
# and other orders, executions, deletions.
FEED_KINDS = "SRAFED"


class Failed(Exception):
    """Why a check did not hold."""


class Skipped(Exception):
    """Why a check says nothing here."""


def feed_command(damrak, addresses, file):
    return [
        damrak, "feed", "--from-start",
        "--group", addresses["market_data"],
        "--re-request", addresses["re_request"],
        "--record", file,
        "--for", f"{FEED_SECONDS}s",
        "--json",
    ]


def join_command(damrak, addresses, file):
    """A subscriber that joins late: a snapshot, then the feed over TCP."""
    return [
        damrak, "feed", "--until-caught-up", "--json",
        "--snapshot", addresses["snapshot"],
        "--tcp", addresses["feed_tcp"],
        "--record", file,
    ]


class Venue:
    """A running `damrak serve`."""

    def __init__(self, damrak, work, durability="written"):
        work.mkdir(parents=True, exist_ok=True)
        config = work / "venue.toml"
        text = (HERE / "venue.toml").read_text().replace("@JOURNAL@", str(work / "journal"))
        text = text.replace("@DURABILITY@", durability)
        config.write_text(text)
        self.errors = open(work / "venue.stderr", "w+")
        self.process = subprocess.Popen(
            [damrak, "serve", "--config", str(config), "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read_lines, daemon=True).start()
        try:
            first = self.lines.get(timeout=START_SECONDS)
        except queue.Empty:
            first = None
        if first is None:
            self.process.kill()
            self.process.wait()
            raise Failed(f"the venue does not start: {self.said()}")
        self.started = json.loads(first)
        self.addresses = self.started["addresses"]

    def read_lines(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def said(self):
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read().strip() or "(nothing on stderr)"

    def port(self, name):
        return int(self.addresses[name].rsplit(":", 1)[1])

    def kill(self):
        """Ends it without a warning."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it as an operator would; it must end well."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"the venue does not stop within {STOP_SECONDS} s of SIGTERM") from None
        if code != 0:
            raise Failed(f"the venue stopped with exit code {code}: {self.said()}")


def outcome_of(command):
    """Runs a check; its last line is its outcome."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CHECK_SECONDS
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise Failed(f"exit code {done.returncode}, and no outcome: {done.stderr.strip()}")
    print(lines[-1], flush=True)
    outcome = json.loads(lines[-1])
    if done.returncode != 0 or not outcome["ok"]:
        raise Failed(outcome.get("why", f"exit code {done.returncode}"))
    return outcome


def built_slouch(target_dir):
    """The path of the slouch client, and why there is none."""
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        return None, "cargo is not installed"
    place = ["--locked", "--manifest-path", str(HERE / "slouch/Cargo.toml")]
    # What cargo was told for the exchange does not hold for this package.
    environment = {k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"}
    fetched = subprocess.run(
        [cargo, "fetch", *place], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=environment,
    )
    if fetched.returncode != 0:
        return None, f"its packages cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}"
    subprocess.run(
        [cargo, "build", "--quiet", *place, "--target-dir", str(target_dir)],
        stdin=subprocess.DEVNULL, check=True, env=environment,
    )
    return str(target_dir / "debug/damrak-interop-slouch"), None


def built_quickfix(target_dir):
    """The path of the QuickFIX client, and why there is none."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None, "g++ is not installed"
    header = "#include <quickfix/Session.h>"
    probe = [compiler, "-std=c++11", "-w", "-fsyntax-only", "-x", "c++", "-"]
    if subprocess.run(probe, input=header, capture_output=True, text=True).returncode != 0:
        return None, "QuickFIX (libquickfix-dev) is not installed"
    target_dir.mkdir(parents=True, exist_ok=True)
    program = str(target_dir / "quickfix-initiator")
    source = str(HERE / "quickfix/initiator.cpp")
    subprocess.run(
        [compiler, "-std=c++11", "-w", source, "-o", program, "-lquickfix", "-lpthread"],
        stdin=subprocess.DEVNULL, check=True,
    )
    return program, None


def built_quickfixgo(target_dir):
    """The path of the QuickFIX/Go client, and why there is none."""
    go = shutil.which("go")
    if go is None:
        return None, "go is not installed"
    target_dir.mkdir(parents=True, exist_ok=True)
    program = str(target_dir / "quickfixgo-initiator")
    built = subprocess.run(
        [go, "build", "-mod=readonly", "-o", program, "."], cwd=HERE / "quickfixgo",
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if built.returncode != 0:
        return None, f"go cannot build it: {built.stderr.strip().splitlines()[-1]}"
    return program, None


def built_quickfixj(target_dir):
    """The path of a script that starts the QuickFIX/J client, and why there is none."""
    java, javac, maven = (shutil.which(name) for name in ["java", "javac", "mvn"])
    if None in (java, javac, maven):
        return None, "a JDK or Maven is not installed"
    jars, classes = target_dir / "quickfixj/jars", target_dir / "quickfixj/classes"
    source = HERE / "quickfixj"
    fetched = subprocess.run(
        [maven, "--quiet", "--batch-mode", "--file", str(source / "pom.xml"),
         "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )
    if fetched.returncode != 0:
        errors = [line for line in fetched.stdout.splitlines() if "ERROR" in line]
        return None, f"Maven cannot fetch it: {' '.join(errors[:1])}"
    compiled = [javac, "-d", str(classes), "-cp", f"{jars}/*", str(source / "Initiator.java")]
    subprocess.run(compiled, stdin=subprocess.DEVNULL, check=True)
    command = [java, "-cp", f"{classes}:{jars}/*", "Initiator"]
    return starter(target_dir / "quickfixj-initiator", command), None


def built_quickfixpy(target_dir):
    """The path of a script that starts the client of QuickFIX for Python, and why there is none."""
    if not installed("quickfix"):
        return None, "PyPI quickfix-py is not installed"
    target_dir.mkdir(parents=True, exist_ok=True)
    return starter(target_dir / "quickfixpy-initiator", [sys.executable, HERE / "quickfixpy/initiator.py"]), None


def starter(path, command):
    """A script that starts this command with its own arguments."""
    path.write_text(f"#!/bin/sh\nexec {shlex.join(map(str, command))} \"$@\"\n")
    path.chmod(0o755)
    return str(path)


def fix(damrak, program, work, name):
    """The script of FIX, twice for each version and one after the other, so that the venue is in use. The venue
    is killed in each run; the second time it goes on from a snapshot, made of what it left behind."""
    venue = Venue(damrak, work)
    try:
        for version in ["FIX.4.2", "FIX.4.4", "FIXT.1.1"]:
            store = work / version
            store.mkdir()
            for run in ["1", "2"]:
                for script in ["trade", "resume"]:
                    address = venue.addresses["order_entry_fix"].rsplit(":", 1)
                    fix_script.play(script, program, address, version, str(store), f"{version}-{run}")
                    if script == "trade":
                        venue.kill()
                        sequence = make_snapshot(damrak, work / "journal") if run == "2" else None
                        venue = Venue(damrak, work)
                        if sequence and venue.started["recovered"]["snapshot"]["sequence"] != sequence:
                            raise Failed(f"no start from the snapshot of {sequence}: {venue.started}")
            ports = [venue.addresses[port].rsplit(":", 1) for port in ["order_entry_fix", "market_data_fix"]]
            for run in ["1", "2"]:
                fix_script.play_data(program, ports, version, str(store), f"{version}-{run}")
            print(f"{name} in {version}: two runs, two kills of the venue, market data", flush=True)
        venue.stop()
    finally:
        venue.kill()


def record_every_kind(damrak, work):
    """A venue in whose feed every kind of message is, recorded by `damrak feed record` and read by others."""
    venue = Venue(damrak, work)
    try:
        host, port = venue.addresses["order_entry"].rsplit(":", 1)
        every_kind.trade(damrak, (host, int(port)), work / "journal")
        host, port = venue.addresses["order_entry_fix"].rsplit(":", 1)
        every_kind.trade_large((host, int(port)))
        messages, packets = work / "day.itch", work / "day.pcap"
        subprocess.run(
            [
                damrak, "feed", "record", str(messages), str(packets), "--from-start", "--until-caught-up",
                "--group", venue.addresses["market_data"], "--re-request", venue.addresses["re_request"],
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS,
        )
        rows, outcome = recording.check_recorded(
            damrak, messages, packets, venue.port("market_data"), every_kind.SENT
        )
        every_kind.check_large(rows)
        print(json.dumps(outcome), flush=True)
        venue.stop()
    finally:
        venue.kill()
    return outcome["skipped"]


def make_snapshot(damrak, journal):
    made = subprocess.run(
        [damrak, "snapshot", "make", str(journal), "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=CHECK_SECONDS,
    )
    return json.loads(made.stdout)["sequence"]


def installed(module):
    return importlib.util.find_spec(module) is not None


class Run:
    """The checks of one venue, one after the other."""

    def __init__(self, arguments):
        self.damrak = str(pathlib.Path(arguments.damrak).resolve())
        self.work = pathlib.Path(arguments.work).resolve()
        self.target_dir = pathlib.Path(arguments.target_dir).resolve()
        self.skipped = []
        self.failed = []

    def skip(self, name, why):
        print(f"skipped: {name}: {why}", flush=True)
        self.skipped.append(name)

    def attempt(self, name, check, *arguments):
        started = time.monotonic()
        try:
            check(*arguments)
        except Skipped as why:
            self.skip(name, why)
        except (Failed, fix_script.Failed, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as failure:
            print(f"FAILED: {name}: {failure}", flush=True)
            self.failed.append(name)
        else:
            print(f"ok: {name}, {time.monotonic() - started:.1f} s", flush=True)

    def all(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        # Built before the venue runs, so that nothing is timed while the compiler is at work.
        slouch, why_no_slouch = built_slouch(self.target_dir)
        why_no_capture = capture.why_not()
        engines = {
            "quickfix": built_quickfix, "quickfixgo": built_quickfixgo,
            "quickfixj": built_quickfixj, "quickfixpy": built_quickfixpy,
        }
        built = {name: build(self.target_dir) for name, build in engines.items()}
        # Each has a venue of its own, and mostly waits.
        with concurrent.futures.ThreadPoolExecutor(len(built)) as pool:
            attempts = []
            for name, (program, why_not) in built.items():
                if program is None:
                    self.skip(name, why_not)
                    continue
                attempts.append(
                    pool.submit(self.attempt, name, fix, self.damrak, program, self.work / name, name)
                )
            for attempt in attempts:
                attempt.result()

        self.attempt("recording", self.recording)
        self.attempt("every_kind", self.every_kind)
        if why_no_capture is None:
            self.attempt("latency", self.latency)
        else:
            self.skip("latency", why_no_capture)
        venue = Venue(self.damrak, self.work)
        try:
            self.ouch42(venue, why_no_capture)
            packets = str(self.work / "packets.pcapng")
            udp = [venue.addresses[name] for name in ("market_data", "re_request")]
            tshark = None
            if why_no_capture is None:
                tshark = capture.record(packets, venue.port("order_entry"), udp)
            recording = str(self.work / "feed.bin")
            feed = subprocess.Popen(
                feed_command(self.damrak, venue.addresses, recording), stdin=subprocess.DEVNULL
            )
            try:
                traded = self.trade(venue, slouch, why_no_slouch)
                self.attempt("feed", self.feed, feed)
            finally:
                if feed.poll() is None:
                    feed.kill()
                    feed.wait()
                if tshark is not None:
                    # What the last packets left in buffers.
                    time.sleep(0.5)
                    capture.stop(tshark)
            kinds = FEED_KINDS if traded else "SR"
            if installed("itch"):
                self.attempt("itch_decode", outcome_of, [
                    sys.executable, str(HERE / "itch_decode.py"), recording, "--require", kinds
                ])
                joined = str(self.work / "joined.bin")
                self.attempt("join", self.join, join_command(self.damrak, venue.addresses, joined))
                self.attempt("itch_decode of a snapshot", outcome_of, [
                    sys.executable, str(HERE / "itch_decode.py"), joined, "--require", "SRH"
                ])
            else:
                self.skip("itch_decode", "PyPI itchfeed is not installed")
            if tshark is not None and traded:
                self.attempt("capture", outcome_of, [
                    sys.executable, str(HERE / "capture.py"), "check", packets,
                    "--tcp", str(venue.port("order_entry")), "--udp", *udp,
                ])
            else:
                self.skip("capture", why_no_capture or "no client traded")
            self.attempt("market_data", outcome_of, [
                sys.executable, str(HERE / "market_data.py"), "--damrak", self.damrak,
                "--addresses", json.dumps(venue.addresses), "--work", str(self.work),
            ])
            if not installed("playwright"):
                self.skip("report", "PyPI playwright is not installed")
            elif importlib.import_module("report_page").browser() is None:
                self.skip("report", "Chromium is not installed")
            else:
                self.attempt("report", self.report, venue)
                self.attempt("report of origins", self.origins_report)
        finally:
            self.attempt("stop", venue.stop)

    def origins_report(self):
        """A short ladder of `damrak lab origins`, and its page in a browser."""
        folder, page = str(self.work / "origins"), str(self.work / "origins.html")
        for arguments in [
            ["lab", "origins", "--only", "A,D", "--for", "100ms", "--out", folder],
            ["report", folder, "--output", page],
        ]:
            subprocess.run(
                [self.damrak, *arguments], stdin=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS,
            )
        picture = str(self.work / "origins.png")
        outcome_of([sys.executable, str(HERE / "report_page.py"), page, picture])

    def report(self, venue):
        """Two loads, one in a closed loop, and the page of both in a browser."""
        folders = [str(self.work / name) for name in ["open loop", "closed loop"]]
        for folder, loop in zip(folders, [["--rate", "2k/s"], ["--closed-loop", "4"]]):
            subprocess.run(
                [
                    self.damrak, "load", "--to", venue.addresses["order_entry"],
                    "--snapshot", venue.addresses["snapshot"], "--session", "user03:password03",
                    *loop, "--for", "2s", "--out", folder,
                ],
                stdin=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS,
            )
        page, picture = str(self.work / "report.html"), str(self.work / "report.png")
        subprocess.run(
            [self.damrak, "report", *folders, "--output", page],
            stdin=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS,
        )
        outcome_of([sys.executable, str(HERE / "report_page.py"), page, picture])

    def latency(self):
        """A load of one session with one request at a time, so that no read takes the packets of two answers, and a
        capture of it. A capture that lacks packets is repeated."""
        venue = Venue(self.damrak, self.work / "latency", durability="synced")
        why = None
        try:
            for attempt in range(LATENCY_RUNS):
                packets = str(self.work / f"latency-{attempt}.pcapng")
                folder = self.work / f"latency-{attempt}"
                tshark = capture.record(packets, venue.port("order_entry"), [])
                try:
                    subprocess.run(
                        [
                            self.damrak, "load", "--to", venue.addresses["order_entry"],
                            "--session", "user03:password03", "--symbols", "AAPL", "--closed-loop", "1",
                            "--packet-times", "--for", "2s", "--no-floor", "--out", str(folder),
                        ],
                        stdin=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS,
                    )
                finally:
                    time.sleep(0.5)
                    capture.stop(tshark)
                try:
                    outcome = latency.compare(packets, venue.port("order_entry"), folder)
                except latency.Incomplete as incomplete:
                    why = str(incomplete)
                    continue
                print(json.dumps(outcome), flush=True)
                if "why" in outcome:
                    raise Failed(outcome["why"])
                venue.stop()
                return
            raise Failed(f"none of {LATENCY_RUNS} captures is whole: {why}")
        finally:
            venue.kill()

    def ouch42(self, venue, why_no_capture):
        """OUCH 4.2 by plain sockets, twice in a row; tshark reads what was sent."""
        port = venue.port("order_entry_ouch42")
        packets, messages = str(self.work / "ouch42.pcapng"), str(self.work / "ouch42.messages")
        tshark = capture.record(packets, port, []) if why_no_capture is None else None
        script = str(HERE / "ouch42.py")
        try:
            for run in ["FIRST", "SECOND"]:
                self.attempt("ouch42", outcome_of, [
                    sys.executable, script, "trade", str(port), run, messages
                ])
        finally:
            if tshark is not None:
                time.sleep(0.5)
                capture.stop(tshark)
        if tshark is not None:
            self.attempt("ouch42 by tshark", outcome_of, [
                sys.executable, script, "check", packets, str(port), messages
            ])
        else:
            self.skip("ouch42 by tshark", why_no_capture)

    def trade(self, venue, slouch, why_no_slouch):
        """Each client in its turn; true if Nasdaq's has traded, which leaves all kinds of traces."""
        host, port = venue.addresses["order_entry"].rsplit(":", 1)
        has_library = installed("nasdaq_protocols")
        if has_library:
            self.attempt("soup_ouch", outcome_of, [
                sys.executable, str(HERE / "soup_ouch.py"), host, port
            ])
        else:
            self.skip("soup_ouch", "PyPI nasdaq-protocols is not installed")
        if slouch is not None:
            self.attempt("slouch", outcome_of, [
                slouch, f"{host}:{port}", "user03", "password03", "FIRM", "AAPL"
            ])
        else:
            self.skip("slouch", why_no_slouch)
        return has_library

    def recording(self):
        outcome = outcome_of([
            sys.executable, str(HERE / "recording.py"),
            "--damrak", self.damrak, "--work", str(self.work / "recording"),
        ])
        for decoder in outcome["skipped"]:
            self.skip("recording", f"{decoder} is not installed")

    def every_kind(self):
        for decoder in record_every_kind(self.damrak, self.work / "every_kind"):
            self.skip("every_kind", f"{decoder} is not installed")

    @staticmethod
    def join(command):
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=CHECK_SECONDS)

    @staticmethod
    def feed(process):
        code = process.wait(FEED_SECONDS + STOP_SECONDS)
        if code != 0:
            raise Failed(f"damrak feed ended with exit code {code}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--damrak", required=True, help="the program to check")
    parser.add_argument("--work", default="target/interop/work", help="for what is recorded")
    parser.add_argument("--target-dir", default="target/interop", help="for what is built")
    parser.add_argument("--require-all", action="store_true", help="a skipped check is a failure")
    arguments = parser.parse_args()
    run = Run(arguments)
    try:
        run.all()
    except (Failed, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as failure:
        print(f"FAILED: {failure}")
        return 1
    if run.failed:
        print(f"interop: failed: {', '.join(run.failed)}")
        return 1
    if run.skipped and arguments.require_all:
        print(f"interop: skipped, and all are required: {', '.join(run.skipped)}")
        return 1
    print("interop: ok" + (f", skipped: {', '.join(run.skipped)}" if run.skipped else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""QuickFIX for Python as a FIX engine that `fix_script.py` drives; it takes the arguments and lines of
quickfix/initiator.cpp and prints the same.

usage: initiator.py SETTINGS VERSION

The module `quickfix` is the C++ engine behind a wrapper: `pip install quickfix-py` brings it compiled.
"""

import sys
import threading
import time

import quickfix

SOH = "\x01"
printing = threading.Lock()


def show(kind, session, text=""):
    with printing:
        print(kind, session.getSenderCompID().getString(), text.replace(SOH, "|"), flush=True)


class Client(quickfix.Application):
    def __init__(self):
        super().__init__()
        # MsgSeqNum of the newest message of the application, by name. The engine counts a message after it was given.
        self.newest = {}

    def onCreate(self, session):
        pass

    def onLogon(self, session):
        show("logon", session)

    def onLogout(self, session):
        pass

    def toAdmin(self, message, session):
        if message.getHeader().getField(35) != "A":
            return
        password = session.getSenderCompID().getString().lower()
        if session.getBeginString().getString() == "FIX.4.2":
            message.setField(95, str(len(password)))
            message.setField(96, password)
        else:
            message.setField(554, password)

    def fromAdmin(self, message, session):
        show("session", session, message.toString())

    def toApp(self, message, session):
        pass

    def fromApp(self, message, session):
        self.newest[session.getSenderCompID().getString()] = int(message.getHeader().getField(34))
        show("app", session, message.toString())


def send(session, kind, fields):
    message = quickfix.Message()
    message.getHeader().setField(35, kind)
    message.setField(60, time.strftime("%Y%m%d-%H:%M:%S", time.gmtime()))
    for field in fields.split("|"):
        tag, value = field.split("=", 1)
        message.setField(int(tag), value)
    if not quickfix.Session.sendToTarget(message, session):
        raise RuntimeError(f"not sent: {fields}")


def obey(client, version, verb, name, argument, fields=""):
    session_id = quickfix.SessionID(version, name, "DAMRAK")
    session = quickfix.Session.lookupSession(session_id)
    if verb == "send":
        send(session_id, argument, fields)
    elif verb == "expect":
        while session.getExpectedTargetNum() <= client.newest.get(name, 0):
            time.sleep(0.001)
        session.setNextTargetMsgSeqNum(int(argument))
    elif verb == "skip":
        session.setNextSenderMsgSeqNum(session.getExpectedSenderNum() + int(argument))
    else:
        raise RuntimeError(f"no such command: {verb}")


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    settings_file, version = sys.argv[1:]
    client, terms = Client(), quickfix.SessionSettings(settings_file)
    kept = quickfix.FileStoreFactory(terms)
    initiator = quickfix.SocketInitiator(client, kept, terms)
    initiator.start()
    for line in sys.stdin:
        words = line.split()
        if words == ["stop"]:
            break
        obey(client, version, *words)
    initiator.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

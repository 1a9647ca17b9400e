// QuickFIX/Go as a FIX engine that `fix_script.py` drives; it takes the arguments and lines of
// quickfix/initiator.cpp and prints the same.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quickfixgo/quickfix"
	"github.com/quickfixgo/quickfix/store/file"
)

var printing sync.Mutex

func show(kind string, id quickfix.SessionID, text string) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(kind, id.SenderCompID, strings.ReplaceAll(text, "\x01", "|"))
}

// MsgSeqNum of the newest message of the application, by name. The engine counts a message after it was given.
var newest sync.Map

type client struct{}

func (client) OnCreate(quickfix.SessionID)    {}
func (client) OnLogon(id quickfix.SessionID)  { show("logon", id, "") }
func (client) OnLogout(id quickfix.SessionID) {}

func (client) ToAdmin(message *quickfix.Message, id quickfix.SessionID) {
	if !message.IsMsgTypeOf("A") {
		return
	}
	password := strings.ToLower(id.SenderCompID)
	if id.BeginString != "FIX.4.2" {
		message.Body.SetString(554, password)
	} else {
		message.Body.SetInt(95, len(password))
		message.Body.SetString(96, password)
	}
}

func (client) ToApp(*quickfix.Message, quickfix.SessionID) error { return nil }

func (client) FromAdmin(message *quickfix.Message, id quickfix.SessionID) quickfix.MessageRejectError {
	show("session", id, message.String())
	return nil
}

func (client) FromApp(message *quickfix.Message, id quickfix.SessionID) quickfix.MessageRejectError {
	number, err := message.Header.GetInt(34)
	if err != nil {
		return err
	}
	newest.Store(id.SenderCompID, number)
	show("app", id, message.String())
	return nil
}

func send(id quickfix.SessionID, kind string, fields string) error {
	message := quickfix.NewMessage()
	message.Header.SetString(35, kind)
	message.Body.SetField(60, quickfix.FIXUTCTimestamp{Time: time.Now()})
	for _, field := range strings.Split(fields, "|") {
		tag, value, _ := strings.Cut(field, "=")
		number, err := strconv.Atoi(tag)
		if err != nil {
			return err
		}
		message.Body.SetString(quickfix.Tag(number), value)
	}
	return quickfix.SendToTarget(message, id)
}

func obey(line string, version string) error {
	words := strings.Fields(line)
	id := quickfix.SessionID{BeginString: version, SenderCompID: words[1], TargetCompID: "DAMRAK"}
	if words[0] == "send" {
		return send(id, words[2], words[3])
	}
	number, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	switch words[0] {
	case "expect":
		given, _ := newest.LoadOrStore(id.SenderCompID, 0)
		for {
			counted, err := quickfix.GetExpectedTargetNum(id)
			if err != nil {
				return err
			}
			if counted > given.(int) {
				return quickfix.SetNextTargetMsgSeqNum(id, number)
			}
			time.Sleep(time.Millisecond)
		}
	case "skip":
		next, err := quickfix.GetExpectedSenderNum(id)
		if err != nil {
			return err
		}
		return quickfix.SetNextSenderMsgSeqNum(id, next+number)
	}
	return fmt.Errorf("no such command: %s", line)
}

func run(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("usage: quickfixgo SETTINGS VERSION")
	}
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	settings, err := quickfix.ParseSettings(bytes.NewReader(text))
	if err != nil {
		return err
	}
	store := file.NewStoreFactory(settings)
	initiator, err := quickfix.NewInitiator(client{}, store, settings, quickfix.NewNullLogFactory())
	if err != nil {
		return err
	}
	if err := initiator.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() && lines.Text() != "stop" {
		if err := obey(lines.Text(), arguments[1]); err != nil {
			return err
		}
	}
	initiator.Stop()
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

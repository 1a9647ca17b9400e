// QuickFIX C++ as a FIX engine that `fix_script.py` drives: it does what it reads, and prints what it receives.
//
// usage: initiator SETTINGS VERSION
//
// Reads `send NAME TYPE tag=value|…`, `expect NAME NUMBER` (the next number it takes for the venue's),
// `skip NAME COUNT` (numbers of its own that it never sends), `stop`. Prints `logon NAME`, `app NAME MESSAGE` and
// `session NAME MESSAGE`, with | for SOH.
#include <quickfix/Application.h>
#include <quickfix/FileStore.h>
#include <quickfix/Session.h>
#include <quickfix/SocketInitiator.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

static void print(const std::string& kind, const FIX::SessionID& id, std::string text) {
  static std::mutex mutex;
  std::replace(text.begin(), text.end(), '\001', '|');
  std::lock_guard<std::mutex> guard(mutex);
  std::cout << kind << " " << id.getSenderCompID().getString() << " " << text << std::endl;
}

// MsgSeqNum of the newest message of the application, by name. The engine counts a message after it was given.
static std::map<std::string, int> newest;
static std::mutex newest_mutex;

struct Client : FIX::NullApplication {
  void onLogon(const FIX::SessionID& id) override { print("logon", id, ""); }

  void toAdmin(FIX::Message& message, const FIX::SessionID& id) override {
    if (message.getHeader().getField(35) != "A") return;
    std::string password = id.getSenderCompID();
    std::transform(password.begin(), password.end(), password.begin(), ::tolower);
    if (id.getBeginString() != "FIX.4.2") {
      message.setField(554, password);
    } else {
      message.setField(95, std::to_string(password.size()));
      message.setField(96, password);
    }
  }

  void fromAdmin(const FIX::Message& message, const FIX::SessionID& id) throw(
      FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue, FIX::RejectLogon) override {
    print("session", id, message.toString());
  }

  void fromApp(const FIX::Message& message, const FIX::SessionID& id) throw(
      FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue,
      FIX::UnsupportedMessageType) override {
    {
      std::lock_guard<std::mutex> guard(newest_mutex);
      newest[id.getSenderCompID()] = std::stoi(message.getHeader().getField(34));
    }
    print("app", id, message.toString());
  }
};

static void send(const FIX::SessionID& id, const std::string& type, const std::string& fields) {
  FIX::Message message;
  message.getHeader().setField(35, type);
  message.setField(FIX::TransactTime(FIX::UtcTimeStamp(), 3));
  std::stringstream text(fields);
  for (std::string field; std::getline(text, field, '|');) {
    const size_t at = field.find('=');
    message.setField(std::stoi(field.substr(0, at)), field.substr(at + 1));
  }
  if (!FIX::Session::sendToTarget(message, id)) throw std::runtime_error("not sent: " + fields);
}

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: initiator SETTINGS VERSION" << std::endl;
    return 2;
  }
  const std::string version = arguments[2];
  try {
    FIX::SessionSettings settings(arguments[1]);
    Client client;
    FIX::FileStoreFactory store(settings);
    FIX::SocketInitiator initiator(client, store, settings);
    initiator.start();
    for (std::string line; std::getline(std::cin, line);) {
      std::stringstream words(line);
      std::string verb, name, argument, fields;
      words >> verb >> name >> argument >> fields;
      if (verb == "stop") break;
      const FIX::SessionID id(version, name, "DAMRAK");
      FIX::Session* session = FIX::Session::lookupSession(id);
      if (verb == "send") {
        send(id, argument, fields);
      } else if (verb == "expect") {
        const auto is_counted = [&] {
          std::lock_guard<std::mutex> guard(newest_mutex);
          return session->getExpectedTargetNum() > newest[name];
        };
        while (!is_counted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        session->setNextTargetMsgSeqNum(std::stoi(argument));
      } else if (verb == "skip") {
        session->setNextSenderMsgSeqNum(session->getExpectedSenderNum() + std::stoi(argument));
      } else {
        throw std::runtime_error("no such command: " + line);
      }
    }
    initiator.stop();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << version << ": " << error.what() << std::endl;
    return 1;
  }
}

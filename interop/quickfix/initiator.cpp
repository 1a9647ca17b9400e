// QuickFIX C++ as a client of the venue: two sessions trade by a script, in FIX 4.2 or 4.4.
//
// usage: initiator HOST PORT VERSION STORE trade|resume
//
// `trade` resets the numbers, then enters, fills in part, replaces, cancels and is rejected. `resume` logs on
// with the numbers in STORE, after the venue was killed: it makes a gap in each direction and has both filled.
// The last line is one JSON object; the exit code is 0 if all held.
#include <quickfix/Application.h>
#include <quickfix/FileStore.h>
#include <quickfix/Session.h>
#include <quickfix/SocketInitiator.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using Fields = std::vector<std::pair<int, std::string>>;

struct Client : FIX::NullApplication {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<FIX::Message>> messages;
  std::map<std::string, int> logons, resends, fills;
  bool reset = false;

  void onLogon(const FIX::SessionID& id) override {
    std::lock_guard<std::mutex> guard(mutex);
    logons[id.getSenderCompID()]++;
    changed.notify_all();
  }

  void toAdmin(FIX::Message& message, const FIX::SessionID& id) override {
    std::string type = message.getHeader().getField(35);
    if (type == "A") {
      std::string password = id.getSenderCompID() == "ALICE" ? "alice" : "bob";
      if (id.getBeginString() == "FIX.4.4") {
        message.setField(554, password);
      } else {
        message.setField(95, std::to_string(password.size()));
        message.setField(96, password);
      }
    }
    std::lock_guard<std::mutex> guard(mutex);
    if (type == "2") resends["sent"]++;
    if (type == "4") fills["sent"]++;
  }

  void fromAdmin(const FIX::Message& message, const FIX::SessionID&) throw(
      FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue, FIX::RejectLogon) override {
    std::lock_guard<std::mutex> guard(mutex);
    std::string type = message.getHeader().getField(35);
    if (type == "2") resends["received"]++;
    if (type == "4") fills["received"]++;
    if (type == "3") std::cerr << "rejected: " << message.toString() << std::endl;
    changed.notify_all();
  }

  void fromApp(const FIX::Message& message, const FIX::SessionID& id) throw(
      FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue,
      FIX::UnsupportedMessageType) override {
    std::lock_guard<std::mutex> guard(mutex);
    messages[id.getSenderCompID()].push_back(message);
    changed.notify_all();
  }

  template <typename Condition>
  void wait(const std::string& what, Condition condition) {
    std::unique_lock<std::mutex> guard(mutex);
    if (!changed.wait_for(guard, std::chrono::seconds(60), condition)) {
      throw std::runtime_error("waited for " + what);
    }
  }

  // Waits for the number-th message of the application to a session and checks these fields.
  void expect(const std::string& name, size_t number, const Fields& fields) {
    wait("message " + std::to_string(number) + " to " + name,
         [&] { return messages[name].size() >= number; });
    std::lock_guard<std::mutex> guard(mutex);
    const FIX::Message& message = messages[name][number - 1];
    for (const auto& field : fields) {
      std::string found = field.first == 35   ? message.getHeader().getField(35)
                          : field.first == 43 ? message.getHeader().getField(43)
                                              : message.getField(field.first);
      if (found != field.second) {
        throw std::runtime_error("tag " + std::to_string(field.first) + " is " + found + " and not " +
                                 field.second + " in " + message.toString());
      }
    }
  }
};

static void send(const FIX::SessionID& id, const char* type, const Fields& fields) {
  FIX::Message message;
  message.getHeader().setField(35, type);
  message.setField(FIX::TransactTime(FIX::UtcTimeStamp(), 3));
  if (id.getBeginString() == "FIX.4.2" && *type != 'F') message.setField(21, "1");
  for (const auto& field : fields) message.setField(field.first, field.second);
  if (!FIX::Session::sendToTarget(message, id)) throw std::runtime_error("not sent");
}

static void trade(Client& client, const FIX::SessionID& alice, const FIX::SessionID& bob) {
  const bool old = alice.getBeginString() == "FIX.4.2";
  const std::string fill = old ? "1" : "F", last = old ? "2" : "F";
  send(alice, "D", {{11, "A1"}, {55, "AAPL"}, {54, "2"}, {38, "100"}, {40, "2"}, {44, "150.34"}, {59, "0"}});
  client.expect("ALICE", 1, {{35, "8"}, {150, "0"}, {39, "0"}, {11, "A1"}, {151, "100"}});
  send(bob, "D", {{11, "B1"}, {55, "AAPL"}, {54, "1"}, {38, "40"}, {40, "2"}, {44, "150.34"}, {59, "3"}});
  client.expect("BOB", 2, {{150, last}, {39, "2"}, {14, "40"}, {6, "150.34"}, {31, "150.34"}});
  client.expect("ALICE", 2, {{150, fill}, {39, "1"}, {11, "A1"}, {14, "40"}, {151, "60"}});
  send(alice, "G", {{11, "A2"}, {41, "A1"}, {55, "AAPL"}, {54, "2"}, {38, "200"}, {40, "2"}, {44, "150.35"}, {59, "0"}});
  client.expect("ALICE", 3, {{150, "5"}, {39, "1"}, {11, "A2"}, {41, "A1"}, {38, "200"}, {151, "160"}});
  send(alice, "F", {{11, "A3"}, {41, "A2"}, {55, "AAPL"}, {54, "2"}, {38, "200"}});
  client.expect("ALICE", 4, {{150, "4"}, {39, "4"}, {11, "A3"}, {41, "A2"}, {14, "40"}, {151, "0"}});
  send(alice, "F", {{11, "A4"}, {41, "A2"}, {55, "AAPL"}, {54, "2"}, {38, "200"}});
  client.expect("ALICE", 5, {{35, "9"}, {39, "4"}, {102, "0"}, {434, "1"}});
  send(alice, "D", {{11, "A5"}, {55, "NONE"}, {54, "2"}, {38, "1"}, {40, "2"}, {44, "1"}, {59, "0"}});
  client.expect("ALICE", 6, {{150, "8"}, {39, "8"}, {103, "1"}});
  // This order rests while the venue is killed.
  send(alice, "D", {{11, "A6"}, {55, "AAPL"}, {54, "2"}, {38, "10"}, {40, "2"}, {44, "151"}, {59, "0"}});
  client.expect("ALICE", 7, {{150, "0"}, {11, "A6"}});
}

static void resume(Client& client, const FIX::SessionID& alice) {
  // A gap of the venue's: this side forgets the reports of the script, and asks for them.
  FIX::Session* session = FIX::Session::lookupSession(alice);
  const int next = session->getExpectedTargetNum();
  session->setNextTargetMsgSeqNum(2);
  send(alice, "H", {{11, "A6"}, {55, "AAPL"}, {54, "2"}});
  client.expect("ALICE", 1, {{35, "8"}, {43, "Y"}, {150, "0"}, {11, "A1"}});
  client.expect("ALICE", 5, {{35, "9"}, {43, "Y"}});
  client.expect("ALICE", 7, {{43, "Y"}, {11, "A6"}});
  client.expect("ALICE", 8, {{39, "0"}, {11, "A6"}, {151, "10"}});
  if (session->getExpectedTargetNum() <= next) throw std::runtime_error("the gap was not filled");
  // A gap of this side's: the venue asks for what it did not get, and this side fills it.
  const int before = client.resends["received"];
  session->setNextSenderMsgSeqNum(session->getExpectedSenderNum() + 3);
  send(alice, "F", {{11, "A7"}, {41, "A6"}, {55, "AAPL"}, {54, "2"}, {38, "10"}});
  client.wait("a resend request", [&] { return client.resends["received"] > before; });
  client.expect("ALICE", 9, {{39, "4"}, {11, "A7"}, {41, "A6"}});
}

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: initiator HOST PORT VERSION STORE trade|resume" << std::endl;
    return 2;
  }
  const std::string version = arguments[3], script = arguments[5];
  std::stringstream text;
  text << "[DEFAULT]\nConnectionType=initiator\nHeartBtInt=30\nReconnectInterval=1\nStartTime=00:00:00\n"
       << "EndTime=00:00:00\nUseDataDictionary=N\nFileStorePath=" << arguments[4]
       << "\nTargetCompID=DAMRAK\nBeginString=" << version << "\nSocketConnectHost=" << arguments[1]
       << "\nSocketConnectPort=" << arguments[2] << "\nResetOnLogon=" << (script == "trade" ? "Y" : "N")
       << "\n[SESSION]\nSenderCompID=ALICE\n";
  if (script == "trade") text << "[SESSION]\nSenderCompID=BOB\n";
  try {
    FIX::SessionSettings settings(text);
    Client client;
    FIX::FileStoreFactory store(settings);
    FIX::SocketInitiator initiator(client, store, settings);
    const FIX::SessionID alice(version, "ALICE", "DAMRAK"), bob(version, "BOB", "DAMRAK");
    initiator.start();
    const size_t sessions = script == "trade" ? 2 : 1;
    client.wait("logons", [&] { return client.logons.size() >= sessions; });
    if (script == "trade") {
      trade(client, alice, bob);
    } else {
      resume(client, alice);
    }
    const size_t received = client.messages["ALICE"].size() + client.messages["BOB"].size();
    initiator.stop();
    std::cout << "{\"ok\": true, \"client\": \"quickfix\", \"version\": \"" << version
              << "\", \"script\": \"" << script << "\", \"messages\": " << received << "}" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << "{\"ok\": false, \"why\": \"" << version << " " << script << ": " << error.what() << "\"}"
              << std::endl;
    return 1;
  }
}

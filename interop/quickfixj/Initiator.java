// QuickFIX/J as a FIX engine that `fix_script.py` drives; it takes the arguments and lines of
// quickfix/initiator.cpp and prints the same.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import quickfix.ApplicationAdapter;
import quickfix.DefaultMessageFactory;
import quickfix.FieldNotFound;
import quickfix.FileStoreFactory;
import quickfix.Message;
import quickfix.SLF4JLogFactory;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketInitiator;

public final class Initiator extends ApplicationAdapter {
    // MsgSeqNum of the newest message of the application, by name. The engine counts a message after it was given.
    private final Map<String, Integer> newest = new ConcurrentHashMap<>();

    private static synchronized void show(String kind, SessionID id, String text) {
        System.out.println(kind + " " + id.getSenderCompID() + " " + text.replace('\u0001', '|'));
        System.out.flush();
    }

    @Override
    public void onLogon(SessionID id) {
        show("logon", id, "");
    }

    @Override
    public void toAdmin(Message message, SessionID id) {
        try {
            if (!message.getHeader().getString(35).equals("A")) {
                return;
            }
        } catch (FieldNotFound error) {
            throw new IllegalStateException(error);
        }
        String password = id.getSenderCompID().toLowerCase(Locale.ROOT);
        if (id.getBeginString().equals("FIX.4.2")) {
            message.setInt(95, password.length());
            message.setString(96, password);
        } else {
            message.setString(554, password);
        }
    }

    @Override
    public void fromAdmin(Message message, SessionID id) {
        show("session", id, message.toString());
    }

    @Override
    public void fromApp(Message message, SessionID id) throws FieldNotFound {
        newest.put(id.getSenderCompID(), message.getHeader().getInt(34));
        show("app", id, message.toString());
    }

    private static void send(SessionID id, String type, String fields) throws Exception {
        Message message = new Message();
        message.getHeader().setString(35, type);
        message.setUtcTimeStamp(60, LocalDateTime.now(ZoneOffset.UTC), true);
        for (String field : fields.split("\\|")) {
            String[] parts = field.split("=", 2);
            message.setString(Integer.parseInt(parts[0]), parts[1]);
        }
        if (!Session.sendToTarget(message, id)) {
            throw new IOException("not sent: " + fields);
        }
    }

    private void obey(String line, String version) throws Exception {
        String[] words = line.split(" ");
        SessionID id = new SessionID(version, words[1], "DAMRAK");
        Session session = Session.lookupSession(id);
        switch (words[0]) {
            case "send" -> send(id, words[2], words[3]);
            case "expect" -> {
                while (session.getExpectedTargetNum() <= newest.getOrDefault(words[1], 0)) {
                    Thread.sleep(1);
                }
                session.setNextTargetMsgSeqNum(Integer.parseInt(words[2]));
            }
            case "skip" -> session.setNextSenderMsgSeqNum(
                    session.getExpectedSenderNum() + Integer.parseInt(words[2]));
            default -> throw new IOException("no such command: " + line);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2) {
            System.err.println("usage: Initiator SETTINGS VERSION");
            System.exit(2);
        }
        String version = arguments[1];
        SessionSettings settings = new SessionSettings(arguments[0]);
        Initiator client = new Initiator();
        SocketInitiator initiator = new SocketInitiator(client, new FileStoreFactory(settings), settings,
                new SLF4JLogFactory(settings), new DefaultMessageFactory());
        initiator.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
                client.obey(line, version);
            }
            initiator.stop();
        } catch (Exception error) {
            System.err.println(version + ": " + error);
            // Threads of the engine would keep the program alive.
            System.exit(1);
        }
    }
}

//! The journeys again, over sockets of this machine: sessions over TCP, the feed, threads that park.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket},
    process::Command,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use gateway::{
    DatagramNetwork, FeedServer, FeedServerNetworks, FeedServerOptions, MarketData,
    MarketDataOptions, NetworkEvent, RequestLimits, SocketOptions, SocketParker, StreamNetwork,
    Tcp, TcpBackend, TcpOptions, Udp, UdpOptions, fake::FakeStream, past_rings,
};
use market::SessionId;
use ring::{Agent, Builder, Parker};
use socket2::{Domain, Socket, Type};
use wire::{
    moldudp64::{PacketKind, Receiver, ReceiverLimits, parse},
    soupbintcp::{Client, LoginRejectReason, LoginRequest, Timers},
};

use crate::harness::{
    Harness, SECOND, SESSION, START, Seen, Venue, config, enter, order, replies, see, users,
};

pub(crate) const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Repeats `step` until it returns true. Gives up after a quarter of an hour at the earliest, which no machine needs:
/// other threads and the kernel may take their time.
pub(crate) fn until(what: &str, mut step: impl FnMut() -> bool) {
    for _ in 0..10_000_000 {
        if step() {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
    panic!("never happened: {what}");
}

/// Makes a listener with this backend, if the system allows it.
fn bind_with(backend: TcpBackend) -> io::Result<Tcp> {
    Tcp::bind_with(LOOPBACK, TcpOptions { backend, ..TcpOptions::default() })
}

/// Runs a test with each backend that this system has.
fn with_each_backend(name: &str, test: impl Fn(TcpBackend)) {
    test(TcpBackend::Epoll);
    let tcp = bind_with(TcpBackend::IoUring).unwrap();
    match tcp.refused_backend() {
        None => test(TcpBackend::IoUring),
        Some(error) => {
            skipped(&format!("sockets::{name}"), &format!("io_uring is refused: {error}"))
        }
    }
    test(TcpBackend::Threads { count: 8 });
}

fn tcp_bench(store_bytes_max: usize, backend: TcpBackend) -> (Harness<Tcp>, SocketAddr) {
    let tcp = bind_with(backend).unwrap();
    let address = tcp.address();
    let mut config = config();
    config.limits.store_bytes_max = store_bytes_max;
    let mut harness = Harness::over(tcp, FakeStream::new(), config, Venue::new(1024));
    for user in users() {
        harness.venue.add_session(user.username().as_str());
    }
    harness.turn();
    (harness, address)
}

/// A client over TCP.
struct TcpClient {
    stream: TcpStream,
    client: Client,
    seen: Vec<Seen>,
    ended: bool,
}

impl TcpClient {
    fn connect(address: SocketAddr, username: &str, password: &str, from: u64) -> Self {
        Self::over(TcpStream::connect(address).unwrap(), username, password, from)
    }

    fn over(stream: TcpStream, username: &str, password: &str, from: u64) -> Self {
        stream.set_nonblocking(true).unwrap();
        let mut login = LoginRequest::new(username, password).unwrap();
        login.sequence_number = Some(from);
        let client = Client::new(Timers::default(), login, START);
        Self { stream, client, seen: Vec::new(), ended: false }
    }

    fn write(&mut self) {
        while !self.client.outgoing().is_empty() {
            match self.stream.write(self.client.outgoing()) {
                Ok(count) => self.client.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.ended = true,
            }
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 8192];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return self.ended = true,
                Ok(count) => see(&mut self.client, &buffer[..count], START, &mut self.seen),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.ended = true,
            }
        }
    }

    /// Runs the client and the gateway until the condition holds.
    fn until(&mut self, harness: &mut Harness<Tcp>, what: &str, holds: impl Fn(&Self) -> bool) {
        until(what, || {
            self.write();
            harness.turn();
            self.read();
            holds(self)
        });
    }
}

/// Log in, trade, log out, come back from an earlier number, over TCP.
#[test]
fn a_session_over_tcp() {
    with_each_backend("a_session_over_tcp", session_over_tcp);
}

fn session_over_tcp(backend: TcpBackend) {
    let (mut harness, address) = tcp_bench(1 << 20, backend);
    let mut client = TcpClient::connect(address, "user01", "password01", 1);
    client.until(&mut harness, "login", |client| client.seen == [Seen::Accepted(1)]);

    let mut wrong = TcpClient::connect(address, "USER02", "PASSWORD", 1);
    wrong.until(&mut harness, "end", |client| client.ended);
    assert_eq!(wrong.seen, [Seen::Rejected(LoginRejectReason::NotAuthorized)]);
    let mut second = TcpClient::connect(address, "USER01", "PASSWORD01", 1);
    second.until(&mut harness, "end", |client| client.ended);
    assert_eq!(second.seen, [Seen::Rejected(LoginRejectReason::SessionNotAvailable)]);

    for number in 1..=2_000 {
        client.client.send(&enter(number), START);
    }
    client.until(&mut harness, "replies", |client| replies(&client.seen).len() == 2_000);
    client.client.logout(START);
    client.until(&mut harness, "end", |client| client.ended);

    let mut again = TcpClient::connect(address, "USER01", "PASSWORD01", 1_500);
    again.until(&mut harness, "replies", |client| replies(&client.seen).len() == 501);
    assert_eq!(replies(&again.seen), replies(&client.seen)[1_499..]);
    drop((wrong, second, again));
    until("all closed", || {
        harness.turn();
        harness.count().connections == 0
    });
}

/// A client that breaks the protocol receives the reason before the connection ends, even if it sends more.
#[test]
fn last_words_arrive_over_tcp() {
    with_each_backend("last_words_arrive_over_tcp", last_words);
}

fn last_words(backend: TcpBackend) {
    let (mut harness, address) = tcp_bench(1 << 20, backend);
    let mut client = TcpClient::connect(address, "USER01", "PASSWORD01", 1);
    client.until(&mut harness, "login", |client| client.client.is_logged_in());
    client.stream.write_all(b"\x00\x01?").unwrap();
    client.stream.write_all(&[b'x'; 10_000]).unwrap();
    client.until(&mut harness, "end", |client| client.ended);
    let text = "packet type '?' is not allowed from this side".to_owned();
    assert_eq!(client.seen.last(), Some(&Seen::Debug(text)));
}

/// A client that reads nothing fills its sockets and is cut off; another client trades all the while.
#[test]
fn a_stuck_client_over_tcp_is_cut_off() {
    with_each_backend("a_stuck_client_over_tcp_is_cut_off", stuck_client);
}

fn stuck_client(backend: TcpBackend) {
    let (mut harness, address) = tcp_bench(64 << 20, backend);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&address.into()).unwrap();
    let mut stuck = TcpClient::over(socket.into(), "USER01", "PASSWORD01", 1);
    stuck.until(&mut harness, "login", |client| client.client.is_logged_in());
    let mut other = TcpClient::connect(address, "USER02", "PASSWORD01", 1);
    other.until(&mut harness, "login", |client| client.client.is_logged_in());

    for number in 1..=100_000 {
        harness.venue.accept(&order(SessionId(1), number));
        if number % 1_000 == 0 {
            harness.turn();
        }
    }
    assert!(harness.count().replies_sent < 100_000, "the sockets took everything");
    // The kernel may take a little more for the stuck client later on, from which its time counts anew.
    let mut number = 0;
    while harness.count().slow_closed == 0 {
        number += 1;
        harness.now_ns += SECOND;
        other.client.send(&enter(number), START);
        other.until(&mut harness, "reply", |client| replies(&client.seen).len() == number as usize);
        harness.turn();
        let count = harness.count();
        assert_eq!(count.connections + count.slow_closed, 2, "it ended for another reason");
    }
    assert!(10 <= number, "cut off after {number} s");
    until("the end", || {
        stuck.read();
        stuck.ended
    });
    assert!(!other.ended);

    let next = stuck.client.next_sequence();
    let mut again = TcpClient::connect(address, "USER01", "PASSWORD01", next);
    again.until(&mut harness, "the rest", |client| client.client.next_sequence() == 100_001);
}

/// A port that is shared gives each connection to one listener; otherwise a second listener is refused.
#[test]
fn a_port_may_be_shared() {
    with_each_backend("a_port_may_be_shared", |backend| {
        let options = TcpOptions { backend, reuse_port: true };
        let mut listeners = vec![Tcp::bind_with(LOOPBACK, options).unwrap()];
        let address = listeners[0].address();
        let refused = Tcp::bind(address).map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        listeners.push(Tcp::bind_with(address, options).unwrap());
        let clients: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut from = Vec::new();
        until("all are accepted", || {
            for listener in &mut listeners {
                let mut events = Vec::new();
                listener.poll(&mut events).unwrap();
                from.extend(events.iter().filter_map(|event| match event {
                    NetworkEvent::Accepted(_, from) => Some(*from),
                    _ => None,
                }));
            }
            from.len() == clients.len()
        });
        let mut wanted: Vec<_> = clients.iter().map(|it| it.local_addr().unwrap()).collect();
        wanted.sort();
        from.sort();
        assert_eq!(from, wanted, "{backend:?}");
    });
}

/// The waits of bytes in a connection are counted from their arrival, if requested; only epoll supports it.
#[test]
fn waits_in_a_connection_are_counted() {
    const PAUSE: Duration = Duration::from_millis(2);
    let counting = SocketOptions {
        arrival_times: Some(os::PacketTimes::Software),
        ..SocketOptions::default()
    };
    with_each_backend("waits_in_a_connection_are_counted", |backend| {
        let mut tcp = bind_with(backend).unwrap();
        assert!(tcp.count_arrivals(&SocketOptions::default()).is_ok() && tcp.arrivals().is_none());
        if backend != TcpBackend::Epoll {
            let refused = tcp.count_arrivals(&counting).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
            return;
        }
        if let Err(error) = tcp.count_arrivals(&counting) {
            return skipped("sockets::waits_in_a_connection_are_counted", &error.to_string());
        }
        let arrivals = tcp.arrivals().unwrap();
        let mut client = TcpStream::connect(tcp.address()).unwrap();
        let mut id = None;
        until("accepted", || {
            let mut events = Vec::new();
            tcp.poll(&mut events).unwrap();
            id = events.iter().find_map(|event| match event {
                NetworkEvent::Accepted(id, _) => Some(*id),
                _ => None,
            });
            id.is_some()
        });
        // The kernel takes a moment until it starts to note arrival times.
        until("a wait is counted", || {
            client.write_all(b"waits").unwrap();
            thread::sleep(PAUSE);
            let mut len = 0;
            until("all of it", || {
                len += tcp.read(id.unwrap(), &mut [0; 9]).unwrap_or(0);
                len == 5
            });
            !arrivals.counts().is_empty()
        });
        let counts = arrivals.counts();
        assert_eq!(counts.len(), 1, "{counts:?}");
        assert!(counts[0].0 >= PAUSE.as_nanos() as u64 && counts[0].1 == 1, "{counts:?}");
    });
}

/// The id of a connection that was closed does not mean the one that took its place.
#[test]
fn an_old_id_means_no_new_connection() {
    with_each_backend("an_old_id_means_no_new_connection", old_id);
}

fn old_id(backend: TcpBackend) {
    let mut tcp = bind_with(backend).unwrap();
    let accept = |tcp: &mut Tcp| {
        let mut events = Vec::new();
        until("accepted", || {
            tcp.poll(&mut events).unwrap();
            events.iter().any(|event| matches!(event, NetworkEvent::Accepted(..)))
        });
        events
            .iter()
            .find_map(|event| match event {
                NetworkEvent::Accepted(id, _) => Some(*id),
                _ => None,
            })
            .unwrap()
    };
    let _first = TcpStream::connect(tcp.address()).unwrap();
    let old = accept(&mut tcp);
    tcp.close(old);
    let mut second = TcpStream::connect(tcp.address()).unwrap();
    let new = accept(&mut tcp);
    assert_eq!(new.index, old.index);
    assert_ne!(new, old);
    let not_connected = |result: io::Result<usize>| {
        result.is_err_and(|error| error.kind() == io::ErrorKind::NotConnected)
    };
    assert!(not_connected(tcp.write(old, b"lost")));
    assert!(not_connected(tcp.read(old, &mut [0; 4])));
    tcp.finish(old);
    tcp.close(old);
    assert_eq!(tcp.write(new, b"kept").unwrap(), 4);
    let mut kept = [0; 4];
    second.read_exact(&mut kept).unwrap();
    assert_eq!(&kept, b"kept");
}

/// Where the process is out of descriptors, a connection is refused at once; where another thread has
/// taken the spare descriptor as well, connections wait. Runs itself again, with few descriptors.
#[test]
fn connections_are_refused_without_descriptors() {
    const CHILD: &str = "GATEWAY_TEST_FEW_DESCRIPTORS";
    let Some(backend) = std::env::var_os(CHILD) else {
        return with_each_backend("connections_are_refused_without_descriptors", |backend| {
            let output = Command::new("sh")
                .arg("-c")
                .arg(
                    "ulimit -n 64 && \
                 exec \"$0\" --exact sockets::connections_are_refused_without_descriptors",
                )
                .arg(std::env::current_exe().unwrap())
                .env(CHILD, format!("{backend:?}"))
                // With a ninth arena glibc counts the processors: it opens a file, whose descriptor is free a moment later.
                .env("MALLOC_ARENA_MAX", "1")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{backend:?}: {text}");
        });
    };
    let known = [TcpBackend::Epoll, TcpBackend::IoUring, TcpBackend::Threads { count: 8 }];
    let backend = known.into_iter().find(|it| backend == *format!("{it:?}")).unwrap();
    let mut tcp = bind_with(backend).unwrap();
    assert!(tcp.refused_backend().is_none());
    let mut fillers = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        fillers.push(file);
    }
    fillers.pop();
    let mut client = TcpStream::connect(tcp.address()).unwrap();
    let mut events = Vec::new();
    until("refused", || {
        tcp.poll(&mut events).unwrap();
        !events.is_empty()
    });
    assert_eq!(events, [NetworkEvent::Refused(client.local_addr().unwrap())]);
    assert_eq!(tcp.counters().read().refused, 1);
    assert_eq!(client.read(&mut [0; 1]).unwrap_or(0), 0, "the client learns it");
    drop(client);

    events.clear();
    fillers.pop();
    let _client = TcpStream::connect(tcp.address()).unwrap();
    fillers.pop();
    until("accepted", || {
        tcp.poll(&mut events).unwrap();
        !events.is_empty()
    });
    assert!(matches!(events[0], NetworkEvent::Accepted(..)), "{events:?}");
}

/// A client that sends while nothing is read is held back by TCP; its bytes arrive whole, in order, whatever another
/// client sends meanwhile, and its end after them.
#[test]
fn an_unread_connection_is_held_back() {
    with_each_backend("an_unread_connection_is_held_back", unread);
}

fn unread(backend: TcpBackend) {
    let mut tcp = bind_with(backend).unwrap();
    let mut ids = Vec::new();
    let mut client = |tcp: &mut Tcp| {
        let client = TcpStream::connect(tcp.address()).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut events, before) = (Vec::new(), ids.len());
        until("accepted", || {
            tcp.poll(&mut events).unwrap();
            ids.extend(events.drain(..).filter_map(|event| match event {
                NetworkEvent::Accepted(id, _) => Some(id),
                _ => None,
            }));
            ids.len() > before
        });
        client
    };
    let mut held = client(&mut tcp);
    let mut busy = client(&mut tcp);
    let [held_id, busy_id] = ids[..] else { panic!("{ids:?}") };
    let byte = |at: usize| (at % 251) as u8;
    // Until no more bytes fit for a while.
    let (mut sent, mut stuck) = (0, 0);
    let mut buffer = [0; 3_000];
    let read = |tcp: &mut Tcp, id, buffer: &mut [u8]| match tcp.read(id, buffer) {
        Ok(count) => Some(count),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            None
        }
    };
    while stuck < 100 {
        let bytes: Vec<u8> = (sent..sent + 10_000).map(byte).collect();
        match held.write(&bytes) {
            Ok(count) => (sent, stuck) = (sent + count, 0),
            Err(_) => {
                stuck += 1;
                thread::sleep(Duration::from_millis(1));
            }
        }
        tcp.poll(&mut Vec::new()).unwrap();
        assert!(sent < 100 << 20, "it is not held back");
    }
    busy.write_all(b"order").unwrap();
    until("the other's bytes", || {
        tcp.poll(&mut Vec::new()).unwrap();
        read(&mut tcp, busy_id, &mut buffer) == Some(5)
    });
    held.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = 0;
    until("the end", || {
        tcp.poll(&mut Vec::new()).unwrap();
        let Some(count) = read(&mut tcp, held_id, &mut buffer) else { return false };
        assert!(buffer[..count].iter().enumerate().all(|(at, found)| *found == byte(got + at)));
        got += count;
        count == 0
    });
    assert_eq!(got, sent);
}

/// With a thread for each connection, one more waits in the backlog of the system until a thread is done with another.
#[test]
fn a_connection_waits_for_a_thread() {
    let mut tcp = bind_with(TcpBackend::Threads { count: 2 }).unwrap();
    let mut clients: Vec<_> = (0..3).map(|_| TcpStream::connect(tcp.address()).unwrap()).collect();
    let (mut events, mut accepted) = (Vec::new(), Vec::new());
    let mut accept = |tcp: &mut Tcp, accepted: &mut Vec<_>| {
        tcp.poll(&mut events).unwrap();
        accepted.extend(events.drain(..).filter_map(|event| match event {
            NetworkEvent::Accepted(id, _) => Some(id),
            _ => None,
        }));
    };
    until("two accepted", || {
        accept(&mut tcp, &mut accepted);
        accepted.len() == 2
    });
    for _ in 0..100 {
        accept(&mut tcp, &mut accepted);
    }
    assert_eq!(accepted.len(), 2, "each thread has one");
    clients[2].write_all(b"patience").unwrap();
    tcp.close(accepted[0]);
    let mut buffer = [0; 16];
    let mut count = 0;
    until("the third", || {
        accept(&mut tcp, &mut accepted);
        let Some(third) = accepted.get(2) else { return false };
        count += tcp.read(*third, &mut buffer[count..]).unwrap_or(0);
        &buffer[..count] == b"patience"
    });
}

/// Publishes a feed, loses some of it, and requests the lost part again: to a group, or to one address.
fn publish(feed: Udp, group: SocketAddr, mut subscriber: Udp) {
    let requests = Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap();
    let (request_address, asker) = (requests.address(), UdpSocket::bind(LOOPBACK).unwrap());
    asker.set_nonblocking(true).unwrap();
    let (mut venue, ends) = Venue::new(16);
    let mut ring = Builder::new("feed", 1024);
    let taken = ring.gating("feed server");
    let (to_server, _) = ring.build();
    let options = MarketDataOptions { session: SESSION, group };
    let mut agent = MarketData::new(feed, options, ends.outputs, ends.durable, to_server);
    let networks = FeedServerNetworks {
        requests,
        snapshot: Tcp::bind(LOOPBACK).unwrap(),
        stream: Tcp::bind(LOOPBACK).unwrap(),
    };
    let options = FeedServerOptions {
        session: SESSION,
        users: Vec::new(),
        timers: Timers::default(),
        slow_client_timeout_ns: SECOND,
        store_bytes_max: 1 << 20,
        requests: RequestLimits::default(),
        streams: Vec::new(),
    };
    let (ends, _past) = past_rings();
    let mut server = FeedServer::new(networks, options, taken, ends);
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    let (mut delivered, mut heartbeats, mut packets) = (Vec::new(), 0, 0);
    for number in 1..=200 {
        venue.accept(&order(SessionId(1), number));
        let now_ns = START + u64::from(number) * SECOND / 10;
        until("the message", || {
            agent.do_work(now_ns).unwrap();
            server.do_work(now_ns).unwrap();
            subscriber
                .receive(&mut |_, bytes| {
                    packets += 1;
                    if packets % 5 != 0 {
                        receiver
                            .receive(bytes, now_ns, &mut |number, _| delivered.push(number))
                            .unwrap();
                    }
                })
                .unwrap();
            if let Some(request) = receiver.next_request(now_ns) {
                asker.send_to(&request.encode(), request_address).unwrap();
            }
            let mut buffer = [0; 2048];
            while let Ok((len, from)) = asker.recv_from(&mut buffer) {
                assert_eq!(from, request_address);
                receiver
                    .receive(&buffer[..len], now_ns, &mut |number, _| delivered.push(number))
                    .unwrap();
            }
            // A lost packet shows only with the next one.
            delivered.len() as u32 + 1 >= 2 + number
        });
    }
    until("the heartbeat", || {
        let now_ns = START + 30 * SECOND;
        agent.do_work(now_ns).unwrap();
        subscriber
            .receive(&mut |_, bytes| {
                heartbeats += u32::from(parse(bytes).unwrap().kind == PacketKind::Heartbeat);
            })
            .unwrap();
        heartbeats == 1
    });
    assert!(delivered.iter().copied().eq(1..=delivered.len() as u64));
    assert!(receiver.statistics().gaps > 10);
}

/// The feed to a multicast group on the loopback of this machine.
#[test]
fn the_feed_over_multicast() {
    let options = UdpOptions::default();
    let group = |port| SocketAddrV4::new(Ipv4Addr::new(239, 255, 77, 1), port);
    // Two sockets cannot both ask for port 0, so a free port is found first.
    let port = UdpSocket::bind(LOOPBACK).unwrap().local_addr().unwrap().port();
    let group = group(port);
    assert!(gateway::is_multicast(group.into()));
    let joined = Udp::multicast_receiver(group, Ipv4Addr::LOCALHOST, &options);
    let mut subscriber = match joined {
        Ok(subscriber) => subscriber,
        Err(error) => {
            return skipped(
                "sockets::the_feed_over_multicast",
                &format!("cannot join {group} on loopback: {error}"),
            );
        }
    };
    let mut feed = Udp::multicast_sender(Ipv4Addr::LOCALHOST, &options).unwrap();
    feed.send(group.into(), b"hello").unwrap();
    feed.flush().unwrap();
    let mut heard = 0;
    for _ in 0..1_000 {
        heard += subscriber.receive(&mut |_, _| {}).unwrap();
        if heard > 0 {
            return publish(feed, group.into(), subscriber);
        }
        thread::sleep(Duration::from_millis(1));
    }
    skipped("sockets::the_feed_over_multicast", "loopback carries no multicast here");
}

/// Reports a skipped test where the test harness does not swallow the text.
pub(crate) fn skipped(test: &str, why: &str) {
    let text = format!("skipped: {test}: {why}\n");
    io::stderr().write_all(text.as_bytes()).unwrap();
}

/// The feed to one subscriber, where there is no multicast.
#[test]
fn the_feed_over_unicast() {
    let subscriber = Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap();
    let address = subscriber.address();
    publish(Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap(), address, subscriber);
}

/// A parked thread wakes when a connection or a datagram arrives, or when it is unparked, even if
/// that was just before it parked.
#[test]
fn sockets_and_doorbells_wake_a_parked_thread() {
    let mut tcp = Tcp::bind(LOOPBACK).unwrap();
    let mut udp = Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap();
    let (tcp_address, udp_address) = (tcp.address(), udp.address());
    let mut parker =
        SocketParker::new(vec![tcp.readiness().unwrap(), udp.readiness().unwrap()]).unwrap();
    let unparker = parker.unparker();
    let (go, wait_to_go) = mpsc::channel::<()>();
    let (woke, wait_to_wake) = mpsc::channel();
    let thread = thread::spawn(move || {
        while wait_to_go.recv().is_ok() {
            parker.park(Duration::from_secs(3600));
            let mut events = Vec::new();
            tcp.poll(&mut events).unwrap();
            let datagrams = udp.receive(&mut |_, _| {}).unwrap();
            woke.send((events.len(), datagrams)).unwrap();
        }
    });
    let woken = || wait_to_wake.recv_timeout(Duration::from_secs(3600)).expect("it wakes");

    unparker.unpark();
    go.send(()).unwrap();
    assert_eq!(woken(), (0, 0));

    go.send(()).unwrap();
    assert!(wait_to_wake.recv_timeout(Duration::from_millis(50)).is_err(), "it sleeps");
    unparker.unpark();
    assert_eq!(woken(), (0, 0));

    go.send(()).unwrap();
    let mut client = TcpStream::connect(tcp_address).unwrap();
    assert_eq!(woken().0, 1);
    // The connection is writable from the start, which epoll reports once.
    go.send(()).unwrap();
    let _ = woken();
    go.send(()).unwrap();
    client.write_all(b"x").unwrap();
    assert!(woken().0 >= 1);

    go.send(()).unwrap();
    UdpSocket::bind(LOOPBACK).unwrap().send_to(b"x", udp_address).unwrap();
    assert_eq!(woken(), (0, 1));
    drop(go);
    thread.join().unwrap();
}

/// An agent on a thread of its own, asleep until an order arrives, answers it.
#[test]
fn a_sleeping_gateway_answers() {
    with_each_backend("a_sleeping_gateway_answers", sleeping_gateway);
}

fn sleeping_gateway(backend: TcpBackend) {
    struct Fixed;
    impl ring::Clock for Fixed {
        fn now_ns(&self) -> u64 {
            START
        }
    }
    struct Answers(Venue);
    impl Agent for Answers {
        fn name(&self) -> &str {
            "venue"
        }
        fn do_work(&mut self, _now_ns: u64) -> Result<usize, ring::AgentError> {
            Ok(self.0.answer())
        }
    }
    let tcp = bind_with(backend).unwrap();
    let (address, readiness) = (tcp.address(), tcp.readiness().unwrap());
    let mut harness = Harness::over(tcp, FakeStream::new(), config(), Venue::new(64));
    harness.venue.add_session("USER01");
    let Harness { agent, venue, .. } = harness;
    let idle =
        ring::IdleStrategy::Backoff { spins: 0, yields: 0, park_max: Duration::from_secs(3600) };
    let mut edge = ring::Group::new("edge", vec![Box::new(agent)], idle);
    edge.parker = Box::new(SocketParker::new(vec![readiness]).unwrap());
    let core = ring::Group::new("core", vec![Box::new(Answers(venue))], idle);
    let running = ring::launch(vec![edge, core], Arc::new(Fixed));

    let mut client = TcpClient::connect(address, "USER01", "PASSWORD01", 1);
    let mut number = 0;
    until("ten replies", || {
        client.write();
        client.read();
        if client.client.is_logged_in() && replies(&client.seen).len() == number as usize {
            number += 1;
            client.client.send(&enter(number), START);
        }
        number > 10
    });
    running.stop();
    running.join().unwrap();
}

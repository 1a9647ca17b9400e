//! The journeys again, over sockets of this machine.

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
    MarketDataOptions, NetworkEvent, OrderEntryUdp, OrderEntryUdpOptions, RequestLimits,
    SocketParker, StreamNetwork, Tcp, TcpBackend, Throttle, Udp, UdpBackend, UdpOptions,
    UdpParticipant, fake::FakeStream, past_rings,
};
use market::{SessionId, Text};
use ring::{Agent, Builder, Parker};
use socket2::{Domain, Socket, Type};
use wire::{
    moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse},
    soupbintcp::{Client, LoginRejectReason, LoginRequest, Timers},
};

use crate::harness::{
    Harness, SECOND, SESSION, START, Seen, Venue, config, enter, order, replies, see, users,
};

const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Repeats `step` until it returns true. It gives up after a quarter of an hour at the earliest, which
/// no machine needs: other threads and the kernel may take their time.
fn until(what: &str, mut step: impl FnMut() -> bool) {
    for _ in 0..10_000_000 {
        if step() {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
    panic!("never happened: {what}");
}

/// Carries out a test with each way to watch connections that this system has.
fn with_each_backend(name: &str, test: impl Fn(TcpBackend)) {
    test(TcpBackend::Epoll);
    let tcp = Tcp::bind_with(LOOPBACK, TcpBackend::IoUring).unwrap();
    match tcp.refused_backend() {
        None => test(TcpBackend::IoUring),
        Some(error) => skipped(name, &format!("io_uring is refused: {error}")),
    }
}

/// Carries out a test with each way to receive datagrams that this system has.
fn with_each_udp_backend(name: &str, mut test: impl FnMut(UdpBackend)) {
    let core = *os::allowed_cores().unwrap().last().unwrap();
    for backend in [
        UdpBackend::Mmsg,
        UdpBackend::Gro,
        UdpBackend::IoUring { poller_core: None },
        UdpBackend::IoUring { poller_core: Some(core) },
    ] {
        let udp = Udp::bind(LOOPBACK, &UdpOptions { backend, ..UdpOptions::default() }).unwrap();
        match udp.refused() {
            [] => test(backend),
            [(_, error), ..] => skipped(name, &format!("{backend} is refused: {error}")),
        }
    }
}

fn tcp_bench(store_bytes_max: usize, backend: TcpBackend) -> (Harness<Tcp>, SocketAddr) {
    let tcp = Tcp::bind_with(LOOPBACK, backend).unwrap();
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

    /// The client and the gateway work until this holds.
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

/// A client that reads nothing fills its sockets and is cut off; another trades all the while.
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
    // The kernel may take a little more for the stuck one later on, from which its time counts anew.
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

/// The id of a connection that was closed does not mean the one that took its place.
#[test]
fn an_old_id_means_no_new_connection() {
    with_each_backend("an_old_id_means_no_new_connection", old_id);
}

fn old_id(backend: TcpBackend) {
    let mut tcp = Tcp::bind_with(LOOPBACK, backend).unwrap();
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
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        });
    };
    let backend = if backend == "Epoll" { TcpBackend::Epoll } else { TcpBackend::IoUring };
    let mut tcp = Tcp::bind_with(LOOPBACK, backend).unwrap();
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

/// Orders in datagrams, replies in packets to where they came from, over UDP: the same replies however datagrams are
/// received.
#[test]
fn a_session_over_udp() {
    let mut first = None;
    with_each_udp_backend("a_session_over_udp", |backend| {
        let replies = session_over_udp(backend);
        assert_eq!(replies.len(), 600);
        assert!(*first.get_or_insert(replies.clone()) == replies, "{backend}");
    });
}

/// Gives the replies, in their order.
fn session_over_udp(backend: UdpBackend) -> Vec<Vec<u8>> {
    let client = UdpSocket::bind(LOOPBACK).unwrap();
    client.set_nonblocking(true).unwrap();
    let udp = Udp::bind(LOOPBACK, &UdpOptions { backend, ..UdpOptions::default() }).unwrap();
    client.connect(udp.address()).unwrap();
    let (mut venue, ends) = Venue::new(1024);
    let mut agent = OrderEntryUdp::new(
        udp,
        OrderEntryUdpOptions {
            session: SESSION,
            users: vec![UdpParticipant {
                address: client.local_addr().unwrap(),
                username: Text::new("UDP001").unwrap(),
                firms: Vec::new(),
            }],
            store_bytes_max: 1 << 20,
            throttle: Throttle::default(),
        },
        ends.submissions,
        ends.outputs,
        ends.durable,
    );
    venue.add_session("UDP001");
    agent.do_work(START).unwrap();
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    let mut delivered: Vec<Vec<u8>> = Vec::new();
    let mut buffer = [0; 2048];
    for number in 1..=200 {
        client.send(&enter(3 * number)).unwrap();
        let mut several = Vec::new();
        for message in [enter(3 * number + 1), enter(3 * number + 2)] {
            several.extend((message.len() as u16).to_be_bytes());
            several.extend(message);
        }
        client.send(&several).unwrap();
        until("three replies", || {
            agent.do_work(START).unwrap();
            venue.answer();
            while let Ok(len) = client.recv(&mut buffer) {
                receiver
                    .receive(&buffer[..len], START, &mut |_, reply| delivered.push(reply.to_vec()))
                    .unwrap();
            }
            delivered.len() == 3 * number as usize
        });
    }
    let request = Request { session: SESSION, sequence_number: 100, count: 3 };
    client.send(&request.encode()).unwrap();
    until("the answer", || {
        agent.do_work(START).unwrap();
        let Ok(len) = client.recv(&mut buffer) else { return false };
        let packet = parse(&buffer[..len]).unwrap();
        matches!(packet.kind, PacketKind::Data(blocks) if blocks.count() == 3)
            && packet.sequence_number == 100
    });
    delivered
}

/// Empty datagrams are datagrams, and cost those behind them nothing. What finds no buffer of io_uring waits with the system,
/// arrives, and is counted.
#[test]
fn empty_and_too_many_datagrams_arrive() {
    with_each_udp_backend("empty_and_too_many_datagrams_arrive", |backend| {
        let options = UdpOptions { backend, ..UdpOptions::default() };
        let mut receiver = Udp::bind(LOOPBACK, &options).unwrap();
        let sender = UdpSocket::bind(LOOPBACK).unwrap();
        let mut exchange = |count: usize, len_of: fn(usize) -> usize| {
            let datagram = |number: usize| vec![number as u8; len_of(number)];
            for number in 0..count {
                sender.send_to(&datagram(number), receiver.address()).unwrap();
            }
            let (mut got, mut received) = (Vec::new(), 0);
            until("all of them", || {
                received += receiver.receive(&mut |_, bytes| got.push(bytes.to_vec())).unwrap();
                received == count
            });
            assert!(got == (0..count).map(datagram).collect::<Vec<_>>(), "{backend}");
            receiver.losses().read()
        };
        for _ in 0..3 {
            let count = exchange(300, |number| number % 7);
            assert_eq!((count.dropped, count.truncated, count.buffers_exhausted), (0, 0, 0));
        }
        // A few more than its 512 buffers, and no more than the smallest receive buffer that a system grants.
        let count = exchange(530, |_| 1);
        assert_eq!((count.dropped, count.truncated), (0, 0));
        match backend {
            // Nothing is received before all are sent.
            UdpBackend::IoUring { poller_core: None } => assert!(count.buffers_exhausted > 0),
            // The kernel's thread may fill a buffer that was just given back.
            UdpBackend::IoUring { poller_core: Some(_) } => {}
            UdpBackend::Mmsg | UdpBackend::Gro => assert_eq!(count.buffers_exhausted, 0),
        }
    });
}

/// More datagrams than one system call takes go out and come in whole and in order.
#[test]
fn datagrams_go_in_batches() {
    let mut one = Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap();
    let mut two = Udp::bind(LOOPBACK, &UdpOptions::default()).unwrap();
    assert!(two.receive_buffer_bytes() > 4096);
    let datagram = |number: usize| vec![number as u8; number % 1500];
    let mut got = Vec::new();
    for number in 0..1000 {
        assert!(one.send(two.address(), &datagram(number)).unwrap());
        if number % 100 == 99 {
            one.flush().unwrap();
            until("a hundred", || {
                let from = one.address();
                two.receive(&mut |sender, bytes| {
                    assert_eq!(sender, from);
                    got.push(bytes.to_vec());
                })
                .unwrap();
                got.len() == number + 1
            });
        }
    }
    assert!((0..1000).all(|number| got[number] == datagram(number)));
    assert_eq!(two.losses().read(), gateway::UdpLossCount::default());
    assert!(one.send(two.address(), &[0; 2049]).is_err());
}

/// A client that sends while nothing is read is held back by TCP; what it sent arrives whole, in order, whatever another
/// one sends meanwhile, and its end after that.
#[test]
fn an_unread_connection_is_held_back() {
    with_each_backend("an_unread_connection_is_held_back", unread);
}

fn unread(backend: TcpBackend) {
    let mut tcp = Tcp::bind_with(LOOPBACK, backend).unwrap();
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
    // Until nothing more fits for a while.
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

/// Datagrams that a client sends together arrive as they were, whether the socket has the system join them or not; one
/// that is too long is counted, and costs those beside it nothing.
#[test]
fn joined_datagrams_come_apart() {
    with_each_udp_backend("joined_datagrams_come_apart", |backend| {
        [false, true].into_iter().for_each(|joins_sent| come_apart(backend, joins_sent));
    });
}

fn come_apart(backend: UdpBackend, joins_sent: bool) {
    let options = UdpOptions { backend, datagram_bytes_max: 1000, ..UdpOptions::default() };
    let mut receiver = Udp::bind(LOOPBACK, &options).unwrap();
    let options = UdpOptions { joins_sent, ..UdpOptions::default() };
    let mut sender = Udp::bind(LOOPBACK, &options).unwrap();
    // Runs of one length, then a shorter one; each thousandth is too long.
    let datagram = |number: usize| match number % 1000 {
        999 => vec![number as u8; 1001],
        _ => vec![number as u8; if number % 70 == 69 { 20 } else { 47 }],
    };
    let (mut got, mut counted) = (Vec::new(), 0);
    for number in 0..3000 {
        let datagram = datagram(number);
        let (head, body) = datagram.split_at(number % 20);
        assert!(sender.send_parts(receiver.address(), head, body).unwrap());
        if number % 500 == 499 {
            sender.flush().unwrap();
            until("five hundred", || {
                counted += receiver.receive(&mut |_, bytes| got.push(bytes.to_vec())).unwrap();
                counted == number + 1
            });
        }
    }
    let expected: Vec<_> =
        (0..3000).map(datagram).filter(|datagram| datagram.len() <= 1000).collect();
    assert_eq!(got.len(), 2997);
    assert!(got == expected, "{backend}, joins sent {joins_sent}");
    let count = receiver.losses().read();
    assert_eq!((count.dropped, count.truncated), (0, 3));
    assert_eq!(sender.losses().read(), gateway::UdpLossCount::default());
}

/// What the kernel drops, what is too long and what cannot be sent is counted.
#[test]
fn losses_are_counted() {
    with_each_udp_backend("losses_are_counted", losses);
}

fn losses(backend: UdpBackend) {
    let options = UdpOptions {
        receive_buffer_bytes: 4096,
        datagram_bytes_max: 100,
        backend,
        ..UdpOptions::default()
    };
    let mut receiver = Udp::bind(LOOPBACK, &options).unwrap();
    let sender = UdpSocket::bind(LOOPBACK).unwrap();
    let mut sent = 0;
    for number in 0..1000_u16 {
        sender.send_to(&number.to_be_bytes(), receiver.address()).unwrap();
        sent += 1;
    }
    // The kernel may deliver late, or a thread of it.
    let (mut received, mut looks) = (0, 0);
    until("all are received or counted", || {
        if looks % 100 == 0 {
            sender.send_to(b"one more", receiver.address()).unwrap();
            sent += 1;
        }
        looks += 1;
        while receiver.receive(&mut |_, _| received += 1).unwrap() > 0 {}
        received + receiver.losses().read().dropped == sent
    });
    let dropped = receiver.losses().read().dropped;
    assert!(0 < dropped && 0 < received, "{backend}: {dropped} dropped, {received} received");

    sender.send_to(&[0; 101], receiver.address()).unwrap();
    let mut delivered = 0;
    until("the long one", || receiver.receive(&mut |_, _| delivered += 1).unwrap() == 1);
    assert_eq!((receiver.losses().read().truncated, delivered), (1, 0));
    assert_eq!(receiver.too_long(), [sender.local_addr().unwrap()]);

    // A loopback socket cannot send to another network; those behind still go.
    let mut one = Udp::bind(LOOPBACK, &options).unwrap();
    assert!(one.send("[::1]:9".parse().unwrap(), b"lost").unwrap());
    assert!(one.send(receiver.address(), b"kept").unwrap());
    one.flush().unwrap();
    until("the one behind", || receiver.receive(&mut |_, _| {}).unwrap() == 1);
    assert_eq!(one.losses().read().refused, 1);
}

/// Publishes a feed, loses some of it, and asks again for that: to a group, or to one address.
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
    // Port 0 cannot be asked for by two, so a free one is looked for first.
    let port = UdpSocket::bind(LOOPBACK).unwrap().local_addr().unwrap().port();
    let group = group(port);
    assert!(gateway::is_multicast(group.into()));
    let joined = Udp::multicast_receiver(group, Ipv4Addr::LOCALHOST, &options);
    let mut subscriber = match joined {
        Ok(subscriber) => subscriber,
        Err(error) => {
            return skipped(
                "the_feed_over_multicast",
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
    skipped("the_feed_over_multicast", "loopback carries no multicast here");
}

/// Says so where the test harness does not swallow it.
fn skipped(test: &str, why: &str) {
    let text = format!("skipped: sockets::{test}: {why}\n");
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

/// A parked thread wakes when a datagram arrives, however it is received, also one that came before it parked.
#[test]
fn a_datagram_wakes_a_parked_thread() {
    with_each_udp_backend("a_datagram_wakes_a_parked_thread", |backend| {
        let options = UdpOptions { backend, ..UdpOptions::default() };
        let mut udp = Udp::bind(LOOPBACK, &options).unwrap();
        let address = udp.address();
        let mut parker = SocketParker::new(vec![udp.readiness().unwrap()]).unwrap();
        let (looked, wait_for_look) = mpsc::channel();
        let thread = thread::spawn(move || {
            for received in 0..10 {
                let mut datagrams = 0;
                while datagrams == 0 {
                    datagrams = udp.receive(&mut |_, _| {}).unwrap();
                    if datagrams == 0 {
                        looked.send(received).unwrap();
                        parker.park(Duration::from_secs(3600));
                    }
                }
            }
        });
        let sender = UdpSocket::bind(LOOPBACK).unwrap();
        for number in 0..10 {
            // It has found nothing, and sleeps or is about to.
            while wait_for_look.recv().unwrap() != number {}
            sender.send_to(b"x", address).unwrap();
        }
        thread.join().unwrap();
    });
}

/// An agent on a thread of its own, asleep until an order arrives, answers it.
#[test]
fn a_sleeping_gateway_answers() {
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
    let tcp = Tcp::bind(LOOPBACK).unwrap();
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

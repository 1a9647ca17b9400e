//! Datagrams over sockets of this machine, by each way to receive them.

use std::{io, net::UdpSocket, sync::mpsc, thread, time::Duration};

use gateway::{
    DatagramNetwork, OrderEntryUdp, OrderEntryUdpOptions, SocketOptions, SocketParker, Throttle,
    Udp, UdpBackend, UdpOptions, UdpParticipant,
};
use market::Text;
use ring::{Agent, Parker};
use wire::moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse};

use crate::{
    harness::{SESSION, START, Venue, enter},
    sockets::{LOOPBACK, skipped, until},
};

/// Runs a test with each way to receive datagrams that this system has.
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
            [(_, error), ..] => {
                skipped(&format!("udp_sockets::{name}"), &format!("{backend} is refused: {error}"))
            }
        }
    }
}

/// Orders in datagrams, replies in packets to their sources, over UDP: the same replies however datagrams are
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

/// Returns the replies, in order.
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

/// Empty datagrams are delivered too, and cost those behind them nothing. A datagram that finds no buffer of io_uring
/// waits in the system, arrives, and is counted.
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
            UdpBackend::Mmsg | UdpBackend::Gro | UdpBackend::Xdp { .. } => {
                assert_eq!(count.buffers_exhausted, 0);
            }
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

/// Datagrams that a client sends together arrive unchanged, whether the socket has the system join them or not; one
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

/// Datagrams that the kernel drops, that are too long or that cannot be sent are counted.
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
    // The kernel, or one of its threads, may deliver late.
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

/// A port that is shared gives each sender to one socket; otherwise a second socket is refused.
#[test]
fn a_port_may_be_shared() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let mut sockets = vec![Udp::bind(LOOPBACK, &options).unwrap()];
    let address = sockets[0].address();
    let refused = Udp::bind(address, &UdpOptions::default()).map(drop).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    sockets.push(Udp::bind(address, &options).unwrap());
    let senders: Vec<_> = (0..32).map(|_| UdpSocket::bind(LOOPBACK).unwrap()).collect();
    for number in 0..10_u8 {
        senders
            .iter()
            .for_each(|sender| assert_eq!(sender.send_to(&[number], address).unwrap(), 1));
    }
    let mut got = vec![Vec::new(); 2];
    until("all of them", || {
        for (socket, got) in sockets.iter_mut().zip(&mut got) {
            socket.receive(&mut |from, bytes| got.push((from, bytes[0]))).unwrap();
        }
        got.iter().map(Vec::len).sum::<usize>() == 320
    });
    for sender in &senders {
        let from = sender.local_addr().unwrap();
        let of_each = got.iter().map(|got| got.iter().filter(|it| it.0 == from).map(|it| it.1));
        let mut of_each: Vec<Vec<u8>> = of_each.map(Iterator::collect).collect();
        of_each.sort();
        assert_eq!(of_each, [vec![], (0..10).collect::<Vec<u8>>()], "{from}");
    }
}

/// The waits of datagrams in the socket are counted from their arrival, if requested; other ways to receive refuse it.
#[test]
fn waits_in_the_socket_are_counted() {
    const PAUSE: Duration = Duration::from_millis(2);
    let counting = SocketOptions {
        arrival_times: Some(os::PacketTimes::Software),
        ..SocketOptions::default()
    };
    with_each_udp_backend("waits_in_the_socket_are_counted", |backend| {
        let options = UdpOptions { backend, ..UdpOptions::default() };
        let mut receiver = Udp::bind(LOOPBACK, &options).unwrap();
        assert!(receiver.count_arrivals(&SocketOptions::default()).is_ok());
        assert!(receiver.arrivals().is_none());
        if matches!(backend, UdpBackend::IoUring { .. }) {
            let refused = receiver.count_arrivals(&counting).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
            assert!(receiver.arrivals().is_none());
            return;
        }
        if let Err(error) = receiver.count_arrivals(&counting) {
            return skipped("udp_sockets::waits_in_the_socket_are_counted", &error.to_string());
        }
        let arrivals = receiver.arrivals().unwrap();
        let sender = UdpSocket::bind(LOOPBACK).unwrap();
        // The kernel takes a moment until it starts to note arrival times.
        until("a wait is counted", || {
            for text in [b"one", b"two"] {
                sender.send_to(text, receiver.address()).unwrap();
            }
            thread::sleep(PAUSE);
            let mut received = 0;
            until("both", || {
                received += receiver.receive(&mut |_, _| {}).unwrap();
                received == 2
            });
            !arrivals.counts().is_empty()
        });
        let counts = arrivals.counts();
        assert!(counts.iter().all(|(ns, _)| *ns >= PAUSE.as_nanos() as u64), "{counts:?}");
        assert!(counts.iter().map(|(_, count)| count).sum::<u64>() <= 2, "{counts:?}");
    });
}

/// A parked thread wakes when a datagram arrives, however it is received, even if the datagram came before it parked.
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
            // It has found no datagram, and sleeps or is about to.
            while wait_for_look.recv().unwrap() != number {}
            sender.send_to(b"x", address).unwrap();
        }
        thread.join().unwrap();
    });
}

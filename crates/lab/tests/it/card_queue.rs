//! Datagrams from a queue of a network card (AF_XDP), through a veth pair, as root where the tests run as root and the program
//! has it. Elsewhere the tests say that they were skipped, and why.

use std::{
    fs,
    io::{self, Write},
    net::UdpSocket,
    sync::mpsc,
    thread,
    time::Duration,
};

use gateway::{DatagramNetwork, SocketParker, Udp, UdpBackend, UdpOptions};
use lab::netns::{Cores, PairSide, VethPair, VethPairs};
use ring::Parker;

/// Carries out a test on a pair, with a socket on the side of the venue that receives from the queue of its card.
fn with_queue(name: &str, options: UdpOptions, test: impl FnOnce(&VethPair, Udp)) {
    let options = UdpOptions { backend: UdpBackend::Xdp { queue: 0 }, ..options };
    let mut refused = None;
    let done = VethPairs::of_this_machine().with_temporary(Cores::default(), |pair| {
        let udp = bind(pair, PairSide::Venue, &options);
        match udp.refused() {
            [] => test(pair, udp),
            [(_, error), ..] => refused = Some(error.to_string()),
        }
        Ok(())
    });
    if let Some(why) = done.err().map(|failure| failure.to_string()).or(refused) {
        let text = format!("skipped: card_queue::{name}: {}\n", why.trim().replace('\n', " "));
        io::stderr().write_all(text.as_bytes()).unwrap();
    }
}

fn bind(pair: &VethPair, side: PairSide, options: &UdpOptions) -> Udp {
    pair.on(side, || Udp::bind((side.address(), 0).into(), options)).unwrap().unwrap()
}

fn sender(pair: &VethPair) -> UdpSocket {
    let side = PairSide::Load;
    pair.on(side, || UdpSocket::bind((side.address(), 0))).unwrap().unwrap()
}

/// Datagrams that the network stack of the venue's side has delivered to sockets (`Udp: InDatagrams`).
fn through_the_stack(pair: &VethPair) -> u64 {
    let read = || fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let text = pair.on(PairSide::Venue, read).unwrap();
    let numbers = text.lines().filter_map(|line| line.strip_prefix("Udp: ")).nth(1);
    numbers.unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn until(what: &str, mut step: impl FnMut() -> bool) {
    for _ in 0..10_000_000 {
        if step() {
            return;
        }
        thread::sleep(Duration::from_micros(100));
    }
    panic!("never happened: {what}");
}

/// Datagrams arrive as they were sent: plain datagrams and those of a run leave the card's queue one by one; fragments
/// go by the network stack; one that is too long is counted, and its sender known.
#[test]
fn what_arrives_is_what_was_sent() {
    let options = UdpOptions { datagram_bytes_max: 2000, ..UdpOptions::default() };
    with_queue("what_arrives_is_what_was_sent", options, |pair, mut udp| {
        let one = sender(pair);
        let mut runs = bind(pair, PairSide::Load, &UdpOptions::default());
        let to = udp.address();
        let mut sent = Vec::new();
        let mut got = Vec::new();
        for number in 0..3_000_u32 {
            // An empty one too; each hundredth takes two frames.
            let len = if number % 100 == 99 { 1_990 } else { number as usize % 1_400 };
            let mut datagram = vec![number as u8; len];
            datagram.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
            one.send_to(&datagram, to).unwrap();
            sent.push((one.local_addr().unwrap(), datagram));
            let datagram = [&number.to_be_bytes()[..], &[b'r'; 43]].concat();
            assert!(runs.send(to, &datagram).unwrap());
            sent.push((runs.address(), datagram));
            if number % 60 == 59 {
                runs.flush().unwrap();
                until("all of them", || {
                    udp.receive(&mut |from, bytes| got.push((from, bytes.to_vec()))).unwrap();
                    got.len() == sent.len()
                });
            }
        }
        got.sort();
        sent.sort();
        assert!(got == sent);
        assert_eq!(through_the_stack(pair), 30);
        assert_eq!(udp.losses().read(), gateway::UdpLossCount::default());
        assert_eq!(runs.losses().read(), gateway::UdpLossCount::default());

        one.send_to(&[0; 2_001], to).unwrap();
        until("the long one", || udp.receive(&mut |_, _| panic!("it is delivered")).unwrap() == 1);
        assert_eq!(udp.losses().read().truncated, 1);
        assert_eq!(udp.too_long(), [one.local_addr().unwrap()]);
    });
}

/// A flood through the queue does not delay datagrams that came by the network stack: those are read in one turn of 16.
#[test]
fn a_full_queue_does_not_hide_the_socket() {
    const NAME: &str = "a_full_queue_does_not_hide_the_socket";
    with_queue(NAME, UdpOptions::default(), |pair, mut udp| {
        let one = sender(pair);
        // It takes two frames, and comes before all others.
        one.send_to(&[b'f'; 1_600], udp.address()).unwrap();
        for _ in 0..20 * os::BATCH {
            one.send_to(b"plain", udp.address()).unwrap();
        }
        let mut lengths = Vec::new();
        until("the one in two frames", || {
            udp.receive(&mut |_, bytes| lengths.push(bytes.len())).unwrap();
            lengths.contains(&1_600)
        });
        assert!(lengths.len() <= 16 * os::BATCH + 1, "{} came before it", lengths.len());
    });
}

/// A datagram that finds no room in the queue is counted; later ones arrive.
#[test]
fn losses_of_the_queue_are_counted() {
    let options = UdpOptions { receive_buffer_bytes: 64 << 10, ..UdpOptions::default() };
    with_queue("losses_of_the_queue_are_counted", options, |pair, mut udp| {
        let one = sender(pair);
        until("the queue is full", || {
            one.send_to(b"early", udp.address()).unwrap();
            udp.losses().read().dropped > 0
        });
        let mut received = 0;
        while udp.receive(&mut |_, _| received += 1).unwrap() > 0 {}
        let dropped = udp.losses().read().dropped;
        assert!(0 < dropped && 64 <= received, "{dropped} dropped, {received} received");
        let mut got = Vec::new();
        until("a later one", || {
            one.send_to(b"later", udp.address()).unwrap();
            udp.receive(&mut |_, bytes| got.push(bytes.to_vec())).unwrap();
            got.iter().any(|it| it == b"later")
        });
    });
}

/// A queue has one socket, and a card one program: a second is refused by name, and the next way is taken. It is free again
/// when the first is gone.
#[test]
fn a_queue_has_one_socket() {
    with_queue("a_queue_has_one_socket", UdpOptions::default(), |pair, first| {
        let options = UdpOptions { backend: UdpBackend::Xdp { queue: 0 }, ..UdpOptions::default() };
        let second = bind(pair, PairSide::Venue, &options);
        assert_eq!(second.backend(), UdpBackend::Gro);
        let (_, error) = &second.refused()[0];
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
        drop(first);
        until("the queue is free", || bind(pair, PairSide::Venue, &options).refused().is_empty());
    });
}

/// A parked thread wakes when a datagram comes from the queue, and when one comes by the network stack.
#[test]
fn a_datagram_wakes_a_parked_thread() {
    with_queue("a_datagram_wakes_a_parked_thread", UdpOptions::default(), |pair, mut udp| {
        let to = udp.address();
        let mut parker = SocketParker::new(vec![udp.readiness().unwrap()]).unwrap();
        let (looked, wait_for_look) = mpsc::channel();
        let thread = thread::spawn(move || {
            for received in 0..20 {
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
        let one = sender(pair);
        for number in 0..20 {
            // It has found nothing, and sleeps or is about to.
            while wait_for_look.recv().unwrap() != number {}
            // Every other one takes two frames.
            one.send_to(&vec![0; if number % 2 == 0 { 8 } else { 1_600 }], to).unwrap();
        }
        thread.join().unwrap();
    });
}

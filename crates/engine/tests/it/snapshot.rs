//! Snapshots: a restored engine is the same, and damaged bytes are refused.

use engine::{Engine, Restoration, Section, StateError};

use crate::scenario::World;

type Sections = Vec<(Section, Vec<u8>)>;

fn sections(engine: &Engine) -> Sections {
    let mut sections = Vec::new();
    engine.snapshot(&mut |section, bytes| sections.push((section, bytes.to_vec())));
    sections
}

fn restore(sections: &Sections) -> Result<Engine, StateError> {
    let mut restoration = Restoration::new();
    for (section, bytes) in sections {
        restoration.section(*section, bytes)?;
    }
    restoration.finish()
}

/// A market with state of every kind.
fn busy() -> World {
    let mut world = World::default();
    world.play(
        "
        instrument AAPL increment 1 lot 100     => instrument 1
        instrument MSFT increment 5 lot 100     => instrument 2
        session A firm ACME max 1000            => session 1
        session B firm BETA max 1000            => session 2
        day start-of-system-hours               => day start-of-system-hours
        asset SHR 0                             => asset 1
        asset USD 2                             => asset 2
        account P                               => account 1
        account Q                               => account 2
        assign B Q                              => B is of Q
        instrument IBM increment 1 lot 100      => instrument 3
        terms IBM position SHR USD pay 1 / 3    => terms of IBM
        fees 3 1 2                              => fees of 3
        set Q ShortMax 9 SHR                    => set ShortMax to 9
        set Q OrdersPerSecondMax 5              => set OrdersPerSecondMax to 5
        deposit Q 500 USD                       => deposit Q 500 USD
        deposit P 50 USD                        => deposit P 50 USD
        short B/9:1 4 @ 100 of IBM              => accepted, reserve Q 4 SHR, booked 4 @ 100
        buy B/9:2 4 @ 10 of IBM                 => accepted, reserve Q 13 USD, booked 4 @ 10
        disable B1 BETB                         => disabled
        buy A1 4 @ 100 hidden                   => accepted, booked 4 @ 100 hidden
        buy A2 4 @ 100                          => accepted, booked 4 @ 100
        buy A/3:7 9 @ 95 of MSFT post-only      => accepted, booked 9 @ 95
        sell B2 3 @ 100                         => accepted, trade A2 B2 3 @ 100
        sell B3 5 @ 103 group 7                 => accepted, booked 5 @ 103
        cancel B3 to 2                          => canceled B3 3 leaving 2
        ",
    );
    world
}

/// A market with two resting orders to buy, one at 100 and the younger one at `price`.
fn two_buys(price: u32) -> World {
    let mut world = World::default();
    world.play(&format!(
        "
        instrument AAPL increment 1 lot 100     => instrument 1
        session A firm ACME max 1000            => session 1
        day start-of-system-hours               => day start-of-system-hours
        buy A1 4 @ 100                          => accepted, booked 4 @ 100
        buy A2 4 @ {price}                      => accepted, booked 4 @ {price}
        "
    ));
    world
}

/// The snapshot of a restored engine has the same bytes.
#[test]
fn restored_engine_has_the_same_snapshot() {
    let world = busy();
    let before = sections(world.engine());
    let restored = restore(&before).unwrap();
    assert_eq!(sections(&restored), before);
    assert_eq!(restored.state_hash(), world.engine().state_hash());
    assert_eq!(restored.counters(), world.engine().counters());
}

/// An engine to which nothing has happened has a snapshot, too.
#[test]
fn new_engine_is_restored() {
    let restored = restore(&sections(&Engine::new())).unwrap();
    assert_eq!(restored.state_hash(), Engine::new().state_hash());
}

/// Whichever byte is changed, and wherever the bytes end, the state is refused and nothing panics.
#[test]
fn damaged_snapshot_is_refused() {
    let whole = sections(busy().engine());
    let mut damaged = 0;
    for section in 0..whole.len() {
        for byte in 0..whole[section].1.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[section].1[byte] ^= 1 << bit;
                assert!(restore(&flipped).is_err(), "section {section}, byte {byte}, bit {bit}");
                damaged += 1;
            }
            let mut cut = whole.clone();
            cut[section].1.truncate(byte);
            assert!(restore(&cut).is_err(), "section {section} cut at {byte}");
        }
        let mut missing = whole.clone();
        missing.remove(section);
        assert!(restore(&missing).is_err(), "without section {section}");
        let mut twice = whole.clone();
        twice.insert(section, whole[section].clone());
        assert!(restore(&twice).is_err(), "section {section} twice");
    }
    assert!(damaged > 2_000, "{damaged} bits");
}

/// Two orders of one level that change places are noticed, though the hash does not see it.
#[test]
fn orders_out_of_priority_are_refused() {
    let world = two_buys(100);
    let mut swapped = sections(world.engine());
    let orders = swapped.iter_mut().find(|(section, _)| *section == Section::Orders).unwrap();
    let half = orders.1.len() / 2;
    orders.1.rotate_left(half);
    let refused = StateError::Record {
        section: Section::Orders,
        error: market::DecodeError::Field("order id"),
    };
    assert_eq!(restore(&swapped).unwrap_err(), refused);
}

/// Two orders with one key are refused, also where the hash would be right.
#[test]
fn orders_of_one_key_are_refused() {
    let world = two_buys(99);
    let mut sections = sections(world.engine());
    let orders = &mut sections.iter_mut().find(|it| it.0 == Section::Orders).unwrap().1;
    let half = orders.len() / 2;
    // Order id and number are 1 in one of them and 2 in the other.
    let numbers = |at: &usize| orders[*at].abs_diff(orders[half + at]) == 1 && orders[*at] < 3;
    let [id, number, ..] = (0..half).filter(numbers).collect::<Vec<_>>()[..] else {
        panic!("{orders:?} have an id and a number each");
    };
    assert!(id < number);
    orders[half + number] = orders[number];
    let error = market::DecodeError::Field("key");
    let refused = StateError::Record { section: Section::Orders, error };
    assert_eq!(restore(&sections).unwrap_err(), refused);
}

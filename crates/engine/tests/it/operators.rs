//! The commands of operators: section 51 of the rules, and the acts of operators alone.

use engine::{HeldSetting, OPERATORS_MAX};
use market::{
    BlockEntry, Command, Event, OperatorAction, OperatorCommand, OperatorDecline, OperatorOutcome,
    Scope, SessionId, Text, VenueCommand, VenueEvent,
};

use crate::scenario::{World, check};

/// Rule 51.1: a command of an operator acts like any other, and its result reports its effect.
#[test]
fn result_counts_the_effect() {
    check(
        "
        sell A1 4 @ 101                         => accepted, booked 4 @ 101
        sell A2 4 @ 102                         => accepted, booked 4 @ 102
        by ALICE 1 supervise session A          => canceled A1 4 supervisory, canceled A2 4 supervisory, ALICE 1: done canceled 2
        by ALICE 2 phase all halted             => phase AAPL halted, phase MSFT halted, ALICE 2: done phases 2
        by ALICE 3 phase AAPL halted            => declined PhaseNotNext, ALICE 3: declined Venue(PhaseNotNext)
        by ALICE 4 phase AAPL continuous        => auction AAPL nothing, phase AAPL continuous, ALICE 4: done phases 1
        sell A3 4 @ 101                         => accepted, booked 4 @ 101
        buy B1 4 @ 101                          => accepted, trade A3 B1 4 @ 101
        by BOB 1 correct 2 3 @ 101 E            => corrected 2 to 3: A3 B1 3 @ 101, BOB 1: done trades 1 as 3
        ",
    );
}

/// Rule 51.2: a number is used once. A repetition is answered with the first result; the same holds after a restart,
/// since each line of a scenario continues with a restored engine.
#[test]
fn number_is_used_once() {
    check(
        "
        by ALICE 5 block firm ACME              => blocked, ALICE 5: done
        by ALICE 5 block firm ACME              => ALICE 5 again: done
        by ALICE 5 block firm BETA              => ALICE 5: declined NumberUsed(5)
        by ALICE 4 block firm BETA              => ALICE 4: declined NumberUsed(5)
        by ALICE 5 block firm ACME              => ALICE 5 again: done
        by BOB 5 unblock firm ACME              => unblocked, BOB 5: done
        by BOB 0 block firm ACME                => BOB 0: declined NumberUsed(5)
        by CAROL 0 block firm ACME              => CAROL 0: declined NumberUsed(0)
        by ALICE 7 unblock firm ACME            => declined UnknownBlock, ALICE 7: declined Venue(UnknownBlock)
        by ALICE 7 unblock firm ACME            => ALICE 7 again: declined Venue(UnknownBlock)
        by ALICE 8 deposit NONE 10 XXX             => declined UnknownAccount, ALICE 8: declined Money(UnknownAccount)
        by ALICE 8 deposit NONE 10 XXX             => ALICE 8 again: declined Money(UnknownAccount)
        ",
    );
}

/// Rule 51.3: the number of operators is bounded, and none is without a name.
#[test]
fn operators_are_bounded() {
    let mut world = World::default();
    let scope = Scope { group_id: Some(1), ..Scope::ALL };
    let command = VenueCommand::BlockEntry(BlockEntry { scope, blocked: true });
    let mut outcome = |operator: &str| {
        let operator = Text::new(operator).unwrap();
        let action = OperatorAction::Venue(command);
        let asked = OperatorCommand { operator, number: 1, action };
        let events = world.apply(Command::Operate(asked));
        let Some(Event::Venue(VenueEvent::Operated(result))) = events.last() else { panic!() };
        result.outcome
    };
    let declined = OperatorOutcome::Declined(OperatorDecline::TooManyOperators);
    assert_eq!(outcome(""), declined);
    for number in 0..OPERATORS_MAX {
        assert_ne!(outcome(&format!("OP{number}")), declined);
    }
    assert_eq!(outcome("ONE MORE"), declined);
    assert_ne!(outcome("OP0"), declined, "one that is known has its answer");
}

/// Rules 3.5, 51.4: a session may have another number of live orders, above or below those that it has; a value that an
/// operator has set is marked as such, until another command sets it.
#[test]
fn live_orders_max_changes() {
    let mut world = World::default();
    world.play(
        "
        instrument AAPL increment 1 lot 100     => instrument 1
        session A firm ACME max 3               => session 1
        day start-of-system-hours               => day start-of-system-hours
        sell A1 4 @ 101                         => accepted, booked 4 @ 101
        sell A2 4 @ 102                         => accepted, booked 4 @ 102
        by ALICE 1 live-orders A 1              => live-orders A 1, ALICE 1: done
        sell A3 4 @ 103                         => rejected A3 TooManyOrders
        cancel A1                               => canceled A1 4
        sell A4 4 @ 103                         => rejected A4 TooManyOrders
        cancel A2                               => canceled A2 4
        sell A5 4 @ 103                         => accepted, booked 4 @ 103
        sell A6 4 @ 103                         => rejected A6 TooManyOrders
        live-orders Z 1                         => declined UnknownSession
        ",
    );
    let setting = HeldSetting::LiveOrdersMax(SessionId(1));
    assert!(world.engine().is_held(setting));
    world.play(
        "
        live-orders A 2                         => live-orders A 2
        sell A7 4 @ 103                         => accepted, booked 4 @ 103
        sell A8 4 @ 103                         => rejected A8 TooManyOrders
        ",
    );
    assert!(!world.engine().is_held(setting), "it was set by no operator");
}

/// Rule 3.6: logging a session out emits an event, and changes none of its orders.
#[test]
fn session_is_logged_out() {
    check(
        "
        sell A1 4 @ 101                         => accepted, booked 4 @ 101
        log-out A                               => logged-out A
        buy B1 4 @ 101                          => accepted, trade A1 B1 4 @ 101
        log-out Z                               => declined UnknownSession
        ",
    );
}

/// Rule 32.6: the kill switch blocks and cancels, again at each request, until its reset.
#[test]
fn kill_switch_blocks_and_cancels() {
    check(
        "
        sell A1 4 @ 101                         => accepted, booked 4 @ 101
        sell B1 4 @ 101                         => accepted, booked 4 @ 101
        kill session A                          => blocked, canceled A1 4 supervisory
        sell A2 4 @ 101                         => rejected A2 EntryBlocked
        kill session A
        kill session Z                          => declined UnknownSession
        revive session B                        => declined UnknownBlock
        revive session A                        => unblocked
        sell A3 4 @ 101                         => accepted, booked 4 @ 101
        kill                                    => blocked, canceled A3 4 supervisory, canceled B1 4 supervisory
        sell B2 4 @ 101                         => rejected B2 EntryBlocked
        revive                                  => unblocked
        ",
    );
}

/// Rules 25.9, 25.10: an auction may have an end, at which it takes place at any price; a phase may have
/// a reason.
#[test]
fn auction_ends_at_its_moment() {
    check(
        "
        configure AAPL reference 100            => configured
        configure AAPL static-band 10000        => configured
        time 10
        phase AAPL halted reason T1             => phase AAPL halted T1
        phase AAPL volatility-auction release 5 => phase AAPL volatility-auction, collar AAPL 99 to 101, indicates AAPL nothing
        buy B1 4 @ 200                          => accepted, booked 4 @ 200
        sell A1 4 @ 200                         => accepted, booked 4 @ 200
        time 14                                 => indicates AAPL 4 @ 200
        time 15                                 => trade B1 A1 4 @ 200, auction AAPL 4 @ 200, phase AAPL continuous by time
        phase AAPL closing-auction release 2    => phase AAPL closing-auction, indicates AAPL nothing
        time 17                                 => auction AAPL nothing, phase AAPL closed by time
        phase MSFT halted release 1             => declined InvalidValue
        ",
    );
}

/// Rule 25.11: pre-open may end with an auction of its own, in which orders at the open take part.
#[test]
fn pre_open_may_end_with_an_auction() {
    check(
        "
        phase AAPL pre-open                     => phase AAPL pre-open
        buy B1 4 @ 100 at-the-open              => accepted, booked 4 for auction
        sell A1 4 @ 100                         => accepted, booked 4 @ 100
        phase AAPL continuous                   => trade B1 A1 4 @ 100, auction AAPL 4 @ 100, phase AAPL continuous
        ",
    );
}

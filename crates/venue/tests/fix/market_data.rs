//! Market data by FIX over real sockets: the books of a venue that trades, as a client builds them.

use venue::clock::SystemClock;
use wire::fix::Version;

use crate::client::{FixClient, config};

const PORT: &str = "[market_data_fix]\naddress = \"127.0.0.1:0\"\ndepth_max = 5\n";

fn subscribe(client: &mut FixClient, id: &str, more: &str) {
    client.send("V", &format!("262={id}|263=1|264=0|265=1|{more}146=1|55=AAPL|"));
}

/// A client of market data sees orders, trades and cancels of both sides; it does not enter orders, and trading
/// participants may be clients too. After a restart it begins anew.
#[test]
fn books_and_trades_are_sent_as_they_change() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let start = || venue::start(&config(folder.path(), PORT), SystemClock::start()).unwrap();
        let running = start();
        let (mut alice, _) = FixClient::log_on(&running, version, "ALICE", 1, "");
        let mut data = FixClient::connect_to(&running, "market_data_fix", version, "ALICE", 1);
        data.send("A", "98=0|108=1000|141=Y|95=5|96=alice|");
        data.expect("35=A|34=1|98=0|108=1000|141=Y|");
        subscribe(&mut data, "R", "267=3|269=0|269=1|269=2|");
        data.expect("35=W|34=2|262=R|55=AAPL|268=0|");

        alice.send("D", "11=A1|21=1|55=AAPL|54=2|38=100|40=2|44=150.00|59=0|");
        data.expect(
            "35=X|34=3|262=R|268=1|279=0|269=1|278=S1500000|55=AAPL|270=150|271=100|346=1|",
        );
        // A trade, and the level that remains.
        alice.send("D", "11=A2|21=1|55=AAPL|54=1|38=40|40=2|44=150.00|59=0|");
        let trade = data.read();
        assert!(trade.starts_with("35=X|34=4|262=R|268=1|279=0|269=2|278=T1|55=AAPL|"), "{trade}");
        assert!(trade.contains("270=150|271=40|272="), "{trade}");
        data.expect("35=X|34=5|262=R|268=1|279=1|269=1|278=S1500000|55=AAPL|270=150|271=60|346=1|");
        alice.send("F", "11=A3|41=A1|55=AAPL|54=2|");
        data.expect("35=X|34=6|262=R|268=1|279=2|269=1|278=S1500000|55=AAPL|270=150|");
        // Each port has its messages.
        data.send("D", "11=A4|21=1|55=AAPL|54=2|38=100|40=2|44=150.00|59=0|");
        data.expect("35=j|34=7|45=3|372=D|380=3|58=message type is not offered|");
        subscribe(&mut alice, "R", "267=1|269=0|");
        while !alice.read().contains("372=V|380=3|") {}
        alice.send("D", "11=A5|21=1|55=AAPL|54=1|38=7|40=2|44=149.00|59=1|");
        data.expect("35=X|34=8|262=R|268=1|279=0|269=0|278=B1490000|55=AAPL|270=149|271=7|346=1|");
        running.stop().unwrap();

        let running = start();
        let mut data = FixClient::connect_to(&running, "market_data_fix", version, "BOB", 1);
        data.send("A", "98=0|108=1000|141=Y|95=3|96=bob|");
        data.read();
        subscribe(&mut data, "AGAIN", "267=2|269=0|269=1|");
        data.expect("35=W|34=2|262=AGAIN|55=AAPL|268=1|269=0|270=149|271=7|346=1|");
        data.log_out();
        running.stop().unwrap();
    }
}

//! Order files: the rows read from them, the rows refused, and the output of the generator.

use std::{
    io::{Cursor, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use lab::order_file::{BalanceFile, FileError, InstrumentTable, OrderFile, generate::FileProfile};
use market::{
    CancelOrder, Command, Display, Handling, Instructions, Lots, OrderType, Price, Pricing,
    Quantity, SelfMatchPrevention, SessionId, Side, Text, Ticks, TimeInForce,
};
use proof::rng::Rng;
use sha2::{Digest, Sha256};

/// Each row's participant, and its command of session 7.
type Rows = Vec<(Text<6>, Command)>;

fn read_rows(mut file: OrderFile) -> Result<Rows, FileError> {
    let mut rows = Vec::new();
    while let Some(participant) = file.next_participant()? {
        rows.push((participant, file.command(SessionId(7))?));
    }
    Ok(rows)
}

fn read_all(text: &str, instruments: InstrumentTable) -> Result<Rows, FileError> {
    let bytes = Cursor::new(text.as_bytes().to_vec());
    read_rows(OrderFile::from_reader("orders.csv", bytes, instruments)?)
}

fn rows(text: &str) -> Rows {
    read_all(text, InstrumentTable::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    read_all(text, InstrumentTable::default())
        .map(|rows| panic!("{rows:?}"))
        .unwrap_err()
        .to_string()
}

/// The two layouts of the origin are read as they are: order by order, and with cancels.
#[test]
fn layouts_of_the_origin_are_read() {
    let plain = rows("order_id,user_id,side,price,qty\r\n1,655,buy,84907.12,0.390483\r\n");
    let acted = rows(
        "order_id,user_id,action,side,price,qty\r\n\
         1,655,place,buy,84907.12,0.390483\r\n1,655,cancel,,,\r\n",
    );
    assert_eq!((plain.len(), acted.len()), (1, 2));
    assert_eq!(plain[0], acted[0]);
    let (participant, Command::Enter(order)) = plain[0] else { panic!("{plain:?}") };
    assert_eq!(participant, Text::new("655").unwrap());
    assert_eq!((order.key.session_id, order.key.user_ref_num), (SessionId(7), 1));
    assert_eq!((order.side, order.order_type), (Side::Buy, OrderType::Limit));
    assert_eq!((order.price, order.quantity), (Price(8_490_712), Quantity(390_483)));
    assert_eq!(order.symbol.as_str(), "BTC_USDT");
    let Command::Cancel(CancelOrder { key, quantity }) = acted[1].1 else { panic!("{acted:?}") };
    assert_eq!((key, quantity), (order.key, Quantity::ZERO));
}

/// Columns are found by their names, in any order; line ends, a mark of the byte order and empty
/// lines change nothing.
#[test]
fn columns_are_found_by_name() {
    let expected = rows("order_id,user_id,side,price,qty\n9,a,sell,1.50,2\n");
    for text in [
        "price,quantity,side,participant,order_id\n1.5,2.000000,sell,a,9",
        "\u{feff}qty,price,order_id,user_id,side\r\n2,1.500,9,a,sell\r\n\r\n",
        "order_id,user_id,side,price,qty,type,post_only,new_order_id\n9,a,sell,1.50,2,,,\n",
        "order_id,user_id,side,price,qty,action,symbol\n9,a,sell,1.50,2,place,BTC_USDT\n",
    ] {
        assert_eq!(rows(text), expected, "{text}");
    }
}

/// Everything an order may be has a column.
#[test]
fn every_kind_of_order_can_be_said() {
    let header = "order_id,user_id,action,side,type,time_in_force,display,price,qty,\
                  minimum_quantity,post_only,self_match_prevention,self_match_group,new_order_id\n";
    let read = rows(&format!(
        "{header}1,a,place,short,market,ioc,,,3,1,,newest,G1,\n\
         2,a,place,sell,limit,day,hidden,7.00,3,,true,,,\n\
         2,a,replace,,limit,,,8.00,4,,,,,3\n\
         3,a,modify,short-exempt,,,,,2,,,,,\n\
         3,a,cancel,,,,,,1,,,,,\n"
    ));
    let commands: Vec<Command> = read.iter().map(|(_, command)| *command).collect();
    let [
        Command::Enter(market),
        Command::Enter(hidden),
        Command::Replace(replace),
        Command::Modify(modify),
        Command::Cancel(cancel),
    ] = commands.as_slice()
    else {
        panic!("{commands:?}")
    };
    assert_eq!((market.side, market.order_type), (Side::SellShort, OrderType::Market));
    assert_eq!(market.time_in_force, TimeInForce::ImmediateOrCancel);
    assert_eq!(market.conditions.minimum_quantity.quantity(), Quantity(1_000_000));
    assert_eq!(market.conditions.self_match_prevention, SelfMatchPrevention::CancelNewest);
    assert_eq!(market.conditions.self_match_group.as_str(), "G1");
    assert_eq!((hidden.display, hidden.conditions.post_only), (Display::Hidden, true));
    assert_eq!((replace.original_user_ref_num, replace.key.user_ref_num), (2, 3));
    let terms = replace.terms.expect("its terms are said");
    assert_eq!((terms.side, terms.price), (None, Price(800)));
    assert_eq!((modify.side, modify.quantity), (Side::SellShortExempt, Quantity(2_000_000)));
    assert_eq!(cancel.quantity, Quantity(1_000_000));
}

/// Instructions have columns too: orders that wait for a price, follow one, show a part of themselves.
#[test]
fn every_instruction_can_be_said() {
    let read = rows(
        "order_id,user_id,side,type,tif,price,qty,pricing,trigger_price,offset,shown_quantity,\
         shown_range,all_or_none,slide,expires_s,parent,partner\n\
         1,a,buy,market,gtc,,5,stop,101.25,,,,,,,,\n\
         2,a,sell,,gtt,9.00,5,primary-peg,,-0.05,2,0.5,yes,no,1800000000,1,7\n\
         3,a,sell,market-to-limit,fok,,5,,,,,,,,,,\n",
    );
    let instructions: Vec<_> = read
        .iter()
        .map(|(_, command)| match command {
            Command::Enter(order) => order.instructions,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        instructions,
        [
            Instructions { pricing: Pricing::Stop, trigger: Ticks(10_125), ..Instructions::NONE },
            Instructions {
                pricing: Pricing::PrimaryPeg,
                handling: Handling::ALL_OR_NONE,
                offset: -5,
                shown_quantity: Lots::new(2_000_000),
                shown_range: 500_000,
                expires_s: 1_800_000_000,
                parent: 1,
                partner: 7,
                ..Instructions::NONE
            },
            Instructions::NONE,
        ]
    );
    for (row, expected) in [
        ("stop,1.234,", "column `trigger_price`: found `1.234`, expected a decimal number"),
        ("stop,42949672.96,", "column `trigger_price`: found `42949672.96`, expected at most"),
        ("halt,,", "column `pricing`: found `halt`, expected one of limit, stop, take-profit"),
        ("primary-peg,,--1", "column `offset`: found `--1`, expected a decimal number, below 0"),
    ] {
        let header = "order_id,user_id,side,price,qty,pricing,trigger_price,offset";
        let found = error(&format!("{header}\n1,a,buy,1.00,1,{row}\n"));
        assert!(found.contains(expected), "{found}\n  has not\n{expected}");
    }
}

/// A row that makes no sense is refused with file, line and column, the value found and the value expected.
#[test]
fn errors_name_the_place() {
    let header = "order_id,user_id,action,side,price,qty";
    let row = |row: &str| error(&format!("{header}\r\n1,0,place,buy,1.00,1\r\n{row}\r\n"));
    for (found, expected) in [
        (error(""), "orders.csv, line 1: found nothing, expected a header with order_id, "),
        (
            error("order_id,user_id,side,price,qty,colour\n"),
            "orders.csv, line 1: found the column `colour`, expected only columns that are known: ",
        ),
        (
            error("order_id,user_id,side,price\n"),
            "line 1: found the header `order_id,user_id,side,price`, expected a column `quantity`",
        ),
        (error("price,price,side\n"), "line 1: found the column `price` a second time, expected"),
        (row("2,0,place,buy,1.00"), "line 3: found 5 fields in `2,0,place,buy,1.00`, expected 6"),
        (row("0,0,place,buy,1.00,1"), "line 3, column `order_id`: found `0`, expected a whole"),
        (row("4294967296,0,place,buy,1.00,1"), "column `order_id`: found `4294967296`, expected"),
        (row("+2,0,place,buy,1.00,1"), "column `order_id`: found `+2`, expected a whole number"),
        (row("2,,place,buy,1.00,1"), "column `participant`: found nothing, expected a name of 1"),
        (row("2,1234567,place,buy,1.00,1"), "column `participant`: found `1234567`, expected"),
        (row("2,0,shout,buy,1.00,1"), "column `action`: found `shout`, expected place, cancel,"),
        (
            row("2,0,place,up,1.00,1"),
            "line 3, column `side`: found `up`, expected one of buy, sell",
        ),
        (
            row("2,0,place,buy,1.001,1"),
            "column `price`: found `1.001`, expected a decimal number from 0 with at most 2",
        ),
        (row("2,0,place,buy,1e3,1"), "column `price`: found `1e3`, expected a decimal number"),
        (row("2,0,place,buy,1.00,-1"), "column `quantity`: found `-1`, expected a decimal number"),
        (row("2,0,place,buy,1.00,"), "column `quantity`: found nothing, expected a decimal"),
        (row("2,0,cancel,,5.00,"), "column `price`: found `5.00`, expected nothing for a cancel"),
        (row("2,0,replace,buy,5.00,1"), "column `new_order_id`: found no such column, expected"),
        (
            row("2,0,place,\"buy\",1.00,1"),
            "line 3: found the character '\"', expected fields without",
        ),
        (row(&"9".repeat(5000)), "line 3: found a longer line, expected at most 4096 bytes"),
    ] {
        assert!(found.contains(expected), "{found}\n  has not\n{expected}");
    }
    let missing = OrderFile::open(Path::new("there/is/none.csv"), InstrumentTable::default());
    let missing = missing.map(|_| ()).unwrap_err();
    assert_eq!(
        (missing.to_string().as_str(), missing.line()),
        ("cannot open there/is/none.csv", 0)
    );
}

/// A file in which any bytes are changed, lost or doubled is read, or refused with its line: it never
/// stops the program.
#[test]
fn damaged_files_are_read_or_refused() {
    let profile = FileProfile::from_name("many").unwrap();
    let whole = generated(&profile, 11, 60);
    let mut rng = Rng::new(4);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.range(1, 4) {
            let place = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes[place] = rng.next_u64() as u8,
                1 => bytes[place] = *rng.pick(b",\n\r.-0987\"e \0"),
                2 => drop(bytes.remove(place)),
                _ => bytes.insert(place, bytes[place]),
            }
        }
        let line_count = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let file = OrderFile::from_reader("damaged", Cursor::new(bytes), profile.instruments());
        match file.and_then(read_rows) {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                assert!((1..=line_count).contains(&error.line()), "{error}");
            }
        }
    }
    assert!(read > 50 && refused > 1_000, "{read} read, {refused} refused");
}

/// Bytes that are not text are refused; so is a compressed file that is cut off.
#[test]
fn broken_files_are_refused() {
    let orders = "order_id,user_id,side,price,qty\n1,0,buy,1.00,1\n";
    let mut bytes = orders.as_bytes().to_vec();
    bytes.extend(b"2,\xff\xfe,buy,1.00,1\n");
    let mut file =
        OrderFile::from_reader("o", Cursor::new(bytes), InstrumentTable::default()).unwrap();
    assert!(file.next_participant().unwrap().is_some());
    let error = file.next_participant().unwrap_err();
    assert_eq!(
        error.to_string(),
        "o, line 3: found bytes that are not text, expected text in UTF-8"
    );
    assert!(!error.is_corruption());

    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    for _ in 0..10_000 {
        packed.write_all(orders.as_bytes()).unwrap();
    }
    let mut packed = packed.finish().unwrap();
    packed.truncate(packed.len() - 9);
    let file = OrderFile::from_reader("o.gz", Cursor::new(packed), InstrumentTable::default());
    let error = file.and_then(read_rows).unwrap_err();
    assert!(error.to_string().starts_with("o.gz, line 3") || error.is_corruption(), "{error}");
}

/// Several instruments have units of their own, and rows must say which they mean.
#[test]
fn instruments_have_units_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("instruments.csv");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        InstrumentTable::read(&path)
    };
    let header =
        "symbol,base,quote,price_decimals,quantity_decimals,base_decimals,quote_decimals\n";
    let two = format!("{header}X-EUR,X,EUR,1,0,2,4\nY-EUR,Y,EUR,3,2,2,4\n");
    let instruments = read(&two).unwrap();
    let x = &instruments.all()[0];
    assert_eq!((x.base_units_per_lot(), x.quote_units_per_tick_lot()), (100, (1000, 1)));
    let y = &instruments.all()[1];
    assert_eq!((y.base_units_per_lot(), y.quote_units_per_tick_lot()), (1, (1, 10)));
    let bitcoin = &InstrumentTable::default().all()[0].clone();
    assert_eq!(
        (bitcoin.base_units_per_lot(), bitcoin.quote_units_per_tick_lot()),
        (100, (1, 1_000_000))
    );

    let orders =
        "order_id,user_id,symbol,side,price,qty\n1,a,X-EUR,buy,2.5,3\n2,a,Y-EUR,buy,2.5,3\n";
    let placed = read_all(orders, instruments.clone()).unwrap();
    let terms: Vec<_> = placed
        .iter()
        .map(|(_, command)| match command {
            Command::Enter(order) => (order.price.0, order.quantity.0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(terms, [(25, 3), (2500, 300)]);
    let unnamed = read_all("order_id,user_id,side,price,qty\n", instruments.clone()).unwrap_err();
    assert!(unnamed.to_string().contains("column `symbol`: found no such column, expected one"));
    let unknown = read_all("order_id,user_id,symbol,side,price,qty\n1,a,Z,buy,1,1\n", instruments)
        .unwrap_err();
    assert!(unknown.to_string().contains("found `Z`, expected an instrument: X-EUR, Y-EUR"));

    for (text, expected) in [
        (header.to_owned(), "expected at least one instrument"),
        (format!("{header}X,A,A,0,0,0,0\n"), "line 2, column `quote`: found `A`, expected another"),
        (format!("{header}X,A,B,0,3,2,0\n"), "column `quantity_decimals`: found `3`, expected at"),
        (format!("{header}X,A,B,0,0,0,0\nX,A,B,0,0,0,0\n"), "column `symbol`: found `X`, expected"),
        (format!("{header}X,A,B,0,0,0,0\nY,A,C,0,0,1,0\n"), "expected 0, as A had before"),
        (format!("{header}X,A,B,13,0,0,0\n"), "found `13`, expected a whole number from 0 to 12"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  has not\n{expected}");
    }
}

/// Balances are whole numbers of the smallest unit, with nothing reserved.
#[test]
fn balances_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("balances.csv");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let mut file = BalanceFile::open(&path)?;
        let mut balances = Vec::new();
        while let Some(balance) = file.next_balance()? {
            balances.push((balance.participant, balance.asset, balance.available));
        }
        Ok::<_, FileError>(balances)
    };
    let balances =
        read("user_id,asset_id,avail,frozen,version\r\n0,1,10000000000,0,0\r\n").unwrap();
    assert_eq!(balances.len(), 1);
    assert_eq!((balances[0].0.as_str(), balances[0].1.as_str()), ("0", "1"));
    assert_eq!(balances[0].2, 10_000_000_000);
    assert_eq!(read("available,asset,participant\n5,BTC,ab\n").unwrap()[0].2, 5);
    for (row, expected) in [
        ("0,1,-5,0,0", "column `available`: found `-5`, expected a whole number"),
        ("0,1,1.5,0,0", "column `available`: found `1.5`, expected a whole number"),
        ("0,1,18446744073709551616,0,0", "column `available`: found `18446744073709551616`"),
        ("0,1,5,7,0", "column `reserved`: found `7`, expected 0"),
        ("0,,5,0,0", "column `asset`: found nothing, expected a name"),
        ("0,1,5,0,x", "column `version`: found `x`, expected a whole number"),
    ] {
        let error = read(&format!("user_id,asset_id,avail,frozen,version\n{row}\n")).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}\n  has not\n{expected}");
    }
}

fn generated(profile: &FileProfile, seed: u64, orders: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    profile.write_orders(seed, orders, &mut bytes).unwrap();
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A seed gives the same bytes for ever and everywhere: these are the hashes of them.
#[test]
fn seed_gives_the_same_file_for_ever() {
    let hashes: Vec<_> = FileProfile::all()
        .iter()
        .map(|profile| (profile.name(), sha256(&generated(profile, 1, 20_000))))
        .collect();
    assert_eq!(
        hashes,
        [
            (
                "origin",
                "94c13d906a5d33752eb45d7af406ce3c794e820b723ff2565cc04c7394a2f910".to_owned()
            ),
            ("calm", "ca0c069fbc79c3b2d87f3aa3dc6381ea3ece1152cd68f37ff75e8692497f40ed".to_owned()),
            ("many", "015cd43c7e4e7454b7a04a01804634d6078374f51d88b1e7c4db71cc6ebf298b".to_owned()),
            (
                "contingent",
                "11e9dcf5d6b4c3ab97f37d38bf6c5b07751e10cedd45b3774b61b75d2dd60f94".to_owned()
            ),
        ]
    );
    let origin = FileProfile::from_name("origin").unwrap();
    assert_ne!(generated(&origin, 1, 100), generated(&origin, 2, 100));
}

/// Generated files can be read, match their profile, and cancels come as often as they must.
#[test]
fn generated_files_can_be_read() {
    const ORDERS: u64 = 10_000;
    for profile in FileProfile::all() {
        let mut bytes = Vec::new();
        let written = profile.write_orders(3, ORDERS, &mut bytes).unwrap();
        let file =
            OrderFile::from_reader(profile.name(), Cursor::new(bytes), profile.instruments());
        let (mut rows, mut orders, mut cancels, mut others) = (0, 0, 0, 0);
        for (_, command) in file.and_then(read_rows).unwrap() {
            rows += 1;
            match command {
                Command::Enter(_) => orders += 1,
                Command::Replace(_) => (orders, others) = (orders + 1, others + 1),
                Command::Cancel(_) => cancels += 1,
                Command::Modify(_) => others += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((rows, orders, cancels), (written.rows, written.orders, written.cancels));
        assert_eq!(orders, ORDERS);
        let share = if profile.name() == "calm" { 100 } else { 300 };
        assert!(cancels.abs_diff(ORDERS * share / 1000) < 300, "{cancels} in {}", profile.name());
        assert_eq!(others > 1_000, ["many", "contingent"].contains(&profile.name()));

        let folder = tempfile::tempdir().unwrap();
        let (balances, instruments) =
            (folder.path().join("balances.csv"), folder.path().join("instruments.csv"));
        profile.write_balances(&mut std::fs::File::create(&balances).unwrap()).unwrap();
        profile.write_instruments(&mut std::fs::File::create(&instruments).unwrap()).unwrap();
        let instruments = InstrumentTable::read(&instruments).unwrap();
        assert_eq!(instruments.all(), profile.instruments().all());
        let mut balances = BalanceFile::open(&balances).unwrap();
        let mut count = 0;
        while let Some(balance) = balances.next_balance().unwrap() {
            assert!(instruments.assets().iter().any(|asset| asset.name == balance.asset));
            count += 1;
        }
        assert!(count >= 40);
    }
}

//! An OUCH 4.2 session before an engine: its tokens, its replies, and their state in a snapshot.

use market::{Command, Output, Sequence, SessionId, Timestamp};
use proof::scenario::World;
use wire::{
    ouch,
    ouch42::{NOTE, Requests, Response42, TokenFault, Tokens},
};

const SESSION: SessionId = SessionId(1);

/// A session of OUCH 4.2 before an engine.
struct Dialogue {
    world: World,
    encoder: ouch::Encoder,
    requests: Requests,
    tokens: Option<Tokens>,
}

impl Dialogue {
    fn new() -> Self {
        let mut encoder = ouch::Encoder::new();
        let world = World::in_open_market();
        world.engine().instruments().for_each(|instrument| encoder.learn(instrument));
        Self { world, encoder, requests: Requests::default(), tokens: None }
    }

    /// The replies in OUCH 5.0.
    fn replies(&mut self, command: Command) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        for event in self.world.apply(command) {
            let output = Output { cause: Sequence(1), timestamp: Timestamp(0), event };
            self.encoder.encode(&output, &mut |_, message| replies.push(message.to_vec()));
        }
        replies
    }

    /// The commands of a message.
    fn commands(&mut self, message: &[u8]) -> Result<Vec<Command>, TokenFault> {
        let mut commands = Vec::new();
        let received = Timestamp(0);
        let tokens = self.tokens.as_ref();
        self.requests.commands(message, SESSION, received, tokens, &mut commands)?;
        Ok(commands)
    }

    /// The replies to a message, each as its type and the rest of its bytes after the timestamp.
    fn ask(&mut self, message: &[u8]) -> Vec<String> {
        let mut replies = Vec::new();
        for command in self.commands(message).unwrap() {
            if matches!(&command, Command::Note(note) if note.bytes() == NOTE) {
                self.tokens.get_or_insert_default();
                continue;
            }
            let messages = self.replies(command);
            let tokens = self.tokens.as_mut().expect("the note comes first");
            for reply in messages {
                tokens.reply(&reply, &mut |reply| {
                    assert!(Response42::read(reply).is_some(), "{}", reply.escape_ascii());
                    let kind = char::from(reply[0]);
                    replies.push(format!("{kind} {}", reply[9..].escape_ascii()));
                });
            }
        }
        let mut pieces = Vec::new();
        if let Some(tokens) = &self.tokens {
            tokens.save(&mut |piece| pieces.push(piece.to_vec()));
            let mut restored = None;
            pieces.iter().for_each(|piece| Tokens::restore(&mut restored, piece).unwrap());
            assert_eq!(restored.as_ref(), Some(tokens), "a snapshot has all of it");
        }
        replies
    }
}

fn enter(token: &str, side: char, shares: u32, price: u32, seconds: u32) -> Vec<u8> {
    let numbers = [shares.to_be_bytes(), price.to_be_bytes(), seconds.to_be_bytes()];
    let head = format!("O{token:14}{side}").into_bytes();
    [&head[..], &numbers[0], b"AAPL    ", &numbers[1], &numbers[2], b"    YPN", &[0; 4], b"NN"]
        .concat()
}

fn cancel(token: &str, shares: u32) -> Vec<u8> {
    [format!("X{token:14}").as_bytes(), &shares.to_be_bytes()].concat()
}

fn replace(existing: &str, token: &str, shares: u32, price: u32) -> Vec<u8> {
    let numbers = [shares.to_be_bytes(), price.to_be_bytes(), 99_998_u32.to_be_bytes()];
    let head = format!("U{existing:14}{token:14}").into_bytes();
    [&head[..], &numbers[0], &numbers[1], &numbers[2], b"YN", &[0; 4]].concat()
}

/// An order's life in tokens: accepted, executed, replaced, canceled; a token is used once, also by a rejection.
#[test]
fn an_order_is_named_by_its_token() {
    let mut dialogue = Dialogue::new();
    let accepted = dialogue.ask(&enter("SELL 1", 'S', 100, 10_000, 99_998));
    assert_eq!(accepted.len(), 1);
    assert!(
        accepted[0].starts_with("A SELL 1        S\\x00\\x00\\x00dAAPL    \\x00\\x00\\'\\x10"),
        "{accepted:?}"
    );
    assert!(accepted[0].contains("\\x00\\x01\\x86\\x9e"), "for the day: {accepted:?}");
    assert_eq!(dialogue.ask(&enter("SELL 1", 'S', 100, 10_000, 99_998)), [""; 0], "sent again");
    let traded = dialogue.ask(&enter("BUY", 'B', 40, 10_000, 0));
    let kinds: Vec<&str> = traded.iter().map(|reply| reply.split_at(16).0).collect();
    assert_eq!(kinds, ["A BUY           ", "E SELL 1        ", "E BUY           "]);
    let replaced = dialogue.ask(&replace("SELL 1", "SELL 2", 90, 10_100));
    assert!(replaced[0].starts_with("U SELL 2        S\\x00\\x00\\x002AAPL"), "{replaced:?}");
    assert!(replaced[0].ends_with("LSELL 1         "), "{replaced:?}");
    assert_eq!(dialogue.ask(&cancel("SELL 1", 0)), [""; 0], "it is no more");
    assert_eq!(dialogue.ask(&cancel("SELL 2", 45)), ["C SELL 2        \\x00\\x00\\x00-U"]);
    assert_eq!(dialogue.ask(&cancel("SELL 2", 0)), ["C SELL 2        \\x00\\x00\\x00\\x05U"]);
    assert_eq!(dialogue.ask(&replace("SELL 2", "SELL 3", 90, 10_100)), [""; 0]);
    assert_eq!(dialogue.ask(&enter("ODD", 'S', 0, 10_000, 99_998)), ["J ODD           Z"]);
    assert_eq!(dialogue.ask(&enter("ODD", 'S', 10, 10_000, 99_998)), [""; 0], "it is used up");
    assert_eq!(dialogue.ask(&enter("DEAR", 'B', 1, 0x7FFF_FFFF, 0)), ["J DEAR          X"]);
    dialogue.ask(&enter("REST", 'S', 10, 10_000, 99_998));
    let market = dialogue.ask(&replace("REST", "MARKET", 10, 0x7FFF_FFFF));
    assert!(market.iter().all(|reply| !reply.starts_with('U')), "no market order: {market:?}");
    assert!(!market.is_empty());
    assert_eq!(dialogue.ask(&enter("LONG", 'B', 1, 100, 100_000)), ["J LONG          O"]);
    let mut hidden = enter("SHOW", 'B', 1, 100, 0);
    hidden[40] = b'I';
    assert_eq!(dialogue.ask(&hidden), ["J SHOW          D"]);
}

//! Commands of operators as bytes: name, number, then the encoded command. Invariant: each has
//! exactly one encoding.

use super::{Writer, kind};
use crate::{
    OperatorAction, OperatorCommand,
    bytes::{ByteReader, ByteWriter, DecodeError},
};

impl Writer<'_> {
    pub(super) fn operate(&mut self, command: &OperatorCommand) {
        self.u8(kind::OPERATE);
        self.text(&command.operator);
        self.u64(command.number);
        match &command.action {
            OperatorAction::Venue(command) => self.venue(command),
            OperatorAction::Money(command) => self.money(command),
        }
    }
}

impl ByteReader<'_> {
    pub(super) fn operate(&mut self) -> Result<OperatorCommand, DecodeError> {
        let (operator, number) = (self.text("operator")?, self.u64()?);
        let kind = self.u8()?;
        let action = match self.venue(kind)? {
            Some(command) => OperatorAction::Venue(command),
            None => OperatorAction::Money(self.money(kind)?),
        };
        Ok(OperatorCommand { operator, number, action })
    }
}

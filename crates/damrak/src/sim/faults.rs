/// What goes wrong, out of a thousand.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// False while everything settles.
    pub on: bool,
    /// Datagrams that vanish.
    pub loss_per_mille: u64,
    /// Datagrams that come twice.
    pub duplication_per_mille: u64,
}

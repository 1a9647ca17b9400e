//! Rules without scenarios, and scenarios without rules.

use std::collections::BTreeSet;

const RULES: &str = include_str!("../../../../docs/rules.md");

const SCENARIOS: [&str; 33] = [
    include_str!("day.rs"),
    include_str!("numbers.rs"),
    include_str!("acceptance.rs"),
    include_str!("matching.rs"),
    include_str!("cancel.rs"),
    include_str!("modify.rs"),
    include_str!("replace.rs"),
    include_str!("mass_cancel.rs"),
    include_str!("entry_switch.rs"),
    include_str!("disconnect.rs"),
    include_str!("self_match.rs"),
    include_str!("conditions.rs"),
    include_str!("hidden.rs"),
    include_str!("types.rs"),
    include_str!("waiting.rs"),
    include_str!("links.rs"),
    include_str!("pegs.rs"),
    include_str!("lives.rs"),
    include_str!("many_cancels.rs"),
    include_str!("money.rs"),
    include_str!("money_checks.rs"),
    include_str!("reserve.rs"),
    include_str!("minimum_quantity.rs"),
    include_str!("pro_rata.rs"),
    include_str!("phases.rs"),
    include_str!("auctions.rs"),
    include_str!("auction_steps.rs"),
    include_str!("trades_in_steps.rs"),
    include_str!("bands.rs"),
    include_str!("venue.rs"),
    include_str!("operators.rs"),
    include_str!("large_quantities.rs"),
    include_str!("../../../proof/tests/it/large_quantities.rs"),
];

/// Every rule of docs/rules.md is cited by a scenario, and every rule cited is there.
#[test]
fn every_rule_has_a_scenario() {
    let rules: BTreeSet<_> =
        RULES.split("\n**").skip(1).filter_map(|rule| Some(rule.split_once("**")?.0)).collect();
    let cited: BTreeSet<_> = SCENARIOS
        .iter()
        .flat_map(|file| file.lines())
        .filter_map(|line| line.strip_prefix("/// Rule"))
        .filter_map(|cited| Some(cited.trim_start_matches('s').split_once(':')?.0))
        .flat_map(|cited| cited.split(',').map(str::trim))
        .collect();
    assert!(rules.len() > 40, "the rule book was read: {rules:?}");
    assert_eq!(rules.difference(&cited).collect::<Vec<_>>(), Vec::<&&str>::new(), "no scenario");
    assert_eq!(cited.difference(&rules).collect::<Vec<_>>(), Vec::<&&str>::new(), "no rule");
}

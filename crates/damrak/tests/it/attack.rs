//! `damrak lab attack` from a developer's view: two quick attacks, judged by completeness alone.

use serde_json::Value;

use crate::program::{damrak, stderr};

/// During an attack every request of an honest client over TCP is answered, and the summary is complete. Figures that
/// depend on the machine are ignored.
#[test]
fn honest_clients_are_answered_beside_an_attacker() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("attack");
    let names = "cancel-churn,garbage";
    let out = out.to_str().unwrap();
    let output = damrak(&["lab", "attack", "--short", "--json", "--only", names, "--out", out]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["schema"], "damrak/lab-attack/1");
    let attacks = summary["attacks"].as_array().unwrap();
    assert_eq!(attacks.len(), 2, "{summary}");
    for attack in attacks {
        for client in ["tcp", "udp"] {
            assert!(attack[client]["requests"].as_u64() > Some(0), "{attack}");
            assert_eq!(attack[client]["cut_off"], Value::Null, "{attack}");
        }
        assert_eq!(attack["tcp"]["unanswered"], 0, "{attack}");
        assert_eq!(attack["venue_ended"], Value::Null, "{attack}");
        assert!(attack["sent"].as_u64() > Some(0), "{attack}");
        assert!(attack["served_again_ns"].is_u64(), "{attack}");
        assert!(attack["memory_bytes"]["max"].as_u64() > Some(0), "{attack}");
        assert!(attack["journal_bytes"].as_u64() > Some(0), "{attack}");
    }
}

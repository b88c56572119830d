//! `./x up` and `./x down`: what they start, find again and end.

use crate::harness::binary;
use forebay_services::up::{Options, Ports, down, up};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// Ends what was started, also when the test fails.
struct Down<'a>(&'a Path);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        if self.0.exists() {
            // A failure has been told already.
            let _ = down(self.0, true);
        }
    }
}

#[test]
fn up_is_ready_and_found_again_and_down_ends_it_alone() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("up");
    let _down = Down(&folder);
    // Below all ports that the other tests take.
    let ports = Ports::from(10_000 + (std::process::id() % 60 * 30) as u16);
    let options = |nodes| Options { folder: folder.clone(), nodes, ports, forebay: binary() };

    let first = up(&options(None)).expect("up");
    assert!(first.starts_with("up\n") && first.contains("gateway --config"), "{first}");
    let config = folder.join("forebay.toml");
    let check = |arguments: &[&str]| {
        let output = Command::new(binary()).args(arguments).arg("--config").arg(&config).output().expect("the binary starts");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    check(&["config", "check"]);
    check(&["topics", "check"]);

    let again = up(&options(Some(1))).expect("up");
    assert_eq!(again, format!("already {first}"));
    let other = up(&options(Some(3))).expect_err("another number of nodes").to_string();
    assert!(other.contains("holds a Kafka of 1 nodes, not 3"), "{other}");

    // An id that was used again, for this process, which lives on.
    std::fs::write(folder.join("stranger.pid"), format!("{} 1 a stranger", std::process::id())).expect("written");
    let said = down(&folder, false).expect("down");
    assert_eq!(said.lines().filter(|line| line.starts_with("ended ")).count(), 3, "{said}");
    assert!(said.contains("had ended  a stranger"), "{said}");
    for port in [ports.kafka, ports.s3, ports.registry] {
        TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens");
    }

    assert!(up(&options(None)).expect("up").starts_with("up\n"));
    check(&["topics", "check"]);
    let said = down(&folder, true).expect("down");
    assert!(said.contains("removed") && !folder.exists(), "{said}");
    assert!(down(&folder, false).expect("down").starts_with("nothing was up"));
}

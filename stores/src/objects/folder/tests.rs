use super::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn conforms() {
    let dirs = Mutex::new(Vec::new());
    super::super::conformance::suite(&|| {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("deep/objects"));
        dirs.lock().push(dir);
        Box::new(folder)
    });
}

#[test]
fn nothing_is_made_before_the_first_put_and_what_is_made_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("objects"));
    assert_eq!(folder.list("", None, 10).unwrap(), []);
    assert!(!dir.path().join("objects").exists());

    folder.put_if_absent("raw/dt=x/one.avro", Content::Bytes(b"1")).unwrap();
    for (path, mode) in [("objects", 0o700), ("objects/raw", 0o700), ("objects/raw/dt=x", 0o700), ("objects/raw/dt=x/one.avro", 0o600)] {
        assert_eq!(fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn what_is_shared_is_open_as_the_umask_lets_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("by_umask")).unwrap();
    fs::write(dir.path().join("by_umask/file"), b"1").unwrap();
    Folder::shared(dir.path().join("objects")).put_if_absent("data/one", Content::Bytes(b"1")).unwrap();
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("objects/data"), mode("by_umask"));
    assert_eq!(mode("objects/data/one"), mode("by_umask/file"));
}

#[test]
fn leftovers_of_a_killed_put_are_not_listed_and_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    fs::create_dir(dir.path().join("raw")).unwrap();
    for nth in 0..50 {
        fs::write(dir.path().join(format!("raw/{TEMP_PREFIX}{}-{nth}", std::process::id())), b"half").unwrap();
    }
    assert_eq!(folder.put_if_absent("raw/a", Content::Bytes(b"whole")).unwrap(), Put::Created);
    assert_eq!(folder.list("raw/", None, 100).unwrap(), [ObjectInfo { name: "raw/a".into(), bytes: 5 }]);
    // The folder itself may be moved or cleared under a running process.
    fs::remove_dir_all(dir.path().join("raw")).unwrap();
    assert_eq!(folder.put_if_absent("raw/b", Content::Bytes(b"whole")).unwrap(), Put::Created);
    assert_eq!(fs::read_dir(dir.path().join("raw")).unwrap().count(), 1, "its own temp file is gone");
}

/// The shell bounds the size of files, as a full disk would; this binary runs again below it.
#[test]
fn a_write_that_fails_leaves_nothing() {
    const CHILD: &str = "FOREBAY_TEST_FULL_DISK";
    if let Ok(root) = std::env::var(CHILD) {
        let folder = Folder::new(&root);
        let error = folder.put_if_absent("raw/large", Content::Bytes(&vec![7; 1 << 20])).unwrap_err();
        assert!(matches!(&error, ObjectsError::Io(e) if e.kind() == ErrorKind::FileTooLarge), "{error}");
        assert_eq!(fs::read_dir(Path::new(&root).join("raw")).unwrap().count(), 0);
        assert_eq!(folder.put_if_absent("raw/large", Content::Bytes(&[7; 1_000])).unwrap(), Put::Created);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Its words by a pipe: where this test's own go may be a file that is longer already.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact objects::folder::tests::a_write_that_fails_leaves_nothing"])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(Folder::new(dir.path()).get("raw/large").unwrap().len(), 1_000);
}

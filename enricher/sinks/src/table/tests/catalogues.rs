//! The table sink on real catalogues (Postgres, Iceberg's own REST server) and a real S3 server.

use super::faults::share;
use super::proxy::{Fate, Proxy};
use super::*;
use crate::table::sweep::sweep;
use forebay_services::{Postgres, RestCatalogue};
use forebay_stores::objects::s3::{Keys, S3Options};

/// Commits, rewrites, expiry and a column of another program, then two sinks at once. The ids that are in the table then.
fn all_of_it(world: World) -> Arc<World> {
    let mut worker = world.worker();
    let commits = i64::try_from(limit::SINK_SMALL_FILES).expect("few") + 2;
    for n in 0..commits {
        world.put(0, n..n + 1);
        worker.drain().expect("drains");
    }
    let table = world.stored();
    assert_eq!((world.ids(), table.metadata.snapshots().len()), (ids(0, 0..commits), 3));
    assert!(world.live(&table).len() < 4, "small files were rewritten");
    let found = world.lookup(0, 3).expect("a table");
    assert_eq!((found.has_it, found.next, found.metadata), (true, commits, table.location.clone()));

    // Another program drops `seq` meanwhile: the batch goes on top, and the next start adds the column again.
    world.put(0, commits..commits + 1);
    worker.pass().expect("reads");
    let fields = table.metadata.current_schema().as_struct().fields().iter().filter(|field| field.name != "seq").cloned();
    let other = Schema::builder().with_schema_id(1).with_fields(fields).build().expect("schema");
    let builder = table.metadata.as_ref().clone().into_builder(Some(table.location.clone())).add_current_schema(other).expect("adds");
    let next = Next::from(builder.build().expect("builds"));
    assert!(matches!(world.catalogue().commit(&world.warehouse(), &table, &next), Ok(Swap::Done(_))));
    assert!(worker.commit().expect("commits"));
    drop(worker);
    world.worker();
    assert_eq!(world.stored().metadata.current_schema().field_id_by_name("seq"), Some(45));
    let table = world.stored();
    sweep(&table, &world.warehouse(), std::time::Duration::ZERO, false).expect("sweeps");
    assert_eq!(world.ids(), ids(0, 0..commits + 1));

    let (world, had) = (Arc::new(world), commits + 1);
    share(&world, had, 40);
    let mut expected = [ids(0, 0..had + 40), ids(1, 0..40)].concat();
    expected.sort_unstable();
    assert_eq!(world.ids(), expected);
    world
}

/// DuckDB and PyIceberg, which know of us what the catalogue tells, find the rows that we find.
fn others_read_it<R: Sample>(world: &World<R>, server: &forebay_services::S3) {
    let config = world.config();
    let secret = server.files().join("../secret");
    let mut settings = format!(
        "[objects]\nbucket = \"lake\"\nendpoint = \"{}\"\naccess_key_id = \"{}\"\nsecret_access_key_file = \"{}\"\n\
         [sink.table]\nwarehouse = \"{}\"\ncatalogue = \"{}\"\n",
        server.endpoint(),
        server.access_key(),
        secret.display(),
        String::from(config.warehouse),
        String::from(config.catalogue),
    );
    if let Some(file) = config.catalogue_password_file {
        settings.push_str(&format!("catalogue_password_file = \"{}\"\n", file.display()));
    }
    let file = world.folder.path().join("forebay.toml");
    std::fs::write(&file, settings).expect("writes");
    let python = std::env::var("FOREBAY_PYTHON").expect("FOREBAY_PYTHON: run the tests by ./x test");
    let readers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/readers.py");
    let count = world.ids().len();
    for reader in ["duckdb", "pyiceberg"] {
        let mut command = std::process::Command::new(&python);
        command.arg(readers).arg("--config").arg(&file).arg("--files").arg(server.files()).args([
            "--with",
            reader,
            "--table",
            R::SHAPE.name,
            "--count",
            R::ID,
        ]);
        let output = command.output().expect("python starts");
        let told = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{{\"rows\": {count}, \"different\": {count}}}");
        assert_eq!(told.trim(), expected, "{reader}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn s3() -> (forebay_services::S3, Bucket) {
    let server = forebay_services::S3::start().expect("starts");
    server.create_bucket("lake").expect("makes a bucket");
    let secret_file = server.files().join("../secret");
    std::fs::write(&secret_file, server.secret_key()).expect("writes");
    let keys = Keys { access_key_id: server.access_key().to_owned(), secret_file };
    let options = S3Options {
        bucket: "lake".into(),
        prefix: "a/b".into(),
        endpoint: Some(server.endpoint()),
        region: Some(server.region().into()),
        path_style: true,
        keys: Some(keys),
    };
    (server, Bucket::Real(Arc::new(S3::new(options).expect("opens"))))
}

#[test]
fn a_bucket_with_a_catalogue_in_a_file() {
    let (server, bucket) = s3();
    others_read_it(&all_of_it(World::in_bucket(bucket)), &server);
}

#[test]
fn a_bucket_with_a_rest_catalogue() {
    let (server, bucket) = s3();
    let catalogue = RestCatalogue::start(&server, "s3://lake/elsewhere").expect("starts");
    let world = World { catalogue: Some(CatalogueAt::Rest(catalogue.url())), ..World::in_bucket(bucket) };
    assert_eq!(world.lookup(0, 0), None);
    let world = all_of_it(world);
    others_read_it(&world, &server);
    // Another table beside it.
    let windows = Arc::into_inner(world).expect("all threads have ended").of::<WindowRows>();
    windows.put(0, 0..20);
    windows.worker().drain().expect("drains");
    others_read_it(&windows, &server);
}

#[test]
fn a_rest_commit_whose_answer_is_lost_or_late_is_found() {
    found_after_all::<TrustedRows>();
    found_after_all::<WindowRows>();
}

fn found_after_all<R: Sample>() {
    let (server, bucket) = s3();
    let catalogue = RestCatalogue::start(&server, "s3://lake/elsewhere").expect("starts");
    let proxy = Proxy::start(catalogue.address());
    let world = World { catalogue: Some(CatalogueAt::Rest(proxy.url.clone())), ..World::in_bucket(bucket) }.of::<R>();
    let mut worker = world.worker();
    let fates = [
        vec![Fate::LoseAnswer],
        vec![Fate::Refuse],
        vec![Fate::Refuse, Fate::Refuse, Fate::LoseAnswer],
        vec![Fate::BeforeTheNext],
        vec![Fate::AfterTheNext],
        vec![Fate::BeforeTheNext, Fate::LoseAnswer],
        vec![Fate::BeforeTheNext, Fate::BeforeTheNext],
        vec![Fate::Pass],
    ];
    for (n, fates) in (0..).zip(fates) {
        world.put(0, n..n + 1);
        proxy.next(&fates);
        worker.drain().expect("drains");
        let files: Vec<_> = world.live(&world.stored()).iter().map(|file| world.warehouse().read(file).expect("is there").len()).collect();
        assert_eq!((world.ids(), files.len()), (ids(0, 0..n + 1), usize::try_from(n + 1).expect("few")), "{fates:?}");
    }
    let conflicts = proxy.late().iter().filter(|answer| answer.contains(" 409 ")).count();
    assert_eq!((proxy.late().len(), conflicts), (5, 2), "{:?}", proxy.late());
    catalogue.kill();
    world.put(0, 8..9);
    worker.ask_again = [std::time::Duration::ZERO; 4];
    assert!(!worker.drain().expect_err("nobody answers").is_final());
    catalogue.restart().expect("restarts");
    worker.begin_again().expect("begins again");
    worker.drain().expect("drains");
    assert_eq!(world.ids(), ids(0, 0..9));
}

#[test]
fn a_rest_catalogue_is_told_who_asks() {
    let (server, bucket) = s3();
    let catalogue = RestCatalogue::start(&server, "s3://lake/elsewhere").expect("starts");
    let proxy = Proxy::start(catalogue.address());
    let world = World { catalogue: Some(CatalogueAt::Rest(proxy.url.clone())), ..World::in_bucket(bucket) };
    let file = world.folder.path().join("who");
    let tokens = |from: usize| proxy.seen().split_off(from).into_iter().map(|(_, token)| token.unwrap_or_default()).collect::<Vec<_>>();

    // A token is read anew for each request.
    std::fs::write(&file, "first\n").expect("writes");
    let rest = super::super::config::Rest { token_file: Some(file.clone()), ..Default::default() };
    let mut worker = world.worker_with(Config { rest, ..world.config() }).expect("opens");
    assert!(tokens(0).iter().all(|token| token == "first"), "{:?}", proxy.seen());
    std::fs::write(&file, "second").expect("writes");
    let before = proxy.seen().len();
    world.put(0, 0..1);
    worker.drain().expect("drains");
    assert_eq!(tokens(before), ["second"], "{:?}", proxy.seen());
    // One that is no longer good ends the sink, and is not shown.
    proxy.next(&[Fate::Expire]);
    world.put(0, 1..2);
    let error = worker.drain().expect_err("refuses");
    assert!(error.is_final() && error.to_string().contains("rest.token_file") && !error.to_string().contains("second"), "{error}");

    // A credential is exchanged for a token, and again when that is refused.
    std::fs::write(&file, "sink:s3cret & more").expect("writes");
    let rest = super::super::config::Rest { credential_file: Some(file), scope: Some("all of it".into()), ..Default::default() };
    let before = proxy.seen().len();
    let mut worker = world.worker_with(Config { rest, ..world.config() }).expect("opens");
    proxy.next(&[Fate::Expire]);
    worker.drain().expect("drains");
    let paths = proxy.seen().split_off(before).into_iter().map(|(path, token)| match token {
        Some(token) => format!("{path} {token}"),
        None => path,
    });
    let (token, table) = ("client-credentials-token:sub=sink", "/v1/namespaces/forebay/tables/trusted_events");
    let asked = format!("{table} {token}");
    let expected = ["/v1/oauth/tokens", &format!("/v1/config {token}"), &asked, &asked, "/v1/oauth/tokens", &asked];
    assert_eq!(paths.collect::<Vec<_>>(), expected);
    assert_eq!(world.ids(), ids(0, 0..2));
}

fn on_postgres(server: &Postgres) -> World {
    with_postgres(server, World::in_memory())
}

fn with_postgres(server: &Postgres, world: World) -> World {
    let world = World { catalogue: Some(CatalogueAt::Postgres(server.url("postgres"))), ..world };
    std::fs::write(world.folder.path().join("password"), format!("{}\n", server.password())).expect("writes");
    world
}

#[test]
fn a_catalogue_in_postgres() {
    let (server, (s3, bucket)) = (Postgres::start().expect("starts"), s3());
    others_read_it(&all_of_it(with_postgres(&server, World::in_bucket(bucket))), &s3);
    let row = "SELECT catalog_name, table_namespace, table_name, iceberg_type, metadata_location LIKE 's3://lake/a/b/forebay/%' FROM iceberg_tables";
    assert_eq!(server.run("postgres", row).expect("runs").trim(), "forebay|forebay|trusted_events|TABLE|t");
}

#[test]
fn a_catalogue_in_postgres_that_dies_again_and_again() {
    let server = Postgres::start().expect("starts");
    let world = Arc::new(on_postgres(&server));
    let mut worker = world.worker();
    worker.ask_again = [std::time::Duration::ZERO; 4];
    let theirs = world.clone();
    let killer = std::thread::spawn(move || {
        for n in 0..5 {
            server.kill().expect("ends");
            server.restart().expect("restarts");
            theirs.put(0, 10 * n..10 * (n + 1));
        }
        server
    });
    let mut failures = 0;
    let mut last = false;
    while !last {
        last = killer.is_finished();
        if let Err(error) = worker.drain() {
            assert!(!error.is_final(), "{error}");
            failures += 1;
            while let Err(error) = worker.begin_again() {
                assert!(!error.is_final(), "{error}");
            }
            last = false;
        }
    }
    let _server = killer.join().expect("no panic");
    assert_eq!(world.ids(), ids(0, 0..50), "after {failures} failures");
}

#[test]
fn postgres_says_who_may_not_and_what_to_look_at() {
    let server = Postgres::start().expect("starts");
    let world = on_postgres(&server);
    let refused = |world: &World, expected: &str| match world.worker_with(world.config()).err().expect("refuses") {
        error @ SinkError::Refused(Refusal::Catalogue(_)) => {
            let text = error.to_string();
            assert!(text.contains(expected) && text.contains("catalogue_password_file") && !text.contains(server.password()), "{text}");
        }
        other => panic!("{other}"),
    };
    let elsewhere = World { catalogue: Some(CatalogueAt::Postgres(server.url("nowhere"))), ..on_postgres(&server) };
    refused(&elsewhere, "nowhere");
    std::fs::write(world.folder.path().join("password"), "guessed").expect("writes");
    refused(&world, "password authentication failed");

    // Who may use the tables need not be allowed to make them.
    let world = on_postgres(&server);
    world.worker();
    let rights = format!(
        "CREATE USER sink PASSWORD '{}'; REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT SELECT, INSERT, UPDATE ON iceberg_tables TO sink;
         GRANT SELECT, INSERT ON iceberg_namespace_properties TO sink",
        server.password()
    );
    server.run("postgres", &rights).expect("runs");
    let url = server.url("postgres").replace("postgres://forebay@", "postgres://sink@");
    let world = World { catalogue: Some(CatalogueAt::Postgres(url)), ..world };
    world.put(0, 0..3);
    world.worker().drain().expect("drains");
    assert_eq!(world.ids(), ids(0, 0..3));
    server.run("postgres", "REVOKE UPDATE ON iceberg_tables FROM sink").expect("runs");
    world.put(0, 3..4);
    assert!(world.worker().drain().expect_err("refuses").is_final());
}

#!/usr/bin/env python3
"""Reads what a Forebay system keeps with other people's tools, one JSON object a line.

  readers.py DATA --with duckdb             the table's rows: event_id, event_type, partition, offset
  readers.py DATA --with pyiceberg --all    all columns (times RFC 3339, `properties` as the text it is)
  readers.py DATA --with duckdb --count     the number of rows and of different event ids (or of those in --count COLUMN)
  readers.py DATA --with duckdb --table windows
                                            another table, all columns
  readers.py DATA --table windows --sql SQL what DuckDB answers to a query that names the table as docs/table.md does
  readers.py DATA --raw                     landed requests: request_id, source, received_at, method, target, body (base64), events

DATA is the folder of `forebay dev`; its process may run. Of a system on S3: `--config FILE` instead, whose bucket the server
keeps as files in `--files DIR`. Needs tests/requirements.txt.
"""

import argparse
import base64
import datetime
import importlib.util
import json
import pathlib
import sys
import tomllib

TABLE = "trusted_events"
SHORT = ["event_id", "event_type", "provenance"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, nargs="?")
    parser.add_argument("--config", type=pathlib.Path)
    parser.add_argument("--files", type=pathlib.Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--with", dest="reader", choices=["duckdb", "pyiceberg"])
    what.add_argument("--raw", action="store_true")
    what.add_argument("--sql")
    parser.add_argument("--table", default=TABLE)
    parser.add_argument("--all", action="store_true", help="all columns")
    parser.add_argument("--count", nargs="?", const="event_id", metavar="COLUMN", help="only count")
    args = parser.parse_args()
    if bool(args.data) == bool(args.config):
        parser.error("one of DATA and --config")
    system = Bucket(args.config, args.files, args.table) if args.config else Folder(args.data.resolve(), args.table)
    everything = args.all or args.table != TABLE
    if args.raw:
        lines = raw(system.objects)
    elif args.count:
        lines = count(batches(args.reader, system, [args.count]))
    elif args.sql:
        lines = rows(by_duckdb(system, args.sql.replace(f"forebay-data/warehouse/forebay/{args.table}", "{scanned}")), True)
    else:
        lines = rows(batches(args.reader, system, None if everything else SHORT), everything)
    for line in lines:
        sys.stdout.write(json.dumps(line, default=plain, ensure_ascii=False) + "\n")


class Folder:
    """What `dev` keeps."""

    extensions = ["avro", "iceberg"]
    secret = None
    properties = {}

    def __init__(self, data, table):
        self.table = table
        self.objects = data / "objects"
        self.warehouse = str(data / "warehouse")
        self.catalogue = data / "catalog.sqlite"

    def scanned(self):
        """As a user does: the folder alone, by way of its version-hint.text."""
        return f"{self.warehouse}/forebay/{self.table}"

    def loaded(self):
        return in_sql(f"sqlite:///{self.catalogue}", self)


class Bucket:
    """What the roles keep: the table by S3's protocol, landed requests as the server's files."""

    extensions = ["httpfs", "avro", "iceberg"]

    def __init__(self, config, files, table):
        self.table = table
        config = tomllib.loads(config.read_text())
        objects, table = config["objects"], config["sink"]["table"]
        key, secret = objects["access_key_id"], pathlib.Path(objects["secret_access_key_file"]).read_text().strip()
        scheme, address = objects["endpoint"].split("://")
        self.objects = files / objects["bucket"] / objects.get("prefix", "")
        self.warehouse = table["warehouse"]
        self.catalogue = table["catalogue"]
        self.password = pathlib.Path(table["catalogue_password_file"]).read_text().strip() if "catalogue_password_file" in table else None
        self.secret = (
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION 'us-east-1', ENDPOINT '{address}', "
            f"URL_STYLE 'path', USE_SSL {scheme == 'https'})"
        )
        self.properties = {
            "s3.endpoint": objects["endpoint"],
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.region": "us-east-1",
        }

    def scanned(self):
        """In a bucket the catalogue alone says which metadata file is current."""
        return self.loaded().metadata_location

    def loaded(self):
        if self.catalogue.startswith("http"):
            from pyiceberg.catalog.rest import RestCatalog

            return RestCatalog("forebay", uri=self.catalogue, **self.properties).load_table(f"forebay.{self.table}")
        if self.catalogue.startswith("postgres"):
            from sqlalchemy import make_url

            url = make_url(self.catalogue).set(drivername="postgresql+psycopg", password=self.password)
            return in_sql(url.render_as_string(hide_password=False), self)
        return in_sql(f"sqlite:///{self.catalogue}", self)


def in_sql(url, system):
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("forebay", uri=url, warehouse=system.warehouse, **system.properties).load_table(f"forebay.{system.table}")


def batches(reader, system, columns):
    if reader == "pyiceberg":
        return by_pyiceberg(system, columns)
    quoted = ", ".join(f'"{column}"' for column in columns) if columns else "*"
    return by_duckdb(system, f"SELECT {quoted} FROM iceberg_scan('{{scanned}}')")


def by_duckdb(system, sql):
    import duckdb

    con = duckdb.connect()
    for name in system.extensions:
        con.execute(f"LOAD '{extension(name)}'")
    if system.secret:
        con.execute(system.secret)
    scanned = system.scanned().replace("'", "''")
    result = con.execute(sql.replace("{scanned}", scanned))
    return result.to_arrow_reader() if hasattr(result, "to_arrow_reader") else result.fetch_record_batch()


def extension(name):
    """The file of a DuckDB extension that PyPI brought: DuckDB's own download host may be out of reach."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations[0]
    return next(pathlib.Path(package).glob(f"extensions/*/{name}.duckdb_extension"))


def by_pyiceberg(system, columns):
    return system.loaded().scan(selected_fields=tuple(columns or ["*"])).to_arrow_batch_reader()


def rows(reader, everything):
    for batch in reader:
        for row in batch.to_pylist():
            if not everything:
                provenance = row.pop("provenance")
                row |= {"partition": provenance["partition"], "offset": provenance["offset"]}
            yield row


def count(reader):
    total, different = 0, set()
    for batch in reader:
        total += batch.num_rows
        different.update(batch.column(0).to_pylist())
    yield {"rows": total, "different": len(different)}


def raw(objects):
    import fastavro

    for path in sorted((objects / "raw").rglob("*.avro")):
        with open(path, "rb") as file:
            for record in fastavro.reader(file):
                fields = ["request_id", "source", "dialect", "received_at", "method", "target", "body", "events"]
                yield {field: record[field] for field in fields} | {"object": str(path.relative_to(objects))}


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()

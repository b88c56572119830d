#!/usr/bin/env python3
"""Reads a Forebay data folder with other people's tools, one JSON object a line.

  readers.py DATA --with duckdb             the table's rows: event_id, event_type, partition, offset
  readers.py DATA --with pyiceberg --all    all columns (times RFC 3339, `properties` as the text it is)
  readers.py DATA --with duckdb --count     the number of rows and of different event ids
  readers.py DATA --raw                     landed requests: request_id, source, received_at, method, target, body (base64), events

DATA is the folder of `forebay dev`; its process may run. Needs tests/requirements.txt.
"""

import argparse
import base64
import datetime
import importlib.util
import json
import pathlib
import sys

TABLE = "forebay.trusted_events"
SHORT = ["event_id", "event_type", "provenance"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--with", dest="reader", choices=["duckdb", "pyiceberg"])
    what.add_argument("--raw", action="store_true")
    parser.add_argument("--all", action="store_true", help="all columns")
    parser.add_argument("--count", action="store_true", help="only count")
    args = parser.parse_args()
    data = args.data.resolve()
    if args.raw:
        lines = raw(data)
    elif args.count:
        lines = count(batches(args.reader, data, ["event_id"]))
    else:
        lines = rows(batches(args.reader, data, None if args.all else SHORT), args.all)
    for line in lines:
        sys.stdout.write(json.dumps(line, default=plain, ensure_ascii=False) + "\n")


def batches(reader, data, columns):
    return {"duckdb": by_duckdb, "pyiceberg": by_pyiceberg}[reader](data, columns)


def by_duckdb(data, columns):
    import duckdb

    con = duckdb.connect()
    for name in ["avro", "iceberg"]:
        con.execute(f"LOAD '{extension(name)}'")
    folder = str(data / "warehouse/forebay/trusted_events").replace("'", "''")
    # As a user does: the folder alone, by way of its version-hint.text.
    result = con.execute(f"SELECT {', '.join(columns or ['*'])} FROM iceberg_scan('{folder}')")
    return result.to_arrow_reader() if hasattr(result, "to_arrow_reader") else result.fetch_record_batch()


def extension(name):
    """The file of a DuckDB extension that PyPI brought: DuckDB's own download host may be out of reach."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations[0]
    return next(pathlib.Path(package).glob(f"extensions/*/{name}.duckdb_extension"))


def by_pyiceberg(data, columns):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("forebay", uri=f"sqlite:///{data}/catalog.sqlite", warehouse=str(data / "warehouse"))
    return catalog.load_table(TABLE).scan(selected_fields=tuple(columns or ["*"])).to_arrow_batch_reader()


def rows(reader, everything):
    for batch in reader:
        for row in batch.to_pylist():
            if not everything:
                provenance = row.pop("provenance")
                row |= {"partition": provenance["partition"], "offset": provenance["offset"]}
            yield row


def count(reader):
    total, ids = 0, set()
    for batch in reader:
        total += batch.num_rows
        ids.update(batch.column(0).to_pylist())
    yield {"rows": total, "event_ids": len(ids)}


def raw(data):
    import fastavro

    for path in sorted((data / "objects").rglob("*.avro")):
        with open(path, "rb") as file:
            for record in fastavro.reader(file):
                fields = ["request_id", "source", "dialect", "received_at", "method", "target", "body", "events"]
                yield {field: record[field] for field in fields} | {"object": str(path.relative_to(data / "objects"))}


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

#!/usr/bin/env python3
"""Reads a topic to its end with kcat and fastavro, schemas from the registry by their ids.

  read.py BROKERS REGISTRY TOPIC    one JSON object a line, with the names of `forebay tail --json`

Needs kcat and tests/requirements.txt.
"""

import base64
import datetime
import functools
import io
import json
import struct
import subprocess
import sys
import urllib.request

import fastavro

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# Lengths before what they count, so that nothing in a record is taken for a delimiter. A length of -1 is no value.
FORMAT = "%p %o %T %K %S\n%k%s%h\n"


def main():
    brokers, registry, topic = sys.argv[1:]
    for partition, offset, millis, key, value, headers in records(brokers, topic):
        if value is None:
            shown = {"_tick": True, "published_through": time(micros=int(headers["published_through"]))}
        else:
            magic, schema_id = struct.unpack(">bI", value[:5])
            assert magic == 0, "not in Confluent's framing"
            datum = io.BytesIO(value[5:])
            shown = fastavro.schemaless_reader(datum, schema(registry, topic, schema_id))
            assert not datum.read(), "bytes after the datum"
        shown |= {"_partition": partition, "_offset": offset, "_key": key.decode(), "_timestamp": time(micros=millis * 1000)}
        print(json.dumps(shown, default=plain))


def records(brokers, topic):
    command = ["kcat", "-C", "-q", "-b", brokers, "-t", topic, "-o", "beginning", "-e", "-f", FORMAT]
    read = subprocess.run([*command, "-X", "isolation.level=read_committed"], check=True, stdout=subprocess.PIPE)
    out = io.BytesIO(read.stdout)
    while line := out.readline():
        partition, offset, millis, key_length, length = map(int, line.split())
        key, value = out.read(key_length), out.read(length) if length >= 0 else None
        headers = dict(header.split("=", 1) for header in out.readline().decode().strip().split(",") if header)
        yield partition, offset, millis, key, value, headers


@functools.cache
def schema(registry, topic, schema_id):
    with urllib.request.urlopen(f"{registry}/schemas/ids/{schema_id}?subject={topic}-value") as answer:
        return fastavro.parse_schema(json.loads(json.load(answer)["schema"]))


def time(micros):
    return EPOCH + datetime.timedelta(microseconds=micros)


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    main()

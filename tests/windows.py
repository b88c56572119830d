#!/usr/bin/env python3
"""What windows must come to, by DuckDB, from what a system has written; one JSON object a window.

  windows.py DIR        DIR holds harvested.jsonl (with ticks), trusted.jsonl, windows.jsonl and late.jsonl as `forebay tail` gives them

The windows are those of tests/windows.rs. One gateway ticks, so the watermark before a record is the highest
`published_through` in front of it, less the delay.
"""

import json
import pathlib
import sys

import duckdb

DELAY = 1_000_000
SECOND = 1_000_000

# Everything in microseconds. `key` is the key's JSON text, `vals` the values'.
EVENTS = f"""
CREATE TABLE ticks AS
  SELECT _partition AS p, _offset AS o,
         max(epoch_us(published_through::TIMESTAMPTZ)) OVER (PARTITION BY _partition ORDER BY _offset) - {DELAY} AS watermark
  FROM read_json('harvested.jsonl', columns={{_partition: 'INT', _offset: 'BIGINT', _tick: 'BOOLEAN', published_through: 'VARCHAR'}})
  WHERE _tick;
CREATE TABLE raw_events AS
  SELECT event_id, event_type, user_id, anonymous_id, session_id, epoch_us(event_time::TIMESTAMPTZ) AS ts,
         provenance.partition AS p, provenance."offset" AS o, page.path AS path, device.screen_width AS width
  FROM read_json('trusted.jsonl', columns={{event_id: 'VARCHAR', event_type: 'VARCHAR', user_id: 'VARCHAR', anonymous_id: 'VARCHAR', session_id: 'VARCHAR',
       event_time: 'VARCHAR', provenance: 'STRUCT("partition" INT, "offset" BIGINT)', page: 'STRUCT(path VARCHAR)',
       device: 'STRUCT(screen_width BIGINT)'}});
CREATE TABLE events AS
  SELECT e.*, coalesce(t.watermark, -9223372036854775807) AS watermark
  FROM raw_events e ASOF LEFT JOIN ticks t ON e.p = t.p AND t.o < e.o;
CREATE TABLE told AS
  SELECT "window" AS w, "key" AS key, epoch_us("start"::TIMESTAMPTZ) AS s, epoch_us("end"::TIMESTAMPTZ) AS e, "values" AS vals,
         revision, final, _partition AS p, _offset AS o
  FROM read_json('windows.jsonl', columns={{"window": 'VARCHAR', "key": 'VARCHAR', "start": 'VARCHAR', "end": 'VARCHAR', "values": 'VARCHAR',
       revision: 'BIGINT', final: 'BOOLEAN', _partition: 'INT', _offset: 'BIGINT'}});
CREATE TABLE late AS
  SELECT "window" AS w, epoch_us("start"::TIMESTAMPTZ) AS s, late_by_micros AS late_by, event.event_id AS event_id
  FROM read_json('late.jsonl', columns={{"window": 'VARCHAR', "start": 'VARCHAR', late_by_micros: 'BIGINT', event: 'STRUCT(event_id VARCHAR)'}});
"""

# Of each window: the events that it takes as (event_id, key, s, e, is_late, watermark, …), and its values.
TAKEN = {
    "tumbling": f"""
      SELECT *, ts // {2 * SECOND} * {2 * SECOND} AS s, s + {2 * SECOND} AS e, e <= watermark AS is_late,
             json_object('event_type', event_type, 'page.path', path)::VARCHAR AS key FROM events""",
    "sliding": f"""
      SELECT *, ts // {2 * SECOND} * {2 * SECOND} - n * {2 * SECOND} AS s, s + {6 * SECOND} AS e, e + {SECOND} <= watermark AS is_late,
             '{{}}' AS key FROM events, range(3) AS r(n) WHERE event_type <> 'page_viewed'""",
    "sketches": f"""
      SELECT *, ts // {10 * SECOND} * {10 * SECOND} AS s, s + {10 * SECOND} AS e, e <= watermark AS is_late,
             json_object('event_type', event_type)::VARCHAR AS key FROM events""",
    # Who is late for a session depends on the sessions there were: what was called late is left out, and counted below.
    "sessions": f"""
      WITH mine AS (
        SELECT *, json_object('anonymous_id', anonymous_id)::VARCHAR AS key FROM events
        WHERE anonymous_id IS NOT NULL AND event_id NOT IN (SELECT event_id FROM late WHERE w = 'sessions')
      ), begun AS (
        SELECT *, ts - coalesce(lag(ts) OVER (PARTITION BY p, key ORDER BY ts), ts - {SECOND}) >= {SECOND} AS begins FROM mine
      ), numbered AS (
        SELECT *, sum(begins::INT) OVER (PARTITION BY p, key ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM begun
      )
      SELECT *, min(ts) OVER (PARTITION BY p, key, n) AS s, max(ts) OVER (PARTITION BY p, key, n) + {SECOND} AS e, false AS is_late
      FROM numbered""",
}
VALUES = {
    "tumbling": "'{\"n\":' || count(*) || ',\"users\":' || count(user_id) || ',\"widest\":' || coalesce(max(width)::VARCHAR, 'null')"
    " || ',\"widths\":' || coalesce(sum(width), 0) || '}'",
    "sliding": "'{\"count\":' || count(*) || '}'",
    # Exact; what was told is compared within the sketches' errors.
    "sketches": "to_json({'ids': count(DISTINCT session_id), 'widths': list_sort(list(width) FILTER (width IS NOT NULL)),"
    " 'paths': map_entries(histogram(path) FILTER (path IS NOT NULL))})::VARCHAR",
    "sessions": "to_json({'count': count(*), 'paths': count(DISTINCT path)})::VARCHAR",
}


def main():
    folder = pathlib.Path(sys.argv[1])
    con = duckdb.connect()
    con.execute(f"SET file_search_path = '{folder}'")
    con.execute(EVENTS)
    for window in TAKEN:
        print(json.dumps(compare(con, window)))


def compare(con, window):
    con.execute(f"CREATE OR REPLACE TABLE taken AS {TAKEN[window]}")
    # Sessions of one key on two partitions are two.
    by = "p, key, s, e" if window == "sessions" else "key, s, e"
    con.execute(f"CREATE OR REPLACE TABLE expected AS SELECT key, s, e, {VALUES[window]} AS vals FROM taken WHERE NOT is_late GROUP BY {by}")
    con.execute(
        f"""CREATE OR REPLACE TABLE last AS SELECT * FROM told WHERE w = '{window}'
            QUALIFY row_number() OVER (PARTITION BY p, key, s ORDER BY revision DESC) = 1"""
    )
    differences = []

    def none(what, query):
        found = con.execute(query).fetchall()
        if found:
            differences.append({"what": what, "count": len(found), "first": [str(value) for value in found[0]]})

    near = {"sketches": sketched, "sessions": sessions}.get(window)
    if near:
        differences += near(con)
    columns = "key, s, e" if near else "key, s, e, vals"
    live = f"SELECT {columns} FROM last WHERE NOT (s = e AND final)"
    none("missing", f"SELECT * FROM (SELECT {columns} FROM expected EXCEPT ALL {live})")
    none("told and not so", f"SELECT * FROM ({live} EXCEPT ALL SELECT {columns} FROM expected)")
    none("not final", "SELECT * FROM last WHERE NOT final")
    none(
        "revisions",
        f"""SELECT p, key, s, list(revision ORDER BY o) FROM told WHERE w = '{window}' GROUP BY p, key, s
            HAVING list(revision ORDER BY o) <> range(1, count(*) + 1) OR list(final ORDER BY o)[:-2] <> list_transform(range(count(*) - 1), x -> false)""",
    )
    if window == "sessions":
        counted = con.execute("SELECT count(*) FROM events WHERE anonymous_id IS NOT NULL").fetchone()[0]
        told = con.execute("SELECT coalesce(sum((vals->>'count')::BIGINT), 0) FROM last").fetchone()[0]
        late = con.execute("SELECT count(*) FROM late WHERE w = 'sessions'").fetchone()[0]
        if counted != told + late:
            differences.append({"what": "events", "taken": counted, "told": told, "late": late})
    else:
        expected = """SELECT event_id, max(s) AS s, min(watermark - e) AS late_by FROM taken WHERE is_late GROUP BY event_id"""
        actual = f"SELECT event_id, s, late_by FROM late WHERE w = '{window}'"
        none("late and not told", f"({expected}) EXCEPT ALL ({actual})")
        none("told as late and not so", f"({actual}) EXCEPT ALL ({expected})")
    counts = con.execute(
        f"SELECT (SELECT count(*) FROM expected), (SELECT count(DISTINCT event_id) FROM taken), (SELECT count(*) FROM late WHERE w = '{window}')"
    ).fetchone()
    return {"window": window, "results": counts[0], "events": counts[1], "late": counts[2], "differences": differences}


def pairs(con):
    """What results are, and what was told, by window and key."""
    for exact, told in con.execute("SELECT e.vals, l.vals FROM expected e JOIN last l USING (key, s, e)").fetchall():
        yield json.loads(exact), json.loads(told)


def is_far(exact, told):
    """Five standard errors of 1.6 %; of few values the estimate is nearly exact."""
    return abs(told - exact) > max(1, 0.08 * exact)


def sessions(con):
    """Where a session's count is wrong, or its sketch further from the truth than its stated error."""
    for exact, told in pairs(con):
        if exact["count"] != told["count"] or is_far(exact["paths"], told["paths"]):
            yield {"what": "session", "exact": exact, "told": told}


def sketched(con):
    """Where a sketch is further from the truth than its stated error."""
    for exact, told in pairs(con):
        if is_far(exact["ids"], told["ids"]):
            yield {"what": "distinct", "exact": exact["ids"], "told": told["ids"]}
        widths = exact["widths"] or []
        middle = widths[(len(widths) - 1) // 2] if widths else None
        if (middle is None) != (told["middle"] is None) or (middle is not None and abs(told["middle"] - middle) > 0.0101 * middle):
            yield {"what": "quantile", "exact": middle, "told": told["middle"]}
        paths = {entry["key"]: entry["value"] for entry in exact["paths"] or []}
        for entry in told["most"]:
            if not entry["count"] <= paths.get(entry["value"], 0) <= entry["count"] + entry["error"]:
                yield {"what": "top", "exact": paths, "told": told["most"]}
        if len(told["most"]) != min(3, len(paths)) or (paths and told["most"][0]["count"] != max(paths.values())):
            yield {"what": "top", "exact": paths, "told": told["most"]}


if __name__ == "__main__":
    main()

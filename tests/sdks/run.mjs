// Plays unmodified browser SDKs in Chromium against `forebay dev`, and compares what comes out with what the pages did.
//
// FOREBAY_BIN: the binary. FOREBAY_SDKS: the folder with node_modules of package.json. FOREBAY_CHROMIUM: the browser.
// FOREBAY_SDKS_PORT: three ports from this one on, instead of free ones. An argument: only the SDKs whose names contain it. Exits 1 on any difference.

import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const BIN = process.env.FOREBAY_BIN ?? "forebay";
const MODULES = process.env.FOREBAY_SDKS ?? HERE;
const CHROMIUM = process.env.FOREBAY_CHROMIUM ?? "/usr/bin/chromium";
const PORT = Number(process.env.FOREBAY_SDKS_PORT ?? 0);
const require = createRequire(join(MODULES, "package.json"));
const { chromium } = require("playwright-core");
const esbuild = require("esbuild");

// What each page does: LOADS times loaded, one identify, one page call, tracks 0 to 8; then tracks while the server is
// killed, and some when it is back. `lossy`: the SDK does not send again what was not answered; of those around the kill
// it may lose some, never double any. `unknown`: rejects by name are as it should
// be: Mixpanel's SDK updates the profile of who is identified, and no type is called so.
const LOADS = 3;
const CALLS = 9;
const KILLED = Array.from({ length: 30 }, (_, i) => 100 + i);
const AFTER = [200, 201, 202, 203, 204];
const shop = { product_clicked: CALLS, user_identified: 1, page_viewed: 1 };
const posthog = { product_clicked: CALLS, user_identified: 1, page_viewed: LOADS, page_left: LOADS - 1 };
const amplitude = { product_clicked: CALLS, user_identified: 1, page_viewed: LOADS, session_started: 1 };
const mixpanel = { product_clicked: CALLS, user_identified: 1, page_viewed: LOADS };
const snowplow = { structured_event: CALLS, page_viewed: 1 };
const batching = { deliveryStrategy: { strategy: "batching", config: { size: 4, timeout: 500 } } };
const SDKS = [
  { name: "segment-latest", page: "segment", expect: shop },
  { name: "segment-latest-batching", page: "segment", package: "segment-latest", options: batching, expect: shop },
  { name: "segment-151", page: "segment", expect: shop },
  { name: "snowplow-4-post", page: "snowplow", package: "snowplow-4", options: { eventMethod: "post" }, expect: snowplow },
  { name: "snowplow-4-get", page: "snowplow", package: "snowplow-4", options: { eventMethod: "get" }, expect: snowplow },
  { name: "snowplow-3-post", page: "snowplow", package: "snowplow-3", options: { eventMethod: "post" }, expect: snowplow },
  { name: "snowplow-3-get", page: "snowplow", package: "snowplow-3", options: { eventMethod: "get" }, expect: snowplow },
  { name: "snowplow-3-beacon", page: "snowplow", package: "snowplow-3", options: { eventMethod: "beacon" }, expect: snowplow, lossy: true },
  { name: "posthog-latest", page: "posthog", expect: posthog },
  { name: "posthog-1200", page: "posthog", expect: posthog },
  { name: "posthog-196", page: "posthog", expect: posthog },
  { name: "rudder", page: "rudder", entry: "rudder/bundled", expect: shop },
  { name: "rudder-beacon", page: "rudder", package: "rudder", entry: "rudder/bundled", options: { useBeacon: true, beaconQueueOptions: { flushQueueInterval: 500 } }, expect: shop, lossy: true },
  { name: "jitsu", page: "jitsu", expect: shop, lossy: true },
  { name: "amplitude", page: "amplitude", expect: amplitude },
  { name: "amplitude-js", page: "amplitude-js", expect: shop },
  { name: "mixpanel", page: "mixpanel", expect: mixpanel, unknown: true },
].filter((sdk) => sdk.name.includes(process.argv[2] ?? ""));

/** Jitsu takes no key without a secret. */
const key = (sdk) => `key_${sdk.name.replaceAll("-", "_")}${sdk.page === "jitsu" ? ":secret" : ""}`;

function configuration(path) {
  const source = (sdk) => {
    const hash = createHash("sha256").update(key(sdk)).digest("hex");
    const known = sdk.page === "snowplow" ? `app_ids = ["${key(sdk)}"]` : `write_keys = ["sha256:${hash}"]`;
    return `[[source]]\nname = "${sdk.name}"\n${known}\n`;
  };
  writeFileSync(path, SDKS.map(source).join("\n"));
}

/** `forebay dev` on fixed ports, so that it comes back where the SDKs know it. */
class Server {
  constructor(folder, ports) {
    this.data = join(folder, "data");
    this.config = join(folder, "forebay.toml");
    [this.listen, this.admin] = ports.map((port) => `127.0.0.1:${port}`);
    configuration(this.config);
  }
  async start() {
    const args = ["dev", "--config", this.config, "--data", this.data, "--listen", this.listen, "--admin", this.admin];
    this.child = spawn(BIN, args, { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, FOREBAY_LOG: "error" } });
    for (let i = 0; i < 200; i++) {
      const answer = await fetch(`http://${this.listen}/v1/limits`).catch(() => null);
      if (answer?.ok) return;
      await sleep(50);
    }
    throw new Error("forebay dev does not answer");
  }
  async stop(signal) {
    const gone = new Promise((done) => this.child.once("exit", done));
    this.child.kill(signal);
    await gone;
  }
  ask(...args) {
    const { stdout, stderr, status } = spawnSync(BIN, [...args, "--json", "--data", this.data], { maxBuffer: 1 << 28, encoding: "utf8" });
    if (status !== 0) throw new Error(`forebay ${args.join(" ")}: ${stderr}`);
    return stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }
  trusted() {
    return this.ask("tail", "trusted", "--until-idle", "1");
  }
}

async function port(n) {
  const probe = createServer().listen(PORT && PORT + n, "127.0.0.1");
  await new Promise((done) => probe.once("listening", done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

/** Another port than Forebay's: to a browser another origin. */
async function pages() {
  const scripts = new Map();
  for (const sdk of SDKS) {
    const alias = { SDK: sdk.entry ?? sdk.package ?? sdk.name };
    const entryPoints = [join(HERE, "pages", `${sdk.page}.js`)];
    const nodePaths = [join(MODULES, "node_modules")];
    const define = { "process.env.NODE_ENV": '"production"' };
    const built = await esbuild.build({ entryPoints, alias, nodePaths, define, bundle: true, write: false, format: "iife", logLevel: "error" });
    scripts.set(`/${sdk.name}.js`, built.outputFiles[0].text);
  }
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://any").pathname;
    const script = scripts.get(path);
    response.setHeader("Content-Type", script ? "text/javascript" : "text/html; charset=utf-8");
    const name = path.slice(1);
    const head = scripts.has(`/${name}.js`) ? `<script src="/${name}.js"></script>` : "";
    response.end(script ?? `<!doctype html><link rel="icon" href="data:,"><title>${name}</title>${head}`);
  }).listen(PORT && PORT + 2, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  return server;
}

/** One SDK in a browser profile of its own. */
class Visit {
  constructor(sdk, host, site) {
    Object.assign(this, { sdk, host, site, problems: [], down: false });
  }
  async open(browser) {
    const context = await browser.newContext();
    this.page = await context.newPage();
    const problem = (text) => this.down || this.problems.push(text);
    this.page.on("console", (line) => line.type() === "error" && problem(`console: ${line.text()}`));
    this.page.on("pageerror", (error) => problem(`script: ${error.message}`));
    this.page.on("requestfailed", (request) => {
      // A page that is left cuts what it waits for; the SDK's copy is sent again and the ids tell.
      const reason = request.failure()?.errorText;
      if (reason !== "net::ERR_ABORTED") problem(`${request.method()} ${request.url().slice(0, 90)}: ${reason}`);
    });
    this.page.on("response", (answer) => {
      if (answer.status() >= 400) problem(`${answer.status()} ${answer.request().method()} ${answer.url().slice(0, 90)}`);
      if (process.env.VERBOSE) console.log(this.sdk.name, answer.status(), answer.request().method(), answer.url().slice(0, 100));
    });
  }
  async start() {
    const start = this.page.evaluate(([host, key, options]) => window.sdk.start(host, key, options), [this.host, key(this.sdk), this.sdk.options ?? {}]);
    const late = sleep(10_000).then(() => Promise.reject(new Error("the SDK did not start in 10 s")));
    await Promise.race([start, late]);
  }
  track(n) {
    return this.page.evaluate((n) => window.sdk.track(n), n);
  }
  async browse() {
    const { page, sdk, site } = this;
    await page.goto(`${site}/${sdk.name}`);
    await this.start();
    await page.evaluate(() => {
      window.sdk.identify();
      for (let n = 0; n < 5; n++) window.sdk.track(n);
      window.sdk.page();
    });
    await sleep(4000);
    await page.evaluate(() => {
      window.sdk.track(5);
      setTimeout(() => location.assign("/left"), 0);
    });
    await page.waitForURL("**/left");
    await sleep(1000);
    await page.goto(`${site}/${sdk.name}`);
    await this.start();
    await this.track(6);
    await sleep(4000);
    await this.track(7);
    await page.reload();
    await this.start();
    await this.track(8);
    await sleep(4000);
  }
  async trackOn(calls) {
    for (const n of calls) {
      await this.track(n);
      await sleep(150);
    }
  }
}

const marker = (event) => {
  const properties = JSON.parse(event.properties);
  return event.event_type === "structured_event" ? properties.value : Number(properties.product_id.slice(1));
};

function judge(visit, trusted, rejects) {
  const { sdk } = visit;
  const problems = [...new Set(visit.problems)];
  const own = trusted.filter((event) => event.source === sdk.name);
  const ids = own.map((event) => event.event_id);
  if (new Set(ids).size !== ids.length) problems.push("an event id is there twice");
  const seen = new Map();
  const types = {};
  for (const event of own) {
    const clicks = ["product_clicked", "structured_event"].includes(event.event_type);
    const n = clicks ? marker(event) : -1;
    if (clicks) seen.set(n, (seen.get(n) ?? 0) + 1);
    if (n < 100) types[event.event_type] = (types[event.event_type] ?? 0) + 1;
  }
  for (const [type, count] of Object.entries(sdk.expect)) {
    if (types[type] !== count) problems.push(`${type}: ${types[type] ?? 0} instead of ${count}`);
  }
  for (const [n, times] of seen) if (times > 1) problems.push(`call ${n} is there ${times} times`);
  const lost = KILLED.filter((n) => !seen.has(n));
  if (lost.length && !sdk.lossy) problems.push(`lost around the kill: ${lost}`);
  const after = AFTER.filter((n) => !seen.has(n));
  if (after.length) problems.push(`lost after the kill: ${after}`);
  const rejected = rejects.filter((reject) => reject.source === sdk.name && !(sdk.unknown && reject.reason === "unknown_event_type"));
  for (const reject of rejected) problems.push(`reject: ${reject.stage} ${reject.reason} ${reject.detail}`);
  const version = JSON.parse(readFileSync(join(MODULES, "node_modules", sdk.package ?? sdk.name, "package.json"))).version;
  return { name: sdk.name, version, types: JSON.stringify(types), killed: `${KILLED.length - lost.length}/${KILLED.length}`, problems };
}

async function main() {
  const folder = mkdtempSync(join(tmpdir(), "forebay-sdks-"));
  const server = new Server(folder, [await port(0), await port(1)]);
  const site = await pages();
  let browser;
  let bad = true;
  try {
    await server.start();
    const args = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync";
    browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: args.split(" ") });
    const visits = SDKS.map((sdk) => new Visit(sdk, `http://${server.listen}`, `http://127.0.0.1:${site.address().port}`));
    const all = (act) => Promise.all(visits.map((visit) => act(visit).catch((error) => visit.problems.push(`${error.message}`.split("\n")[0]))));
    await all((visit) => visit.open(browser));
    await all((visit) => visit.browse());
    console.log("browsed; now the server is killed while the pages go on");
    for (const visit of visits) visit.down = true;
    const tracking = all((visit) => visit.trackOn(KILLED));
    await sleep(1500);
    await server.stop("SIGKILL");
    await sleep(1000);
    await server.start();
    await tracking;
    await all((visit) => visit.trackOn(AFTER));
    await settle(server, visits);
    const trusted = server.trusted();
    const rejects = server.ask("bad", "ls");
    const rows = visits.map((visit) => judge(visit, trusted, rejects));
    for (const row of rows) {
      console.log(`${row.name.padEnd(25)} ${row.version.padEnd(9)} ${row.types.padEnd(70)} kill ${row.killed} ${row.problems.length ? "FAILED" : "ok"}`);
      for (const problem of row.problems) console.log(`    ${problem}`);
    }
    bad = rows.some((row) => row.problems.length);
  } finally {
    await browser?.close();
    await server.stop("SIGTERM");
    site.close();
    if (bad) console.log(`data: ${server.data}`);
    else rmSync(folder, { recursive: true });
  }
  process.exitCode = bad ? 1 : 0;
}

/** SDKs wait up to half a minute before they try again. */
async function settle(server, visits) {
  const patient = visits.filter((visit) => !visit.sdk.lossy).map((visit) => visit.sdk.name);
  for (let i = 0; i < 12; i++) {
    await sleep(4000);
    const there = server.trusted().filter((event) => patient.includes(event.source) && ["product_clicked", "structured_event"].includes(event.event_type));
    if (new Set(there.map((event) => `${event.source} ${marker(event)}`)).size >= patient.length * (CALLS + KILLED.length + AFTER.length)) return;
  }
}

await main();

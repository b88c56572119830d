import posthog from "SDK";

window.sdk = {
  async start(host, key, options) {
    // Headless browsers count as bots, whose events the SDK drops by itself.
    const loaded = new Promise((loaded) => posthog.init(key, { api_host: host, opt_out_useragent_filter: true, loaded, ...options }));
    await loaded;
  },
  identify: () => posthog.identify("user-1", { plan: "gold" }),
  // The SDK tells page views and leaves by itself.
  page: () => {},
  track: (n) => posthog.capture("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

import mixpanel from "SDK";

window.sdk = {
  async start(host, key, options) {
    await new Promise((loaded) => mixpanel.init(key, { api_host: host, persistence: "localStorage", track_pageview: true, loaded, ...options }));
  },
  identify: () => mixpanel.identify("user-1"),
  // The SDK tells page views by itself.
  page: () => {},
  track: (n) => mixpanel.track("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

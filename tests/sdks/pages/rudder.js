import { RudderAnalytics } from "SDK";

const analytics = new RudderAnalytics();
window.sdk = {
  async start(host, key, options) {
    analytics.load(key, host, { configUrl: host, ...options });
    await new Promise((done) => analytics.ready(done));
  },
  identify: () => analytics.identify("user-1", { plan: "gold" }),
  page: () => analytics.page("Shop"),
  track: (n) => analytics.track("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

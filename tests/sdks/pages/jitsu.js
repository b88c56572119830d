import { jitsuAnalytics } from "SDK";

let analytics;
window.sdk = {
  async start(host, key, options) {
    analytics = jitsuAnalytics({ host, writeKey: key, ...options });
  },
  identify: () => void analytics.identify("user-1", { plan: "gold" }),
  page: () => void analytics.page("Shop"),
  track: (n) => void analytics.track("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

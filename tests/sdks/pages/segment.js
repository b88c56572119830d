import { AnalyticsBrowser } from "SDK";

let analytics;
window.sdk = {
  async start(host, key, options) {
    const segment = { apiHost: `${host.replace("http://", "")}/v1`, protocol: "http", ...options };
    analytics = AnalyticsBrowser.load({ writeKey: key, cdnURL: host }, { integrations: { "Segment.io": segment } });
    await analytics;
  },
  identify: () => void analytics.identify("user-1", { plan: "gold" }),
  page: () => void analytics.page("Shop"),
  track: (n) => void analytics.track("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

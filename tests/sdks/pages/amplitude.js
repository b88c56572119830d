import * as amplitude from "SDK";

window.sdk = {
  async start(host, key, options) {
    const autocapture = { pageViews: true, sessions: true, attribution: false, fileDownloads: false, formInteractions: false, elementInteractions: false };
    await amplitude.init(key, undefined, { serverUrl: `${host}/2/httpapi`, fetchRemoteConfig: false, autocapture, ...options }).promise;
  },
  identify: () => {
    amplitude.setUserId("user-1");
    amplitude.identify(new amplitude.Identify().set("plan", "gold"));
  },
  // The SDK tells page views by itself.
  page: () => {},
  track: (n) => void amplitude.track("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

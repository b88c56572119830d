import amplitude from "SDK";

let instance;
window.sdk = {
  async start(host, key, options) {
    instance = amplitude.getInstance();
    await new Promise((started) => instance.init(key, null, { apiEndpoint: host.replace("http://", ""), forceHttps: false, ...options }, started));
  },
  identify: () => {
    instance.setUserId("user-1");
    instance.identify(new amplitude.Identify().set("plan", "gold"));
  },
  page: () => void instance.logEvent("Page Viewed"),
  track: (n) => void instance.logEvent("Product Clicked", { product_id: `m${n}`, price: 9.5 }),
};

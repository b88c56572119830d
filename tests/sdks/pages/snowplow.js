import { newTracker, setUserId, trackPageView, trackStructEvent } from "SDK";

window.sdk = {
  async start(host, key, options) {
    newTracker("sp", host, { appId: key, ...options });
  },
  identify: () => setUserId("user-1"),
  page: () => trackPageView(),
  track: (n) => trackStructEvent({ category: "shop", action: "product clicked", value: n }),
};

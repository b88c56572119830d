//! The table of routes, row by row.

use super::*;

fn name(method: &str, target: &str) -> String {
    match route(&Method::from_bytes(method.as_bytes()).expect("a method"), target) {
        Route::Events(r) => {
            format!("{} {:?} {:?} {:?}{}", r.dialect.name(), r.form, r.audience, r.reply, r.call.map_or(String::new(), |c| format!(" {c}")))
        }
        Route::Startup(s) => format!("{s:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn requests_of_the_sdks_have_their_routes() {
    for (request, expected) in [
        ("POST /v1/events", "native Body Server Native"),
        ("GET /v1/pixel.gif?event_type=x", "native Query Browser Pixel"),
        ("GET /v1/limits", "Limits"),
        ("POST /v1/t", "segment Body Browser Segment track"),
        ("POST /v1/b", "segment Body Browser Segment"),
        ("POST /v1/batch", "segment Body Server Segment"),
        ("POST /v1/batch/", "segment Body Server Segment"),
        ("POST /v1/identify", "segment Body Server Segment identify"),
        ("POST /beacon/v1/batch?writeKey=k", "segment Body Browser Segment"),
        ("POST /api/s/page", "segment Body Browser Jitsu page"),
        ("GET /pixel/v1/track?writeKey=k&event=x", "segment Query Browser Pixel track"),
        ("GET /api/px/page?data=e30", "segment QueryData Browser Pixel page"),
        ("POST /api/px/page", "MethodNotAllowed(\"GET, HEAD, OPTIONS\")"),
        ("POST /i/v1/analytics/events", "posthog Body Server PosthogResults"),
        ("POST /api/s/s2s/batch", "segment Body Server Jitsu"),
        ("GET /v1/projects/wk/settings", "SegmentSettings { write_key: \"wk\" }"),
        ("POST /v1/m", "SegmentMetrics"),
        ("GET /sourceConfig/?p=npm&writeKey=wk", "RudderSourceConfig { write_key: \"wk\" }"),
        ("POST /com.snowplowanalytics.snowplow/tp2", "snowplow Body Browser Snowplow"),
        ("GET /i?e=pv", "snowplow Query Browser Pixel"),
        ("HEAD /ice.png?e=pv", "snowplow Query Browser Pixel"),
        ("POST /com.acme/track", "snowplow BodyOfShape Browser Snowplow"),
        ("GET /com.acme/track?e=pv", "snowplow Query Browser Pixel"),
        ("GET /images/logo.png", "NotFound"),
        ("POST /e/?ip=1&_=1796021424506&ver=1.96", "posthog Body Browser PosthogNumber"),
        ("GET /e/?data=e30", "posthog QueryData Browser PosthogNumber"),
        ("POST /i/v0/e/", "posthog Body Browser PosthogText"),
        ("POST /batch/", "posthog Body Server PosthogText"),
        ("GET /track?data=e30", "posthog QueryData Browser PosthogNumber"),
        ("POST /2/httpapi", "amplitude Body Server Amplitude"),
        ("POST /", "amplitude Fields Browser AmplitudeText"),
        ("POST /import?strict=1", "mixpanel Body Server MixpanelImport"),
        ("GET /groups/?data=e30", "mixpanel QueryData Browser Mixpanel"),
        ("POST /mp/collect?measurement_id=G-1&api_secret=s", "ga4 Body Server Ga4"),
        ("POST /mp/collect/?firebase_app_id=1", "ga4 Body Server Ga4"),
        ("GET /mp/collect?e=pv", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("POST /debug/mp/collect?api_secret=s", "Ga4Validation"),
        ("GET /debug/mp/collect", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("POST /v1/cloudevents", "cloudevents Body Server Native"),
        ("GET /v1/cloudevents", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("POST /decide/?v=3", "PosthogDecide"),
        ("POST /flags/?v=2", "PosthogFlags"),
        ("GET /array/phc_demo/config.js", "PosthogConfigScript { token: \"phc_demo\" }"),
        ("GET /array/phc_demo/config?ip=0", "PosthogConfig { token: \"phc_demo\" }"),
        ("GET /array/a'b/config.js", "NotFound"),
        ("OPTIONS /anything", "Preflight"),
        ("GET /v1/batch", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("GET /batch", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("PUT /batch", "MethodNotAllowed(\"GET, HEAD, POST, OPTIONS\")"),
        ("DELETE /v1/events", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("POST /v1/pixel.gif", "MethodNotAllowed(\"GET, HEAD, OPTIONS\")"),
        ("GET /v1/m", "MethodNotAllowed(\"POST, OPTIONS\")"),
        ("GET /", "NotFound"),
        ("GET /nowhere", "NotFound"),
        ("DELETE /com.acme/track", "NotFound"),
        ("POST /a/b/c", "NotFound"),
        ("GET //?e=pv", "NotFound"),
    ] {
        let (method, target) = request.split_once(' ').expect("method and target");
        assert_eq!(name(method, target), expected, "{request}");
    }
}

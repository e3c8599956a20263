// A link from another site arrives without the cookie: ask once more from here.
const key = `asked ${location.pathname}`;
const came = performance.getEntriesByType("navigation")[0];
if (!sessionStorage.getItem(key) && document.referrer && new URL(document.referrer).origin !== location.origin && came) {
  sessionStorage.setItem(key, "1");
  location.replace(location.href);
} else {
  sessionStorage.removeItem(key);
}

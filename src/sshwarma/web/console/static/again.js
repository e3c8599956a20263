// A link on a page of another site arrives without the cookie: ask once more from here. A fragment alone would be
// no other address, and nothing be asked.
const query = new URLSearchParams(location.search);
query.set("again", "");
location.replace(`${location.pathname}?${query}${location.hash}`);

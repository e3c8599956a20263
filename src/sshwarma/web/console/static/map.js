// The map begins where the viewer is.
const map = document.querySelector(".map");
const here = map?.querySelector(".is-here .room");
if (here) {
  const place = here.getBoundingClientRect();
  const frame = map.getBoundingClientRect();
  map.scrollLeft += place.left + place.width / 2 - frame.left - frame.width / 2;
  map.scrollTop += place.top + place.height / 2 - frame.top - frame.height / 2;
}

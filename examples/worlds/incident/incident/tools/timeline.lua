-- Adds an entry to the timeline, or shows it.
-- @param text string? What happened
local state = host.state("room")
if args.text then
  local n = state.add("entries", 1)
  state.set(string.format("entry %04d", n), os.date("!%H:%M ", now) .. caller.name .. ": " .. args.text)
  return "Entry " .. n .. "."
end
local lines = {}
local all = state.all()
for key, value in sorted_pairs(all) do
  if key:sub(1, 6) == "entry " then lines[#lines + 1] = value end
end
return #lines > 0 and lines or "The timeline is empty."

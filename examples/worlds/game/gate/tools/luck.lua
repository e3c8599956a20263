-- Tries your luck: a die at the gate, the cup of gold in the cave, the slate in the garden.
-- @param sides integer=6 Sides of the die at the gate
local points, cup = host.state("tool"), host.state("room")
if room.name == "garden" then
  local lines = {}
  for name, count in sorted_pairs(points.all()) do lines[#lines + 1] = name .. ": " .. count end
  return #lines > 0 and lines or "No name is on the slate yet."
end
if room.name ~= "cave" then
  if args.sides < 2 then return "A die has two sides at least." end
  return caller.name .. " rolls " .. math.random(args.sides) .. " of " .. args.sides .. "."
end
local finder = cup.get("finder")
if finder == caller.name then return "You have found it last. Let others search." end
local rolled = math.random(6)
if rolled < 5 then return caller.name .. " rolls " .. rolled .. ", and finds bones." end
if not cup.swap("finder", finder, caller.name) then return "Somebody was quicker." end
local total = points.add(caller.name, 10)
return caller.name .. " rolls " .. rolled .. ", and finds the cup of gold: " .. total .. " points. The next one hides it again."

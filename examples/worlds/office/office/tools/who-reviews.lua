-- Says whose turn it is to review, and takes the next in turn.
-- @param team string Names with commas, in the order of their turns
local names = {}
for name in args.team:gmatch("[^,%s]+") do names[#names + 1] = name end
if #names == 0 then error("team: give at least one name") end
local turn = host.state("room").add("reviews", 1)
return names[(turn - 1) % #names + 1] .. " reviews."
